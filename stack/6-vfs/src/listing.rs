//! A directory, listed portion by portion.

use std::ops::Deref;

use xfskit_core::dir::index::Digest;

use crate::names::Names;
use crate::{Fs, Inode, Portion};

/// A listing of one directory. It holds a few bytes for each name, and so sees names that come
/// twice in different portions. At the end it compares the names with the directory's index. `F` is
/// how it refers to the filesystem: by a borrow ([`Listing`]), or as an owner.
#[derive(Debug)]
pub struct DirListing<F: Deref<Target = Fs>> {
    fs: F,
    dir: Inode,
    /// Where to go on; `None` at the end.
    next: Option<u64>,
    names: Names,
    digest: Digest,
}

/// A listing that borrows the filesystem.
pub type Listing<'f> = DirListing<&'f Fs>;

impl Fs {
    /// Begins a listing of the directory `dir`.
    pub fn listing(&self, dir: Inode) -> Listing<'_> {
        DirListing::new(self, dir)
    }
}

impl<F: Deref<Target = Fs>> DirListing<F> {
    /// Begins a listing of the directory `dir`, as [`Fs::listing`] does.
    pub fn new(fs: F, dir: Inode) -> Self {
        Self { fs, dir, next: Some(0), names: Names::default(), digest: Digest::default() }
    }

    /// Returns the next entries, at most `max`; `None` at the end. The last portion has an error
    /// for each name that came twice, and one if there are names that cannot be looked up.
    pub fn portion(&mut self, max: usize) -> Option<Portion> {
        let mut portion = self.fs.portion(&self.dir, self.next?, max);
        self.names.add(&portion.entries);
        self.digest.add_all(portion.digest);
        self.next = portion.next;
        if self.is_done() {
            let names = std::mem::take(&mut self.names);
            portion.errors.extend(names.repeated(self.fs.volume(), self.dir.ino()));
            portion.errors.extend(self.fs.unindexed(&self.dir, self.digest));
        }
        Some(portion)
    }

    /// Returns true if all of the directory was listed.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Inode {
        &self.dir
    }
}
