//! The whole tree as xfskit shows it, compared with the tree that Linux shows.

use std::collections::HashMap;
use std::ops::ControlFlow;

use xfskit_core::{Inode, Volume};
use xfskit_format::inode::FileType;
use xfskit_units::{ByteOffset, Ino};

use super::entry::{entry, open};
use crate::image::Image;
use crate::manifest::{Entry, Manifest, show};

/// Walks the whole tree. Returns the manifest, and a line for each object that cannot be read.
pub fn manifest(volume: &Volume) -> (Manifest, Vec<String>) {
    let mut walk = Walk { volume, linked: HashMap::new(), failed: Vec::new() };
    let mut found = Manifest::default();
    match volume.iget(volume.geo().rootino) {
        Err(error) => walk.failed.push(format!("/: {error}")),
        Ok(root) => {
            walk.add(b"/", &root, &mut found);
            walk.below(b"", &root, &mut found);
        }
    }
    (found, walk.failed)
}

/// Returns how the trees that xfskit and Linux show differ, and the objects that xfskit cannot
/// read.
pub fn differences(image: &Image, linux: &Manifest) -> Vec<String> {
    let volume = open(image);
    let (ours, mut found) = manifest(&volume);
    found.truncate(10);
    found.extend(linux.differences(&ours, 10));
    found
}

/// Looks every name of `linux` up by its hash. With parent pointers, also finds each directory's
/// path from its inode. Returns a line for each mismatch.
pub fn lookups(image: &Image, linux: &Manifest) -> Vec<String> {
    let volume = open(image);
    let mut wrong = Vec::new();
    for (path, entry) in &linux.entries {
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/').filter(|_| path != b"/")
        else {
            continue;
        };
        let parent = if slash == 0 { &b"/"[..] } else { &path[..slash] };
        let found = volume
            .iget(Ino(linux.entries[parent].ino))
            .and_then(|parent| volume.lookup(&parent, &path[slash + 1..]));
        if !matches!(found, Ok(Some((ino, _))) if ino.0 == entry.ino) {
            wrong.push(format!("{}: looked up: {found:?}", show(path)));
        }
        if volume.geo().features.parent() && entry.nlink < 10 {
            let paths = volume.paths(Ino(entry.ino), 10);
            if !paths.as_ref().is_ok_and(|paths| paths.contains(path)) {
                wrong.push(format!("{}: paths from parents: {paths:?}", show(path)));
            }
        }
    }
    wrong.truncate(10);
    wrong
}

/// Returns the bytes of a regular file, or nothing for other files.
pub fn content(volume: &Volume, ino: u64) -> Vec<u8> {
    let inode = volume.iget(Ino(ino)).expect("an inode");
    if !inode.core().is_regular() {
        return Vec::new();
    }
    let size = usize::try_from(inode.core().size().0).expect("a small file");
    let mut bytes = vec![0; size];
    let read = volume.read_at(&inode, ByteOffset(0), &mut bytes).expect("read");
    assert_eq!(read, size, "bytes read");
    bytes
}

struct Walk<'a> {
    volume: &'a Volume,
    /// Entries of files with several names.
    linked: HashMap<u64, Entry>,
    failed: Vec<String>,
}

impl Walk<'_> {
    fn below(&mut self, path: &[u8], dir: &Inode, found: &mut Manifest) {
        let mut names: Vec<(Vec<u8>, Ino, Option<FileType>)> = Vec::new();
        let mut failed = Vec::new();
        let read = self.volume.readdir(dir, 0, &mut |listed| {
            match listed {
                Ok(listed) => names.push((listed.name.to_vec(), listed.ino, listed.ftype)),
                Err(error) => failed.push(error.to_string()),
            }
            ControlFlow::Continue(())
        });
        failed.extend(read.err().map(|error| error.to_string()));
        self.failed.extend(failed.iter().map(|why| format!("{}: {why}", show(path))));
        for (name, ino, ftype) in names {
            if name == b"." || name == b".." {
                continue;
            }
            let below = [path, b"/", &name].concat();
            match self.volume.iget(ino) {
                Err(error) => self.failed.push(format!("{}: {error}", show(&below))),
                Ok(inode) => {
                    if ftype.is_some() && ftype != inode.core().file_type() {
                        self.failed.push(format!("{}: listed as {ftype:?}", show(&below)));
                    }
                    self.add(&below, &inode, found);
                    if inode.core().is_dir() {
                        self.below(&below, &inode, found);
                    }
                }
            }
        }
    }

    fn add(&mut self, path: &[u8], inode: &Inode, found: &mut Manifest) {
        let made = match self.linked.get(&inode.ino().0) {
            Some(known) => Ok(known.clone()),
            None => entry(self.volume, inode),
        };
        match made {
            Err(error) => self.failed.push(format!("{}: {error}", show(path))),
            Ok(made) => {
                if made.nlink > 1 && !inode.core().is_dir() {
                    self.linked.entry(made.ino).or_insert_with(|| made.clone());
                }
                if found.entries.insert(path.to_vec(), made).is_some() {
                    self.failed.push(format!("{}: listed twice", show(path)));
                }
            }
        }
    }
}
