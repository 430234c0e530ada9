//! The OCI image: a directory of blobs by their sums, in one tar archive (OCI image specification 1.1). It holds the
//! program alone: `podman load`, `skopeo copy oci-archive:…`, `docker load` (25 and later) take it.

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::{gzip, tar};
use super::{Arch, Entry, Release, sum};

/// One architecture's layer.
pub(super) struct Layer {
    arch: Arch,
    /// Sum of the layer before it was compressed.
    plain: String,
    packed: Vec<u8>,
}

impl Layer {
    pub(super) fn new(release: &Release) -> Result<Self> {
        let mut entries: Vec<Entry> = release.entries.clone();
        entries.retain(|entry| entry.path.starts_with("bin/") || entry.path.contains("LICENSE"));
        for entry in &mut entries {
            entry.path = format!("usr/{}", entry.path);
        }
        // Where truecount keeps translations and temporary files.
        let layer = tar(&entries, "", release.time)?;
        Ok(Self {
            arch: release.arch,
            plain: sum(&layer),
            packed: gzip(&layer)?,
        })
    }
}

/// The image of all architectures.
pub(super) fn image(version: &str, layers: &[Layer], time: u64) -> Result<Vec<u8>> {
    let mut files = vec![Entry::new(
        "oci-layout",
        json!({"imageLayoutVersion": "1.0.0"}).to_string(),
    )];
    let mut manifests = Vec::new();
    for layer in layers {
        let config = json!({
            "architecture": layer.arch.debian(),
            "os": "linux",
            "config": {"Entrypoint": ["/usr/bin/truecount"], "WorkingDir": "/", "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.plain)]},
        });
        let kind = |name: &str| format!("application/vnd.oci.image.{name}");
        let config = blob(
            &mut files,
            &kind("config.v1+json"),
            config.to_string().into(),
        );
        let data = blob(&mut files, &kind("layer.v1.tar+gzip"), layer.packed.clone());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind("manifest.v1+json"), "config": config, "layers": [data],
        });
        let mut manifest = blob(
            &mut files,
            &kind("manifest.v1+json"),
            manifest.to_string().into(),
        );
        manifest["platform"] = json!({"architecture": layer.arch.debian(), "os": "linux"});
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": version});
        manifests.push(manifest);
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests,
    });
    files.push(Entry::new("index.json", index.to_string()));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    tar(&files, "", time)
}

/// Adds a blob; its descriptor.
fn blob(files: &mut Vec<Entry>, kind: &str, content: Vec<u8>) -> Value {
    let digest = sum(&content);
    let size = content.len();
    files.push(Entry::new(&format!("blobs/sha256/{digest}"), content));
    json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size})
}
