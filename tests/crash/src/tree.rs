//! A tree in one number: names, kinds, modes, owners, times, sizes, attributes, targets.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_vfs::{Error, FileType, Fs, Ino};

/// The number of the whole tree of `fs`.
///
/// # Errors
/// What cannot be read.
pub fn digest(fs: &Fs) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    node(fs, fs.volume().geo().rootino, &mut hasher)?;
    Ok(hasher.finish())
}

fn node(fs: &Fs, ino: Ino, hasher: &mut DefaultHasher) -> Result<(), Error> {
    let inode = fs.inode(ino)?;
    let stat = fs.stat(&inode);
    format!("{stat:?}").hash(hasher);
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
        FileType::Directory => {
            let portion = fs.read_dir(&inode);
            if let Some(error) = portion.errors.into_iter().next() {
                return Err(error);
            }
            let entries: BTreeMap<_, _> =
                portion.entries.into_iter().map(|entry| (entry.name, entry.ino)).collect();
            for (name, ino) in entries {
                name.hash(hasher);
                node(fs, ino, hasher)?;
            }
        }
        _ => {}
    }
    Ok(())
}
