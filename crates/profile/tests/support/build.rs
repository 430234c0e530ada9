//! Synthetic profiles of both versions, split into pages of any size.
#![allow(dead_code)] // each test uses a part of it

/// A profile under construction.
pub struct Builder {
    version: u32,
    events: Vec<u8>,
    data: Vec<u8>,
    index: Vec<u8>,
}

const FIRST_REGULAR: u64 = 100_000_003;

impl Builder {
    pub fn new(version: u32) -> Self {
        let header = |magic: &[u8; 4]| [&magic[..], &version.to_le_bytes()].concat();
        let mut builder = Self {
            version,
            events: header(b"MMES"),
            data: header(b"MMSD"),
            index: header(b"MMSI"),
        };
        let metadata = builder.bytes(
            b"{\"start_time\":1,\"process_id\":2,\"cmd\":\"it\\'s\",\"counter\":{\"name\":\"instructions:u\",\"units\":[[\"instructions\",1]]}}",
        );
        builder.map(100_000_001, metadata);
        builder
    }

    fn id(&self, out: &mut Vec<u8>, id: u64) {
        let size = if self.version == 8 { 4 } else { 8 };
        out.extend_from_slice(&id.to_le_bytes()[..size]);
    }

    /// Stores raw bytes as a string (the end mark is added); returns its id.
    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let id = FIRST_REGULAR + self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        self.data.push(0xFF);
        id
    }

    /// Stores a string of references with text behind each.
    pub fn references(&mut self, parts: &[(u64, &[u8])]) -> u64 {
        let mut bytes = Vec::new();
        for (id, text) in parts {
            bytes.push(0xFE);
            self.id(&mut bytes, *id);
            bytes.extend_from_slice(text);
        }
        self.bytes(&bytes)
    }

    /// The id that the next string will have.
    pub fn next(&self) -> u64 {
        FIRST_REGULAR + self.data.len() as u64
    }

    /// Maps a virtual id to a string.
    pub fn map(&mut self, id: u64, string: u64) {
        let mut entry = Vec::new();
        self.id(&mut entry, id);
        self.id(&mut entry, string - FIRST_REGULAR);
        self.index.extend_from_slice(&entry);
    }

    pub fn raw(&mut self, kind: u64, id: u64, thread: u32, first: u64, second: u64) {
        let mut event = Vec::new();
        self.id(&mut event, kind);
        self.id(&mut event, id);
        event.extend_from_slice(&thread.to_le_bytes());
        event.extend_from_slice(&(first as u32).to_le_bytes());
        event.extend_from_slice(&(second as u32).to_le_bytes());
        let upper = (first >> 32 << 16) as u32 | (second >> 32 & 0xFFFF) as u32;
        event.extend_from_slice(&upper.to_le_bytes());
        self.events.extend_from_slice(&event);
    }

    pub fn instant(&mut self, kind: u64, id: u64, thread: u32, at: u64) {
        self.raw(kind, id, thread, at, 0xFFFF_FFFF_FFFF);
    }

    pub fn integer(&mut self, kind: u64, id: u64, thread: u32, value: u64) {
        self.raw(kind, id, thread, value, 0xFFFF_FFFF_FFFE);
    }

    /// The file, its streams in interleaved pages of at most `page` bytes.
    pub fn file(&self, page: usize) -> Vec<u8> {
        let mut file = [&b"MMPD"[..], &self.version.to_le_bytes()].concat();
        let mut streams = [
            (0, &self.events[..]),
            (1, &self.data[..]),
            (2, &self.index[..]),
        ];
        while streams.iter().any(|(_, rest)| !rest.is_empty()) {
            for (tag, rest) in &mut streams {
                let (payload, left) = rest.split_at(rest.len().min(page));
                if !payload.is_empty() {
                    file.push(*tag);
                    file.extend_from_slice(&(payload.len() as u32).to_le_bytes());
                    file.extend_from_slice(payload);
                }
                *rest = left;
            }
        }
        file
    }
}
