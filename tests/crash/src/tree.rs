//! The state of a tree: a digest of its names and attributes, and the contents of its files.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_vfs::{Error, FileType, Fs, Ino};

/// Identifies a file: inode number and generation.
pub type Key = (Ino, u32);

/// The state of the tree below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeState {
    /// Digest of names, types, modes, owners, times, link counts, attributes and link targets.
    pub names: u64,
    /// Content of the regular files.
    pub files: BTreeMap<Key, Vec<u8>>,
}

/// Returns the digest of the tree below `dir`.
///
/// # Errors
/// The first object that cannot be read.
pub fn names(fs: &Fs, dir: Ino) -> Result<u64, Error> {
    Ok(walk(fs, dir, false)?.names)
}

/// Returns the state of the tree below `dir`.
///
/// # Errors
/// The first object that cannot be read.
pub fn state(fs: &Fs, dir: Ino) -> Result<TreeState, Error> {
    walk(fs, dir, true)
}

/// Returns the current identity of an inode.
///
/// # Errors
/// The inode cannot be read.
pub fn key(fs: &Fs, ino: Ino) -> Result<Key, Error> {
    Ok((ino, fs.inode(ino)?.core().generation()))
}

/// Returns the content of file `ino`.
///
/// # Errors
/// The file cannot be read.
pub fn content(fs: &Fs, ino: Ino, size: u64) -> Result<Vec<u8>, Error> {
    let mut content = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let len = fs.read(ino, 0, &mut content)?;
    content.truncate(len);
    Ok(content)
}

fn walk(fs: &Fs, dir: Ino, contents: bool) -> Result<TreeState, Error> {
    let mut seen = TreeState::default();
    let mut hasher = DefaultHasher::new();
    node(fs, dir, &mut hasher, &mut seen, contents)?;
    seen.names = hasher.finish();
    Ok(seen)
}

fn node(
    fs: &Fs,
    ino: Ino,
    hasher: &mut DefaultHasher,
    seen: &mut TreeState,
    contents: bool,
) -> Result<(), Error> {
    let inode = fs.inode(ino)?;
    let mut stat = fs.stat(&inode);
    let size = stat.size;
    if stat.file_type == FileType::Regular {
        // These change with the content, and operations of several transactions change them several
        // times.
        (stat.size, stat.blocks, stat.nextents) = (0, 0, 0);
    }
    let generation = inode.core().generation();
    format!("{stat:?} {generation}").hash(hasher);
    let (mut xattrs, errors) = fs.xattrs(&inode);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    xattrs.sort_by(|a, b| a.name.cmp(&b.name));
    for xattr in xattrs {
        (&xattr.name, &xattr.value).hash(hasher);
    }
    match stat.file_type {
        FileType::Symlink => fs.read_link(&inode)?.hash(hasher),
        FileType::Regular if contents && !seen.files.contains_key(&(ino, generation)) => {
            seen.files.insert((ino, generation), content(fs, ino, size)?);
        }
        FileType::Directory => {
            let portion = fs.read_dir(&inode);
            if let Some(error) = portion.errors.into_iter().next() {
                return Err(error);
            }
            let entries: BTreeMap<_, _> =
                portion.entries.into_iter().map(|entry| (entry.name, entry.ino)).collect();
            for (name, ino) in entries {
                name.hash(hasher);
                node(fs, ino, hasher, seen, contents)?;
            }
        }
        _ => {}
    }
    Ok(())
}
