//! Compressed records (types 81 and 83): their payloads, joined, are one zstd stream that is flushed but
//! seldom ended (`tools/perf/util/zstd.c`); decompressed it is again a stream of records.
//! Block layout: RFC 8878, section 3.1.1.2.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::record::{FrameError, split_record};

/// What expands more than this must be records all the way: `perf`'s own data compress 3 to 30 times, but a thousand
/// times where recorded stacks are empty.
const MAX_RATIO: usize = 256;
/// Even records may not fill more memory beyond that ratio: a bomb expands 30,000 times.
const MAX_SIZE: usize = 1 << 30;

/// An empty raw block marked as the last one, and room for a checksum: ends a stream that was only flushed,
/// so that the decoder gives up the bytes it holds back as its window.
const END: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Decompresses the joined payloads; a last block that is cut off is dropped, as `perf` drops it.
pub(crate) fn decompress(payload: &[u8]) -> Result<Vec<u8>, String> {
    let limit = payload
        .len()
        .saturating_mul(MAX_RATIO)
        .saturating_add(1 << 20);
    let mut framed = Framed::default();
    let mut out = Vec::new();
    let mut source = payload;
    let mut decoder = FrameDecoder::new();
    while !source.is_empty() {
        decoder.reset(&mut source).map_err(|e| e.to_string())?;
        while !decoder.is_finished() {
            if next_block(source).is_some_and(|len| len <= source.len()) {
                step(&mut decoder, &mut source)?;
            } else {
                source = &[];
                step(&mut decoder, &mut END.as_slice())?;
            }
            decoder
                .collect_to_writer(&mut out)
                .map_err(|e| e.to_string())?;
            if out.len() > limit {
                if !framed.are_records(&out) {
                    return Err(format!(
                        "they expand more than {MAX_RATIO} times, and not to records"
                    ));
                }
                if out.len() > limit.max(MAX_SIZE) {
                    return Err(format!(
                        "they expand to more than {} MiB and {MAX_RATIO} times",
                        MAX_SIZE >> 20
                    ));
                }
            }
        }
    }
    Ok(out)
}

/// How far what was decompressed has been seen to be records.
#[derive(Default)]
struct Framed {
    until: usize,
}

impl Framed {
    /// Whether all whole records in `out` are framed as records are.
    fn are_records(&mut self, out: &[u8]) -> bool {
        while let Some(rest) = out.get(self.until..) {
            match split_record(rest) {
                Ok((_, len)) => self.until = self.until.saturating_add(len),
                Err(FrameError::Truncated) => return true,
                Err(FrameError::Size(_)) => return false,
            }
        }
        true
    }
}

fn step(decoder: &mut FrameDecoder, source: &mut &[u8]) -> Result<(), String> {
    decoder
        .decode_blocks(source, BlockDecodingStrategy::UptoBlocks(1))
        .map(drop)
        .map_err(|e| e.to_string())
}

/// Length of the block at the start of `source` with its 3-byte header: last(1), type(2), size(21).
fn next_block(source: &[u8]) -> Option<usize> {
    let &[a, b, c] = source.first_chunk::<3>()?;
    let header = u32::from_le_bytes([a, b, c, 0]);
    let run_length = (header >> 1) & 3 == 1;
    Some(
        3 + if run_length {
            1
        } else {
            (header >> 3) as usize
        },
    )
}

#[cfg(test)]
mod tests {
    use super::decompress;

    /// A frame of raw and run-length blocks, written by hand after RFC 8878.
    fn frame(ended: bool) -> Vec<u8> {
        let mut f = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58]; // no flags, a window of 2 MiB
        f.extend([5 << 3, 0, 0]);
        f.extend(b"hello");
        let run = (100u32 << 3) | (1 << 1) | u32::from(ended);
        f.extend(run.to_le_bytes().get(..3).unwrap());
        f.push(b'x');
        f
    }

    #[test]
    fn a_flushed_stream_gives_all_its_bytes() {
        for ended in [false, true] {
            let out = decompress(&frame(ended)).unwrap();
            assert_eq!(out.len(), 105);
            assert!(out.starts_with(b"hellox"));
        }
        let mut cut = frame(false);
        cut.extend([5 << 3, 0, 0, b'a']);
        assert_eq!(decompress(&cut).unwrap().len(), 105);
    }

    /// Stacks of zeros, as `perf record -z -g dwarf` has them: 1086 times in one of perf's own recordings.
    #[test]
    fn records_may_expand_a_thousand_times() {
        let mut f = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
        let mut records = 0;
        for _ in 0..256 {
            // A record's header, then 65,528 - 8 zeros by run length.
            f.extend((8u32 << 3).to_le_bytes().iter().take(3));
            f.extend([9, 0, 0, 0, 0, 0, 0xf8, 0xff]);
            f.extend(((65_520u32 << 3) | 2).to_le_bytes().iter().take(3));
            f.push(0);
            records += 65_528;
        }
        let out = decompress(&f).unwrap();
        assert_eq!(out.len(), records);
        assert!(out.len() > f.len() * 1000, "{} {}", out.len(), f.len());
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut f = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        for _ in 0..1000 {
            f.extend([0b11, 0, 0x10, 0]); // 128 KiB of one byte: (0x20000 << 3) | run-length
            let run = (0x2_0000u32 << 3) | 2;
            let at = f.len() - 4;
            f.splice(at..at + 3, run.to_le_bytes().into_iter().take(3));
        }
        assert!(decompress(&f).is_err());
        assert!(decompress(b"not zstd at all").is_err());
    }
}
