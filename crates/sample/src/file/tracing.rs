//! Names of tracepoints, from the trace data that a recording with tracepoints carries: the formats of its events as
//! tracefs shows them.
//!
//! Layout: `tools/perf/util/trace-event-info.c`, `record_*`; trace-cmd.dat(5), "INITIAL FORMAT" to "EVENT FORMATS".

use crate::bytes::Cursor;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// `(number, system:name)` of all events in a recording's trace data, as far as they are whole.
#[must_use]
pub fn names(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut out = Vec::new();
    // What was read until the damage is right.
    let _ = read(bytes, &mut out);
    out
}

fn read(bytes: &[u8], out: &mut Vec<(u64, String)>) -> Option<()> {
    let mut c = Cursor::new(bytes.strip_prefix(MAGIC)?);
    text(&mut c)?; // version
    c.take(2 + 4)?; // byte order, size of long, size of a page
    for section in ["header_page", "header_event"] {
        if text(&mut c)? != section.as_bytes() {
            return None;
        }
        sized(&mut c)?;
    }
    for _ in 0..c.u32()? {
        sized(&mut c)?; // ftrace's own formats
    }
    for _ in 0..c.u32()? {
        let system = String::from_utf8_lossy(text(&mut c)?).into_owned();
        for _ in 0..c.u32()? {
            let format = String::from_utf8_lossy(sized(&mut c)?);
            let field = |key: &str| format.lines().find_map(|line| line.strip_prefix(key));
            let id = field("ID: ").and_then(|id| id.trim().parse().ok());
            if let (Some(name), Some(id)) = (field("name: "), id) {
                out.push((id, format!("{system}:{}", name.trim())));
            }
        }
    }
    Some(())
}

fn text<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let end = c.rest().iter().position(|byte| *byte == 0)?;
    let text = c.take(end)?;
    c.take(1)?;
    Some(text)
}

fn sized<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(c.u64()?).ok()?;
    c.take(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Vec<u8> {
        let mut out = [MAGIC, b"0.6\0", &[0, 8, 0, 16, 0, 0]].concat();
        let sized = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        out.extend(
            [
                b"header_page\0".to_vec(),
                sized("x"),
                b"header_event\0".to_vec(),
                sized(""),
            ]
            .concat(),
        );
        out.extend([&1u32.to_le_bytes()[..], &sized("name: function\nID: 1\n")].concat());
        out.extend(1u32.to_le_bytes());
        out.extend(b"sched\0");
        out.extend(2u32.to_le_bytes());
        out.extend(sized("name: sched_switch\nID: 314\nformat:\n"));
        out.extend(sized("name: sched_wakeup\nID: 316\nformat:\n"));
        out
    }

    #[test]
    fn events_have_the_names_of_tracefs() {
        let named = names(&data());
        let want = [(314, "sched:sched_switch"), (316, "sched:sched_wakeup")];
        assert_eq!(named, want.map(|(id, name)| (id, name.to_owned())));
    }

    #[test]
    fn damage_ends_it() {
        let whole = data();
        for cut in 0..whole.len() {
            assert!(names(&whole[..cut]).len() < 3);
            let mut damaged = whole.clone();
            damaged[cut] ^= 0xff;
            let _ = names(&damaged);
        }
    }
}
