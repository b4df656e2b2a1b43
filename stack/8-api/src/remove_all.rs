//! A directory removed with everything below it.

use xfskit_core::Error as Core;
use xfskit_vfs::{Follow, Fs, Hold, Inode, Result};

/// Entries that are removed between two listings of a directory.
const PORTION: usize = 1024;

/// A directory that is being emptied.
struct Level<'f> {
    dir: Hold<'f>,
    /// Its name in the level above.
    name: Vec<u8>,
    /// Names of directories in it, as far as it was listed.
    dirs: Vec<Vec<u8>>,
}

/// Removes the directory `path` with everything below it. Memory grows with the depth of the tree.
pub(crate) fn remove_all(fs: &Fs, path: &[u8]) -> Result<()> {
    let (parent, name) = fs.hold_parent(path)?;
    let top = fs.resolve(path, Follow::No)?;
    let mut levels = vec![Level { dir: hold_dir(fs, &top)?, name, dirs: Vec::new() }];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.dirs.pop() {
            let dir = fs.inode(level.dir.ino())?;
            if let Some(below) = fs.lookup_inode(&dir, &name)? {
                levels.push(Level { dir: hold_dir(fs, &below)?, name, dirs: Vec::new() });
            }
            continue;
        }
        if unlink_some(fs, level)? {
            continue;
        }
        let Some(empty) = levels.pop() else { break };
        let above = levels.last().map_or(parent.ino(), |level| level.dir.ino());
        fs.rmdir(above, &empty.name)?;
    }
    Ok(())
}

fn hold_dir<'f>(fs: &'f Fs, dir: &Inode) -> Result<Hold<'f>> {
    if dir.core().is_dir() {
        return fs.hold_inode(dir);
    }
    Err(Core::NotDirectory(dir.ino()).into())
}

/// Lists a portion of a directory and removes the names in it that are no directories'. Returns
/// false if the directory is empty.
fn unlink_some(fs: &Fs, level: &mut Level<'_>) -> Result<bool> {
    let dir = level.dir.ino();
    let portion = fs.read_dir_from(&fs.inode(dir)?, 0, PORTION);
    if let Some(error) = portion.errors.into_iter().next() {
        return Err(error);
    }
    let found = !portion.entries.is_empty();
    for entry in portion.entries {
        match fs.unlink(dir, &entry.name) {
            Err(xfskit_vfs::Error::Core(Core::IsDirectory(_))) => level.dirs.push(entry.name),
            // Another thread removed it meanwhile.
            Ok(()) | Err(xfskit_vfs::Error::Core(Core::NoEntry)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
