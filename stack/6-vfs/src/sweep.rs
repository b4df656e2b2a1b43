//! Visits a tree as fast as the device allows: several directories at once, on several threads, in
//! the order of the disk.
//!
//! A step takes a group of directories. It requests the blocks of all of them in one batch, reads
//! their entries, sorts these by inode number, which is the order on disk, requests all their
//! inodes in one batch, and passes the children to the [`Visitor`] directory by directory. The
//! directories among them become the groups of later steps. The newest are taken first, so that the
//! depth of the tree bounds memory, not its size. A large directory is taken in parts for the same
//! reason.
//!
//! Damage does not end a sweep: the visitor gets the error, and the sweep continues.

use parking_lot::Mutex;
use rayon::{Scope, ThreadPoolBuilder};
use xfskit_core::Inode;
use xfskit_format::inode::FileType;
use xfskit_units::Ino;

use crate::{Entry, Error, Fs, Listing, Result, Visited};

/// Number of directories taken in one step.
const GROUP: usize = 32;
/// Number of entries taken in one step, of all its directories. A larger directory continues in
/// another step.
const PORTION: usize = 8192;

/// A child of a directory.
#[derive(Debug)]
pub struct Child {
    /// Its name and number.
    pub entry: Entry,
    /// The file. `None` if the visitor does not need it and it is not a directory.
    pub inode: Option<Inode>,
}

/// Receives the results of a sweep. Called from many threads.
pub trait Visitor: Sync {
    /// State that the visitor keeps for a directory while it is being read: a path, an open handle.
    type Dir: Send + Sync;

    /// Returns true if every child's inode is needed, and false if directories' are enough.
    fn wants_inodes(&self) -> bool {
        true
    }

    /// Receives some children of one directory, in the order of the disk. Returns the directories
    /// to enter: the index among `children`, and the state to keep.
    fn children(&self, dir: &Self::Dir, children: &[Child]) -> Vec<(usize, Self::Dir)>;

    /// Receives an error: the directory (`entry` is `None`) or its `entry` cannot be read, or is
    /// damaged. What can be read of it is among the children nevertheless.
    fn fault(&self, dir: &Self::Dir, entry: Option<&Entry>, error: Error);

    /// Returns true if the sweep should end early.
    fn stopped(&self) -> bool {
        false
    }
}

/// A directory that waits for its step.
struct Task<'a, D> {
    listing: Listing<'a>,
    dir: D,
}

/// A running sweep.
struct Sweep<'a, V: Visitor> {
    fs: &'a Fs,
    visitor: &'a V,
    /// Directories that were entered, so that a cycle ends. A leaf lock.
    seen: &'a Mutex<Visited>,
}

impl Fs {
    /// Sweeps the tree below the directory `inode`, whose path is `path`, with `threads` threads
    /// (0: one per processor).
    pub fn sweep<V: Visitor>(
        &self,
        (path, inode): (&[u8], Inode),
        dir: V::Dir,
        threads: usize,
        visitor: &V,
    ) {
        let seen = Mutex::new(Visited::new(inode.ino(), path));
        self.sweep_beyond(&seen, inode, dir, threads, visitor);
    }

    /// Sweeps the tree below the directory `inode` as [`sweep`](Self::sweep) does, but for the
    /// directories that are in `seen` already. `inode` itself was just entered there.
    pub fn sweep_beyond<V: Visitor>(
        &self,
        seen: &Mutex<Visited>,
        inode: Inode,
        dir: V::Dir,
        threads: usize,
        visitor: &V,
    ) {
        if let Some(error) = self.time_fault(&inode) {
            visitor.fault(&dir, None, error);
        }
        let sweep = Sweep { fs: self, visitor, seen };
        let first = vec![Task { listing: self.listing(inode), dir }];
        match ThreadPoolBuilder::new().num_threads(threads).build() {
            Ok(pool) => pool.scope(|scope| sweep.step(scope, first)),
            // If no thread can be started, the global pool or this thread does the work.
            Err(_) => rayon::scope(|scope| sweep.step(scope, first)),
        }
    }
}

