use super::*;

fn release() -> Release {
    let mut entries = vec![
        Entry::program("bin/truecount", b"program".to_vec()),
        Entry::new("share/doc/truecount/README.md", "text"),
        Entry::new("share/man/man1/truecount.1", ".TH truecount"),
    ];
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Release {
        version: "1.2.3".into(),
        arch: Arch::X86,
        entries,
        time: 1_700_000_000,
    }
}

#[test]
fn packages_are_the_same_bytes_each_time() {
    let all = || {
        let release = release();
        let layer = image::Layer::new(&release).unwrap();
        [
            archive::tarball(&release, "truecount").unwrap(),
            archive::rpm(&release).unwrap(),
            archive::npm(&release).unwrap(),
            deb::package(&release).unwrap(),
            image::image("1.2.3", &[layer], release.time).unwrap(),
        ]
    };
    let (first, second) = (all(), all());
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(a, b);
        assert!(a.len() > 100);
    }
}

#[test]
fn a_tarball_has_the_program_and_its_directories() {
    let release = release();
    let bytes = archive::tar(&release.entries, "t/", release.time).unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let header = entry.header();
        (
            entry.path().unwrap().display().to_string(),
            header.mode().unwrap(),
            header.mtime().unwrap(),
        )
    });
    let entries: Vec<_> = entries.collect();
    assert_eq!(entries[0].0, "t/");
    assert!(entries.contains(&("t/bin/truecount".into(), 0o755, 1_700_000_000)));
    assert_eq!(entries.len(), 3 + 1 + 1 + 3 + 2);
}

/// What `cargo binstall` is told is where the tarball has it.
#[test]
fn binstall_finds_the_program() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let (_, metadata) = manifest
        .split_once("[package.metadata.binstall]\n")
        .unwrap();
    let filled = |key: &str| {
        let line = metadata.lines().find(|line| line.starts_with(key)).unwrap();
        let text = line.split('"').nth(1).unwrap();
        let text = text.replace("{ version }", "1.2.3");
        let text = text.replace("{ target-arch }", "x86_64");
        text.replace("{ bin }", "truecount")
    };
    let release = release();
    let top = stem(&release.version, release.arch);
    assert_eq!(
        filled("pkg-url"),
        format!("{{ repo }}/releases/download/v1.2.3/{top}.tar.gz")
    );
    let packed = archive::tarball(&release, &top).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
    let program = filled("bin-dir");
    let mut paths = archive
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().into_owned());
    assert!(paths.any(|path| path == Path::new(&program)), "{program}");
}

#[test]
fn a_debian_package_is_read_by_dpkg() {
    let release = release();
    let bytes = deb::package(&release).unwrap();
    assert!(bytes.starts_with(b"!<arch>\ndebian-binary   "));
    let file = std::env::temp_dir().join(format!("truecount-dist-{}.deb", std::process::id()));
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new("dpkg-deb")
        .arg("--contents")
        .arg(&file)
        .output();
    let _ = std::fs::remove_file(&file);
    let Ok(output) = output else {
        truecount_testing::skip!("packagers", "no dpkg-deb");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("-rwxr-xr-x root/root") && text.contains(" usr/bin/truecount"),
        "{text}"
    );
    assert!(
        text.contains(" usr/share/man/man1/truecount.1.gz"),
        "{text}"
    );
}

#[test]
fn subcommands_are_read_from_the_help() {
    let help = "A tool\n\nUsage: x\n\nCommands:\n  check  what\n         more of it\n  stat   count\n  help   print\n\nOptions:\n  -h\n";
    assert_eq!(build::subcommands(help), ["check", "stat"]);
}

#[test]
fn arguments_are_checked() {
    let parse = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Wanted::parse(Path::new("/r"), &words)
    };
    assert_eq!(parse(&[]).unwrap().archs, Arch::ALL);
    assert_eq!(parse(&["--arch", "aarch64"]).unwrap().archs, [Arch::Arm]);
    assert!(parse(&["--arch", "m68k"]).is_err());
    assert!(parse(&["--program", "x"]).is_err());
    assert!(parse(&["--out"]).is_err());
}
