//! A Homebrew formula and a Nix expression with the sums of this release. Where a release lies is not known here: both
//! take the address as a variable that whoever publishes sets.

use super::Arch;

/// Files of this release and their texts.
pub(super) fn all(version: &str, made: &[(String, String)]) -> [(String, String); 2] {
    let sum = |arch: Arch| {
        let name = format!("{}.tar.gz", super::stem(version, arch));
        let found = made.iter().find(|(file, _)| *file == name);
        found.map_or("", |(_, sum)| sum.as_str())
    };
    let (x86, arm) = (sum(Arch::X86), sum(Arch::Arm));
    let brew = format!(
        r##"# The address of the release's files is in TRUECOUNT_RELEASE.
class Truecount < Formula
  desc "{}"
  version "{version}"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  base = ENV.fetch("TRUECOUNT_RELEASE", "file:///var/empty")
  on_intel do
    url "#{{base}}/truecount-{version}-x86_64-linux.tar.gz"
    sha256 "{x86}"
  end
  on_arm do
    url "#{{base}}/truecount-{version}-aarch64-linux.tar.gz"
    sha256 "{arm}"
  end

  def install
    bin.install "bin/truecount"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/truecount"
    zsh_completion.install "share/zsh/site-functions/_truecount"
    fish_completion.install "share/fish/vendor_completions.d/truecount.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/truecount --version")
  end
end
"##,
        super::SUMMARY
    );
    let nix = format!(
        r#"# `release` is the address of the release's files.
{{ stdenvNoCC, fetchurl, release }}:
stdenvNoCC.mkDerivation rec {{
  pname = "truecount";
  version = "{version}";
  src = fetchurl (
    if stdenvNoCC.hostPlatform.isAarch64 then {{
      url = "${{release}}/truecount-${{version}}-aarch64-linux.tar.gz";
      sha256 = "{arm}";
    }} else {{
      url = "${{release}}/truecount-${{version}}-x86_64-linux.tar.gz";
      sha256 = "{x86}";
    }}
  );
  dontFixup = true;
  installPhase = "mkdir -p $out; cp -r bin share $out/";
  meta.platforms = [ "x86_64-linux" "aarch64-linux" ];
}}
"#
    );
    [
        ("truecount.rb".to_owned(), brew),
        ("truecount.nix".to_owned(), nix),
    ]
}