impl<'a, V: Visitor> Sweep<'a, V> {
    fn step<'s>(&'s self, scope: &Scope<'s>, mut group: Vec<Task<'a, V::Dir>>)
    where
        'a: 's,
    {
        if self.visitor.stopped() {
            return;
        }
        self.fs.read_ahead_dirs(group.iter().map(|task| task.listing.dir()));
        let mut portions = Vec::with_capacity(group.len());
        let max = PORTION / group.len().max(1);
        for task in &mut group {
            let mut portion = task.listing.portion(max).unwrap_or_default();
            for error in portion.errors {
                self.visitor.fault(&task.dir, None, error);
            }
            portion.entries.sort_unstable_by_key(|entry| entry.ino);
            portions.push(portion.entries);
        }
        let needed = portions.iter().flatten().filter(|entry| self.needs_inode(entry));
        let inos: Vec<Ino> = needed.map(|entry| entry.ino).collect();
        let mut inodes = self.fs.inodes(&inos).into_iter();
        let mut found = Vec::new();
        for (task, entries) in group.iter().zip(portions) {
            let mut children = self.children(&task.dir, entries, &mut inodes);
            let enter = self.visitor.children(&task.dir, &children);
            for (index, dir) in enter {
                let Some(child) = children.get_mut(index) else { continue };
                if let Some(inode) = child.inode.take() {
                    found.extend(self.first_visit(
                        (task.listing.dir(), &child.entry.name),
                        inode,
                        dir,
                    ));
                }
            }
        }
        // The pool takes the newest first, so the rest of a large directory waits until everything
        // below its beginning is done.
        for task in group.into_iter().filter(|task| !task.listing.is_done()) {
            scope.spawn(move |scope| self.step(scope, vec![task]));
        }
        self.spawn(scope, found);
    }

    fn needs_inode(&self, entry: &Entry) -> bool {
        self.visitor.wants_inodes()
            || matches!(entry.file_type, FileType::Directory | FileType::Unknown)
    }

    /// Joins entries with those of their inodes that are needed. Inodes that cannot be loaded are
    /// passed to the visitor as errors.
    fn children(
        &self,
        dir: &V::Dir,
        entries: Vec<Entry>,
        inodes: &mut impl Iterator<Item = Result<Inode>>,
    ) -> Vec<Child> {
        let mut children = Vec::with_capacity(entries.len());
        for entry in entries {
            let inode = if self.needs_inode(&entry) { inodes.next() } else { None };
            match inode.transpose() {
                Ok(inode) => {
                    if let Some(error) = inode.as_ref().and_then(|i| self.fs.time_fault(i)) {
                        self.visitor.fault(dir, Some(&entry), error);
                    }
                    children.push(Child { entry, inode });
                }
                Err(error) => self.visitor.fault(dir, Some(&entry), error),
            }
        }
        children
    }

    /// Returns the task of a directory that was not entered before, found as `name` in `parent`.
    fn first_visit(
        &self,
        (parent, name): (&Inode, &[u8]),
        inode: Inode,
        dir: V::Dir,
    ) -> Option<Task<'a, V::Dir>> {
        let mut seen = self.seen.lock();
        let entered = seen.enter(inode.ino(), parent.ino(), name);
        drop(seen);
        if let Err(error) = entered {
            self.visitor.fault(&dir, None, error);
            return None;
        }
        Some(Task { listing: self.fs.listing(inode), dir })
    }

    /// Gives directories to the pool in groups: large enough to read in batches, small enough that
    /// every thread gets some.
    fn spawn<'s>(&'s self, scope: &Scope<'s>, tasks: Vec<Task<'a, V::Dir>>)
    where
        'a: 's,
    {
        let share = tasks.len().div_ceil(rayon::current_num_threads().max(1));
        let mut rest = tasks.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<_> = rest.by_ref().take(share.clamp(1, GROUP)).collect();
            scope.spawn(move |scope| self.step(scope, group));
        }
    }
}
