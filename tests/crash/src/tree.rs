//! What is seen of a tree: its names in one number, and what its files contain.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_vfs::{Error, FileType, Fs, Ino};

/// A file: its inode's number, and which use of that inode it is.
pub type Key = (Ino, u32);

/// What is seen of the tree below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Names, kinds, modes, owners, times, links, attributes, targets, in one number.
    pub names: u64,
    /// What its regular files contain.
    pub files: BTreeMap<Key, Vec<u8>>,
}

/// The names below `home`, in one number.
///
/// # Errors
/// What cannot be read.
pub fn names(fs: &Fs, home: Ino) -> Result<u64, Error> {
    Ok(walk(fs, home, false)?.names)
}

/// All that is seen below `home`.
///
/// # Errors
/// What cannot be read.
pub fn seen(fs: &Fs, home: Ino) -> Result<Seen, Error> {
    walk(fs, home, true)
}

/// Which file an inode is now.
///
/// # Errors
/// Where it cannot be read.
pub fn key(fs: &Fs, ino: Ino) -> Result<Key, Error> {
    Ok((ino, fs.inode(ino)?.core().generation()))
}

/// What the file `ino` contains.
///
/// # Errors
/// Where it cannot be read.
pub fn content(fs: &Fs, ino: Ino, size: u64) -> Result<Vec<u8>, Error> {
    let mut content = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let len = fs.read(ino, 0, &mut content)?;
    content.truncate(len);
    Ok(content)
}

fn walk(fs: &Fs, home: Ino, contents: bool) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut hasher = DefaultHasher::new();
    node(fs, home, &mut hasher, &mut seen, contents)?;
    seen.names = hasher.finish();
    Ok(seen)
}

fn node(
    fs: &Fs,
    ino: Ino,
    hasher: &mut DefaultHasher,
    seen: &mut Seen,
    contents: bool,
) -> Result<(), Error> {
    let inode = fs.inode(ino)?;
    let mut stat = fs.stat(&inode);
    let size = stat.size;
    if stat.file_type == FileType::Regular {
        // These come with the content, and what takes several transactions passes through several of them.
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
