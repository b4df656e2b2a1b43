//! The names of inodes, found by one pass over all directories.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::inode::{Dinode, FileType};
use xfskit_units::Ino;

use crate::directories;
use crate::error::Result;
use crate::view::View;

/// A name of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub dir: Ino,
    /// Of the directory.
    pub generation: u32,
    pub name: Vec<u8>,
    /// The type of the inode, as the entry has it.
    pub kind: Option<FileType>,
}

/// The names of inodes.
pub(crate) type Links = BTreeMap<Ino, Vec<Link>>;

impl Link {
    /// Returns the name as reports show it: the number of the directory before it.
    pub(crate) fn shown(&self) -> String {
        format!("{:?} of directory {}", String::from_utf8_lossy(&self.name), self.dir)
    }
}

/// Returns the names that directories have for the inodes `wanted`, damaged ones among them.
pub(crate) fn of(view: View<'_>, wanted: &BTreeSet<Ino>) -> Result<Links> {
    let mut links = Links::new();
    if wanted.is_empty() {
        return Ok(links);
    }
    for dir in view.used_inodes() {
        let Some(bytes) = view.inode(dir)? else { continue };
        let inode = Dinode::verify(&bytes, &view.ctx(dir), dir);
        let Some(inode) = inode.ok().filter(Dinode::is_dir) else { continue };
        let generation = inode.generation();
        directories::each_entry(view, &inode, dir, &mut |entry| {
            if wanted.contains(&entry.inumber) && !matches!(entry.name, b"." | b"..") {
                let kind = entry.filetype.and_then(FileType::from_ftype);
                let link = Link { dir, generation, name: entry.name.to_vec(), kind };
                links.entry(entry.inumber).or_default().push(link);
            }
            Ok(())
        })?;
    }
    Ok(links)
}
