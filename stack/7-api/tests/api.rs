//! The facade on a volume that the kernel filled.

use std::path::Path;

use xfskit::vfs::{FileType, Follow};

fn volume() -> (tempfile::TempDir, xfskit::Volume) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/images/v5.img.zst");
    let bytes = zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v5.img");
    std::fs::write(&path, bytes).unwrap();
    let volume = xfskit::open(path.to_str().unwrap()).unwrap();
    (dir, volume)
}

#[test]
fn a_volume_is_read_by_paths() {
    let (_dir, volume) = volume();
    assert_eq!(volume.read("/sf/a").unwrap(), b"hello\n");
    assert_eq!(volume.read_dir("/leaf").unwrap().len(), 200);
    assert_eq!(volume.stat("/symlink").unwrap().file_type, FileType::Symlink);
    assert_eq!(volume.read_link("/symlink").unwrap(), b"short");
    assert_eq!(volume.xattrs("/attr-node").unwrap().len(), 300);
    assert!(volume.walk("/").unwrap().all(|step| step.is_ok()));
}

#[test]
fn paths_mean_what_they_mean_to_the_kernel() {
    let (_dir, volume) = volume();
    let ino = |path: &str| volume.fs().resolve(path.as_bytes(), Follow::Yes).map(|i| i.ino());
    for same in ["//sf//a", "/sf/./a", "/sf/../sf/a", "/../../sf/a", "/node/../sf/a"] {
        assert_eq!(ino(same).unwrap(), ino("/sf/a").unwrap(), "{same}");
    }
    let errno = |path: &str| ino(path).unwrap_err().errno();
    assert_eq!(errno("/symlink"), 2, "it leads nowhere: ENOENT");
    assert_eq!(errno("/sf/a/.."), 20, "ENOTDIR");
    assert_eq!(errno("/sf/a/"), 20, "ENOTDIR");
    assert_eq!(errno(&format!("/{}", "n".repeat(256))), 36, "ENAMETOOLONG");
    assert_eq!(errno("sf"), 22, "EINVAL");
}
