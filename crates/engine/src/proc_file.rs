//! Files of `/proc/PID`, read with as few calls as they need: their sizes are not known before.

use std::fs::File;
use std::io::{self, Read as _};

/// What is in one.
///
/// # Errors
/// As from opening and reading.
pub(crate) fn read(pid: i32, name: &str) -> io::Result<Vec<u8>> {
    const PART: usize = 4096;
    let mut file = File::open(format!("/proc/{pid}/{name}"))?;
    let mut bytes = Vec::new();
    loop {
        let begin = bytes.len();
        bytes.resize(begin + PART, 0);
        let got = file.read(bytes.get_mut(begin..).unwrap_or(&mut []));
        bytes.truncate(begin + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => return Ok(bytes),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_any_length_are_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let same = |name: &str| {
            let all = std::fs::read(format!("/proc/{own}/{name}")).unwrap();
            assert_eq!(super::read(own, name).unwrap(), all, "{name}");
        };
        same("cmdline");
        same("environ");
        assert!(super::read(own, "smaps").unwrap().len() > 4096);
        assert!(super::read(own, "nothing-of-this-name").is_err());
    }
}
