//! Tarballs, and what is made by libraries from the same files.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

use super::{DESCRIPTION, Entry, Release, SUMMARY};

/// A tar archive of files below `prefix`, with their directories, owned by root.
pub(super) fn tar(entries: &[Entry], prefix: &str, time: u64) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut directories = std::collections::BTreeSet::new();
    let header = |kind, mode, size| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        Ok::<_, std::io::Error>(header)
    };
    for entry in entries {
        let path = format!("{prefix}{}", entry.path);
        for (at, _) in path.match_indices('/') {
            let directory = &path[..=at];
            if directories.insert(directory.to_owned()) {
                let mut header = header(tar::EntryType::Directory, 0o755, 0)?;
                builder.append_data(&mut header, directory, std::io::empty())?;
            }
        }
        let mut header = header(
            tar::EntryType::Regular,
            entry.mode,
            u64::try_from(entry.content.len())?,
        )?;
        builder.append_data(&mut header, &path, &entry.content[..])?;
    }
    Ok(builder.into_inner()?)
}

/// Compressed, without a name or time of its own.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Manual pages compressed, as packages have them.
pub(super) fn with_small_pages(entries: &[Entry]) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    for entry in entries {
        let mut entry = entry.clone();
        if entry.path.starts_with("share/man/") {
            entry.path.push_str(".gz");
            entry.content = gzip(&entry.content)?;
        }
        all.push(entry);
    }
    Ok(all)
}

/// A tarball: `NAME/bin/truecount` and what belongs to it.
pub(super) fn tarball(release: &Release, name: &str) -> Result<Vec<u8>> {
    gzip(&tar(&release.entries, &format!("{name}/"), release.time)?)
}

/// An RPM for distributions with any C library.
pub(super) fn rpm(release: &Release) -> Result<Vec<u8>> {
    let time = u32::try_from(release.time).context("the time does not fit into an RPM")?;
    let config = rpm::BuildConfig::v4()
        .source_date(time)
        .compression(rpm::CompressionType::Gzip);
    let arch = release.arch.name();
    let licence = "MIT OR Apache-2.0";
    let mut builder =
        rpm::PackageBuilder::new("truecount", &release.version, licence, arch, SUMMARY);
    builder
        .using_config(config)
        .description(DESCRIPTION)
        .build_host("localhost");
    // Directories that a distribution may not have go with the package.
    for directory in [
        "doc/truecount",
        "bash-completion",
        "bash-completion/completions",
        "zsh",
        "zsh/site-functions",
        "fish",
        "fish/vendor_completions.d",
    ] {
        let options = rpm::FileOptions::dir(format!("/usr/share/{directory}")).permissions(0o755);
        builder.with_dir_entry(options)?;
    }
    for entry in with_small_pages(&release.entries)? {
        let mode = u16::try_from(entry.mode)?;
        let options = rpm::FileOptions::new(format!("/usr/{}", entry.path)).permissions(mode);
        builder.with_file_contents(entry.content, options)?;
    }
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok(bytes)
}

/// An npm package whose command is the program itself: npm installs it only where it runs.
pub(super) fn npm(release: &Release) -> Result<Vec<u8>> {
    let manifest = serde_json::json!({
        "name": format!("truecount-linux-{}", release.arch.node()),
        "version": release.version,
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "os": ["linux"],
        "cpu": [release.arch.node()],
        "bin": { "truecount": "bin/truecount" },
        "files": ["bin", "share"],
    });
    let mut entries = vec![Entry::new(
        "package.json",
        format!("{}\n", serde_json::to_string_pretty(&manifest)?),
    )];
    entries.extend(release.entries.iter().cloned());
    for entry in &release.entries {
        if let Some(name) = entry.path.strip_prefix("share/doc/truecount/") {
            entries.push(Entry::new(name, entry.content.clone()));
        }
    }
    entries.retain(|entry| !entry.path.starts_with("share/doc/"));
    gzip(&tar(&entries, "package/", release.time)?)
}
