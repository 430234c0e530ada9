//! Names that are kept are those that were found, or none.

use super::*;

fn location(words: &[(&str, Option<&str>, Option<u32>)], offset: u64) -> Location {
    let frame = |&(function, file, line): &(&str, Option<&str>, Option<u32>)| Frame {
        function: function.to_owned(),
        file: file.map(str::to_owned),
        line,
    };
    Location {
        frames: words.iter().map(frame).collect(),
        offset,
    }
}

fn known() -> Vec<(u64, Location)> {
    vec![
        (3, location(&[("main", Some("a.c"), Some(7))], 3)),
        (9, location(&[], 0)),
        (
            u64::MAX,
            location(
                &[("in", Some("b.h"), None), ("main", None, Some(1))],
                1 << 40,
            ),
        ),
    ]
}

#[test]
fn what_was_found_is_found_again() {
    let mut kept = Kept {
        key: Some((1, b"this file".to_vec())),
        ..Kept::default()
    };
    for (at, found) in known() {
        assert_eq!(kept.find(at), None);
        kept.add(at, &found);
        assert_eq!(kept.find(at), Some(found));
    }
    let bytes = kept.bytes();
    let mut again = Kept::read(&bytes, b"this file").unwrap();
    for (at, found) in known() {
        assert_eq!(again.find(at), Some(found));
    }
    assert_eq!(again.find(4), None);
    assert!(Kept::read(&bytes, b"that file").is_none());
    // More is found by another run.
    again.key = Some((1, b"this file".to_vec()));
    let more = location(&[("more", Some("a.c"), Some(8))], 5);
    again.add(4, &more);
    let last = Kept::read(&again.bytes(), b"this file").unwrap();
    assert_eq!((last.find(4), last.find(3)), (Some(more), again.find(3)));
    assert_eq!(last.texts.ends.len(), again.texts.ends.len());
}

#[test]
fn damage_shows() {
    let mut kept = Kept {
        key: Some((1, b"this file".to_vec())),
        ..Kept::default()
    };
    for (at, found) in known() {
        kept.add(at, &found);
    }
    let bytes = kept.bytes();
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x40;
        assert!(Kept::read(&other, b"this file").is_none(), "{at}");
        assert!(Kept::read(&bytes[..at], b"this file").is_none(), "{at}");
        // Whoever makes the sum right as well gets nothing worse than other names.
        let start = MAGIC.len() + 8;
        if at >= start {
            let sum = number_of(&other[start..]).to_le_bytes();
            other[MAGIC.len()..start].copy_from_slice(&sum);
            let read = Kept::read(&other, b"this file");
            let _ = read.map(|read| (read.find(3), read.find(9)));
        }
    }
}

#[test]
fn another_file_is_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(&directory.path().join("cache")).unwrap();
    let program = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let file = MappedFile {
        path: program.display().to_string(),
        build_id: Vec::new(),
    };
    let look = |expected: usize| {
        let mut names = KeptNames::new(Some(cache.clone()));
        let mut symbols = Symbols::new(Default::default());
        let number = names.number(&mut symbols, &file);
        assert_eq!(names.chain(number, 0x40).is_some(), expected != 0);
        let found = names.locate(&mut symbols, &file, 0x40);
        let chain = names.chain(number, 0x40).unwrap();
        assert_eq!(
            names.files[number].chains.get(chain.0).unwrap().len(),
            found.frames.len()
        );
        let kept = &names.files[number];
        assert_eq!(kept.places.len(), expected);
    };
    let separate = directory.path().join("program.dwp");
    for content in ["debug information", "other debug information"] {
        std::fs::write(&separate, content).unwrap();
        look(0);
        look(1);
    }
    assert_eq!(cache.clear().unwrap(), 2);
    look(0);
}
