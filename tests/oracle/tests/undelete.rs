//! Files that the kernel removed: found again by name, with the bytes that they had; and not called
//! good once their blocks hold something else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xfskit::{Confidence, FileType, RemovedFile, Undelete, VolumeOptions};
use xfskit_test_support::{Image, Mount, Need, Scratch, matrix, needs, note};

/// Files of the directories in block form, and in leaf and node form.
const FEW: usize = 25;
const MANY: usize = 300;

volumes! {
    removed_files_come_back_from_default: "default",
    removed_files_come_back_from_block_1k: "block-1k",
    removed_files_come_back_from_parent: "parent",
    removed_files_come_back_from_nrext64: "nrext64",
}

/// The content of files by path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn verify_volume(name: &str) {
    let case = matrix::named(name);
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("undelete");
    let Some(image) = case.make(&scratch) else { return };
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let files = fill(mount.path());
    mount.unmount().expect("unmount");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    for path in files.keys() {
        fs::remove_file(mount.path().join(path.strip_prefix("/").unwrap())).unwrap();
    }
    mount.unmount().expect("unmount");

    let (found, dir) = undelete(&image, &scratch, "at-once");
    let good = count_intact(&files, &found, &dir);
    let named = files.keys().filter(|path| found.contains_key(*path)).count();
    note(&format!("{name}: {named} of {} by path, {good} good", files.len()));
    assert_eq!(named, files.len(), "every name was there a moment ago");
    assert_eq!(good, files.len(), "and all content");
    verify_overwritten(&image, &scratch, &files);
}

/// Fails if a file is called good whose blocks new files took.
fn verify_overwritten(image: &Image<'_>, scratch: &Scratch, files: &Files) {
    let mount = Mount::read_write(image, scratch).expect("mount");
    for n in 0..40 {
        fs::write(mount.path().join(format!("new{n}")), vec![0xee; 300_000]).unwrap();
    }
    mount.unmount().expect("unmount");
    let (found, dir) = undelete(image, scratch, "later");
    let good = count_intact(files, &found, &dir);
    let lost = |file: &RemovedFile| file.confidence == Confidence::Partial && !file.lost.is_empty();
    assert!(found.values().any(lost), "some blocks were taken");
    assert!(good < files.len());
}

/// Fails if a good file has other bytes than it had. Returns the number of good ones.
fn count_intact(files: &Files, found: &BTreeMap<PathBuf, RemovedFile>, dir: &Path) -> usize {
    let good = files.iter().filter(|(path, content)| {
        let Some(file) = found.get(*path).filter(|file| file.confidence == Confidence::Good) else {
            return false;
        };
        assert_eq!(file.file_type, Some(FileType::File), "{}", path.display());
        let copy = fs::read(dir.join(path.strip_prefix("/").unwrap())).expect("its copy");
        assert!(copy == **content, "{}: other bytes", path.display());
        true
    });
    good.count()
}

/// Finds the removed files with a path, and copies them into a directory.
fn undelete(
    image: &Image<'_>,
    scratch: &Scratch,
    to: &str,
) -> (BTreeMap<PathBuf, RemovedFile>, PathBuf) {
    let options = image.log().into_iter().fold(VolumeOptions::new(), VolumeOptions::log);
    let volume = options.open(image.path()).expect("open");
    let search = Undelete::new(&volume);
    let found = search.run().expect("undelete");
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let dir = scratch.path().join(to);
    let copied = search.copy_to(&dir, &found.files).expect("copy");
    assert_eq!(copied.len(), found.files.len());
    let by_path = |file: RemovedFile| Some((file.path.clone()?, file));
    (found.files.into_iter().filter_map(by_path).collect(), dir)
}

/// Fills the volume with files of many kinds in directories of all forms. Returns their content.
fn fill(root: &Path) -> Files {
    let mut files = Files::new();
    let mut add = |path: String, content: Vec<u8>| {
        let place = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, &content).unwrap();
        files.insert(path.into(), content);
    };
    for (name, len) in [("empty", 0), ("a", 1), ("block", 4096), ("odd", 4097), ("mb", 1 << 20)] {
        add(format!("/short/{name}"), bytes(len));
    }
    for n in 0..FEW {
        add(format!("/block/a file with a name {n}"), bytes(n * 100 + 1));
    }
    for n in 0..MANY {
        add(format!("/leaf/another file with a longer name {n}"), bytes(n % 50 + 1));
    }
    add("/extents/many".into(), Vec::new());
    // Every second block of a file is written, so that its extents need a btree.
    let path = root.join("extents/many");
    let file = fs::File::options().write(true).open(path).unwrap();
    let mut content = vec![0; 400 * 8192];
    for (n, part) in content.chunks_mut(8192).enumerate() {
        part[..4096].copy_from_slice(&bytes(4096 + n)[n..]);
        file.write_all_at(&part[..4096], n as u64 * 8192).unwrap();
        file.sync_data().unwrap();
    }
    file.set_len(content.len() as u64).unwrap();
    files.insert("/extents/many".into(), content);
    files
}

/// Returns bytes that tell their place, by a number of their own.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n * 31 + n / 251 + len) % 256).unwrap()).collect()
}
