//! Builders of trees. Each takes an empty directory of a mounted volume and lets the kernel make
//! one family of on-disk forms there. [`corners`] calls them all.

pub mod attributes;
pub mod directories;
pub mod files;
pub mod inodes;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Random;

/// Properties of a volume on which trees depend, and how much a test needs.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Size of a filesystem block, in bytes.
    pub block: u64,
    /// Size of a directory block, in bytes.
    pub dir_block: u64,
    /// Whether the volume supports reflink.
    pub reflink: bool,
    /// Whether to build the forms that take seconds (several free-index blocks, tall trees).
    pub tall: bool,
    /// Whether the mount is FUSE, which refuses to collapse and insert ranges, and ACLs larger than
    /// a page.
    pub fuse: bool,
}

impl Shape {
    /// The default volume.
    pub const DEFAULT: Self =
        Self { block: 4096, dir_block: 4096, reflink: true, tall: false, fuse: false };
}

/// Builds the corner cases of every form below `root`.
pub fn corners(root: &Path, shape: &Shape) -> io::Result<()> {
    inodes::all(&fresh(root, "inodes")?)?;
    directories::all(&fresh(root, "directories")?, shape)?;
    files::all(&fresh(root, "files")?, shape)?;
    attributes::all(&fresh(root, "attributes")?, shape)
}

/// Makes the per-AG trees taller than one block: thousands of inodes in one group, and many shared
/// extents.
pub fn tall_groups(root: &Path, shape: &Shape) -> io::Result<()> {
    let many = fresh(root, "many-inodes")?;
    for number in 0..5000 {
        fs::write(many.join(number.to_string()), "")?;
    }
    if shape.reflink {
        files::shared_extents(&fresh(root, "shared-in-pieces")?, shape, 600)?;
    }
    Ok(())
}

/// Creates directory `name` in `parent`.
pub fn fresh(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let path = parent.join(name);
    fs::create_dir(&path)?;
    Ok(path)
}

/// Returns `length` random bytes of `seed`.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

/// Removes everything below `root`, including files with flags that forbid it.
pub fn empty(root: &Path) -> io::Result<()> {
    inodes::clear_flags(root)?;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
