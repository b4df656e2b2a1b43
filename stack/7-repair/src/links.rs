//! The names of inodes, found by one pass over all directories.

use std::collections::BTreeSet;

use xfskit_format::inode::{Dinode, FileType};
use xfskit_units::Ino;

use crate::directories;
use crate::error::Result;
use crate::view::{Link, Links, View};

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
