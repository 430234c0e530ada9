//! The Debian package: an `ar` archive of three members (deb(5), Debian policy 5.3).

use anyhow::Result;

use super::archive::{gzip, tar, with_small_pages};
use super::{DESCRIPTION, Entry, Release, SUMMARY};

/// The package.
pub(super) fn package(release: &Release) -> Result<Vec<u8>> {
    let mut files: Vec<Entry> = with_small_pages(&release.entries)?
        .into_iter()
        .map(|mut entry| {
            entry.path = format!("usr/{}", entry.path);
            entry
        })
        .collect();
    files.push(Entry::new(
        "usr/share/doc/truecount/copyright",
        "truecount: MIT or Apache-2.0, at your choice; see LICENSE-MIT and LICENSE-APACHE beside this file.\n\
         The licences of the libraries inside are in the release's SPDX document.\n",
    ));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let size: usize = files.iter().map(|file| file.content.len()).sum();
    let control = format!(
        "Package: truecount\nVersion: {}-1\nArchitecture: {}\nMaintainer: {} <truecount@localhost>\n\
         Installed-Size: {}\nSection: devel\nPriority: optional\nDescription: {SUMMARY}\n {DESCRIPTION}\n",
        release.version,
        release.arch.debian(),
        env!("CARGO_PKG_AUTHORS"),
        size.div_ceil(1024)
    );
    let sums: Vec<Entry> = vec![Entry::new("control", control)];
    let control = gzip(&tar(&sums, "", release.time)?)?;
    let data = gzip(&tar(&files, "", release.time)?)?;
    let mut bytes = b"!<arch>\n".to_vec();
    member(&mut bytes, "debian-binary", b"2.0\n", release.time);
    member(&mut bytes, "control.tar.gz", &control, release.time);
    member(&mut bytes, "data.tar.gz", &data, release.time);
    Ok(bytes)
}

/// One member of an `ar` archive: a header of 60 characters, the content, filled up to an even length.
fn member(bytes: &mut Vec<u8>, name: &str, content: &[u8], time: u64) {
    let header = format!(
        "{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n",
        0,
        0,
        "100644",
        content.len()
    );
    bytes.extend(header.as_bytes());
    bytes.extend(content);
    if content.len() % 2 == 1 {
        bytes.push(b'\n');
    }
}
