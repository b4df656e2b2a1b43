//! Mounts of damaged volumes: every operation ends, with an error where there is damage, and the
//! mount stays usable.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::common::{Bench, shown, xfskit};
use super::hostile::patched;
use super::mount::{is_mounted, possible};

/// Time for everything that is done on one mount.
const BOUND: Duration = Duration::from_secs(120);
/// Entries that a walk visits at most: a cycle of directories has no end.
const ENTRIES: usize = 3000;

/// Walks the tree, reads what it finds, and returns the number of errors.
fn walk(root: &Path) -> usize {
    let (mut queue, mut errors, mut seen) = (vec![root.to_path_buf()], 0, 0);
    while let Some(dir) = queue.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            errors += 1;
            continue;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                errors += 1;
                break;
            };
            seen += 1;
            if seen > ENTRIES {
                return errors;
            }
            errors += usize::from(!read(&entry.path(), &mut queue));
        }
    }
    errors
}

/// Reads one file, at most a megabyte. Returns whether that was possible.
fn read(path: &Path, queue: &mut Vec<PathBuf>) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    if metadata.is_dir() {
        queue.push(path.to_path_buf());
        return true;
    }
    if metadata.is_symlink() {
        return fs::read_link(path).is_ok();
    }
    if !metadata.is_file() {
        return true;
    }
    let mut content = Vec::new();
    let file = fs::File::open(path);
    file.and_then(|file| file.take(1 << 20).read_to_end(&mut content)).is_ok()
}

/// Changes the tree. The results do not matter: that each call ends does.
fn change(root: &Path) {
    for n in 0..20 {
        let _ = fs::write(root.join(format!("new-{n}")), vec![n; 10_000]);
    }
    let entries: Vec<_> = fs::read_dir(root).into_iter().flatten().flatten().collect();
    for entry in entries.iter().take(20) {
        let path = entry.path();
        // Opening a named pipe would wait for its other end.
        if entry.file_type().is_ok_and(|file_type| file_type.is_file()) {
            // A symbolic link would lead out of the mount.
            let mut options = fs::OpenOptions::new();
            options.append(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
            let file = options.open(&path);
            let _ = file.and_then(|file| file.set_len(1));
        }
        let _ = fs::rename(&path, root.join("renamed"));
        let _ = fs::remove_file(root.join("renamed"));
    }
}

fn mount_and_use(name: &str, image: &Path, dir: &Path) {
    let start = Instant::now();
    for options in ["ro", "ro,norecovery", "rw"] {
        let mounted = xfskit(&["mount", "-o", options, &shown(image), &shown(dir)]);
        assert!(mounted.code == 0 || mounted.code == 2, "{name} {options}: {}", mounted.stderr);
        if mounted.code != 0 {
            continue;
        }
        let errors = walk(dir);
        if options == "rw" {
            change(dir);
        }
        let ended = xfskit(&["umount", &shown(dir)]);
        assert!(ended.code <= 1, "{name} {options}, {errors} errors: {}", ended.stderr);
        assert!(!is_mounted(dir), "{name} {options}");
        assert!(!ended.stderr.contains("ended early"), "{name} {options}: the server died");
    }
    assert!(start.elapsed() < BOUND, "{name}: {:?}", start.elapsed());
}

#[test]
fn hostile_volumes_do_not_take_the_mount_over() {
    if !possible() {
        return;
    }
    let bench = Bench::new();
    let dir = bench.path("mnt");
    fs::create_dir(&dir).unwrap();
    for patch in ["bmbt-loop", "bmbt-loop2", "cycle", "damaged-orphan", "sb"] {
        mount_and_use(patch, &patched(&bench, patch), &dir);
    }
    for name in ["hostile/second-dotdot", "hostile/directory-cycle", "v5-dirty", "v4", "v5-rt"] {
        mount_and_use(name, &bench.kept(name), &dir);
    }
}
