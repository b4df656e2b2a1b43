//! Copies all that can be read of a damaged volume.
//!
//! First the tree of the root directory, as [`get`](crate::get()) and [`archive`](crate::archive())
//! copy it. Then the inodes in use that no directory named, because the one that did is damaged:
//! the inode btrees list them. They go below `lost+found` (`unnamed` says where).
//!
//! 1. The entries of each directory are copied once, however many names lead to it.
//! 2. Every inode in use is copied, or an event names it, or an event names its group.
//! 3. Where the inode btree of a group is damaged, the rest of it is used, and of the other chunks
//!    those with an inode that a directory named.

mod unnamed;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use parking_lot::Mutex;
use xfskit_vfs::{Fs, Ino, Inode, TreeWalk, Visited, Visitor, join};

use crate::archive::Archive;
use crate::dest::Dir;
use crate::get::{Copy, DirNode, Events, fillable, locked, parent_and_name};
use crate::inode_set::InodeSet;
use crate::{ArchiveError, Event, GetError, GetOptions, Report};
use unnamed::Unnamed;

/// Counts of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Counts of the copy.
    pub copied: Report,
    /// Files and directories that no directory named, without those below such directories.
    pub unnamed: u64,
    /// The name of the directory with these in the destination: `lost+found`, or another if the
    /// volume has that one. `None` if there are none.
    pub lost_found: Option<Vec<u8>>,
}

/// The destination of a salvage.
trait Receiver {
    /// The reason why the destination takes nothing more.
    type Error;

    /// Copies the tree at `inode` to `place`, a path below the destination; empty for the
    /// destination itself. Returns false if the place is taken.
    fn copy_tree(&mut self, place: &[u8], inode: Inode) -> Result<bool, Self::Error>;
}

/// Copies all that can be read of `fs` to the directory `dest`, which does not exist or is empty.
///
/// # Errors
/// The destination exists or fails. Damage in the volume goes to `events`.
pub fn salvage(
    fs: &Fs,
    dest: &Path,
    options: GetOptions<'_>,
    events: Events<'_>,
) -> Result<Salvaged, GetError> {
    let failed = |error| GetError::Destination { path: dest.to_owned(), error };
    let root = if dest.symlink_metadata().is_ok() {
        fillable(dest, true)?
    } else {
        let (parent, name) = parent_and_name(dest);
        let made = Dir::open(&parent).and_then(|parent| parent.make_dir(&name));
        locked(made.map_err(failed)?, dest)?
    };
    let found = Mutex::new(InodeSet::default());
    let events = &|event: Event<'_>| note(&found, event, events);
    let copy = Copy::new(fs, root, options, events);
    let seen = Mutex::new(Visited::new(fs.volume().geo().rootino, b"/"));
    let mut receiver = Directory { fs, copy: &copy, seen: &seen, threads: options.threads };
    // An error is found again when the copy ends.
    let done = run(fs, &mut receiver, &found, events);
    let copied = copy.end(dest)?;
    Ok(Salvaged { copied, ..done.unwrap_or_default() })
}

/// Writes all that can be read of `fs` to `out` as a tar archive.
///
/// # Errors
/// `out` cannot be written. Damage in the volume goes to `events`.
pub fn salvage_to_archive(
    fs: &Fs,
    out: impl Write,
    events: Events<'_>,
) -> Result<Salvaged, ArchiveError> {
    let found = Mutex::new(InodeSet::default());
    let events = &|event: Event<'_>| note(&found, event, events);
    let seen = Some(Visited::new(fs.volume().geo().rootino, b"/"));
    let archive = Archive::new(fs, out, events);
    let mut receiver = Tar { fs, archive, seen, places: HashSet::new() };
    let done = run(fs, &mut receiver, &found, events)?;
    Ok(Salvaged { copied: receiver.archive.end()?, ..done })
}

/// Adds the inode of an event that names one to `found`, and passes the event on.
fn note(found: &Mutex<InodeSet>, event: Event<'_>, events: Events<'_>) {
    if let Event::Found(ino) | Event::Damaged { ino, .. } = event {
        found.lock().insert(ino);
    }
    events(event);
}

/// Copies the tree of the root directory, and then what it did not lead to.
fn run<R: Receiver>(
    fs: &Fs,
    receiver: &mut R,
    found: &Mutex<InodeSet>,
    events: Events<'_>,
) -> Result<Salvaged, R::Error> {
    let rootino = fs.volume().geo().rootino;
    events(Event::Found(rootino));
    let root = match fs.root() {
        Ok(root) if root.core().is_dir() => Some(root),
        Ok(_) => None,
        Err(error) => {
            events(Event::damaged(b"/", rootino, error));
            None
        }
    };
    let top = lost_found(fs, root.as_ref());
    if let Some(root) = root {
        receiver.copy_tree(b"", root)?;
    }
    let mut unnamed = 0;
    let lost = Unnamed::list(fs, found, events);
    for ino in lost.in_order() {
        // A directory that was copied meanwhile may have led to it.
        if found.lock().contains(ino) {
            continue;
        }
        let Ok(inode) = fs.inode(ino) else { continue };
        events(Event::Found(ino));
        let by_number = join(&top, format!("ino.{ino}").as_bytes());
        let place = lost.place(&inode).map_or_else(|| by_number.clone(), |path| join(&top, &path));
        let is_copied = receiver.copy_tree(&place, inode.clone())?;
        if !is_copied {
            receiver.copy_tree(&by_number, inode)?;
        }
        unnamed += 1;
    }
    let lost_found = (unnamed > 0).then_some(top);
    Ok(Salvaged { copied: Report::default(), unnamed, lost_found })
}

/// Returns a name that the root directory does not have.
fn lost_found(fs: &Fs, root: Option<&Inode>) -> Vec<u8> {
    let entries = root.map(|root| fs.read_dir(root).entries).unwrap_or_default();
    let names: HashSet<Vec<u8>> = entries.into_iter().map(|entry| entry.name).collect();
    let name = |n: usize| match n {
        0 => b"lost+found".to_vec(),
        n => format!("lost+found.{n}").into_bytes(),
    };
    (0..=names.len()).map(name).find(|name| !names.contains(name)).unwrap_or_default()
}

/// A directory as the destination.
struct Directory<'a, 'e> {
    fs: &'a Fs,
    copy: &'a Copy<'a, 'e>,
    seen: &'a Mutex<Visited>,
    threads: usize,
}

impl Directory<'_, '_> {
    /// Copies `inode` to `name` in `parent`, the directory `place` of the destination.
    fn copy_into(&self, parent: &Dir, place: &[u8], name: &[u8], inode: Inode) {
        let shared = &self.copy.shared;
        let path = join(b"/", place);
        if !inode.core().is_dir() {
            if let Some(error) = self.fs.time_fault(&inode) {
                shared.fault(&join(&path, name), inode.ino(), error);
            }
            let ahead = self.copy.nothing();
            return self.copy.one(parent, &path, place, (name, name), &inode, &ahead);
        }
        let (path, dest) = (join(&path, name), [place, b"/", name].concat());
        match parent.make_dir(name) {
            Ok(dir) => self.sweep(dir, path, dest, inode),
            Err(error) => shared.made(&path, Err(error)),
        }
    }

    fn sweep(&self, dir: Dir, path: Vec<u8>, dest: Vec<u8>, inode: Inode) {
        let node: std::sync::Arc<DirNode<'_>> = self.copy.node(dir, None, path, dest, &inode);
        self.fs.sweep_beyond(self.seen, inode, node, self.threads, self.copy);
    }
}

impl Receiver for Directory<'_, '_> {
    type Error = ();

    fn copy_tree(&mut self, place: &[u8], inode: Inode) -> Result<bool, ()> {
        let shared = &self.copy.shared;
        let Some(slash) = place.iter().rposition(|&byte| byte == b'/') else {
            // The handle stays open in `shared`; a new one belongs to the directory's node.
            match shared.root.try_clone() {
                Ok(dir) => self.sweep(dir, b"/".to_vec(), Vec::new(), inode),
                Err(error) => shared.made(b"/", Err(error)),
            }
            return if self.copy.stopped() { Err(()) } else { Ok(true) };
        };
        let (above, name) = (&place[..slash], &place[slash + 1..]);
        let Ok(parent) = shared.root.make_all(above) else { return Ok(false) };
        if parent.has(name) {
            return Ok(false);
        }
        enter(&mut self.seen.lock(), self.fs, &inode, place);
        // A directory that was copied before keeps its times.
        let times = parent.times();
        self.copy_into(&parent, above, name, inode);
        if let Ok(times) = times {
            // Without the right to it, the directory is another user's, and not of this copy.
            let _ = parent.set_times(&times);
        }
        if self.copy.stopped() { Err(()) } else { Ok(true) }
    }
}

/// Enters `inode`, if it is a directory, in `seen` under its path in the destination.
fn enter(seen: &mut Visited, fs: &Fs, inode: &Inode, place: &[u8]) {
    if inode.core().is_dir() {
        // It was not entered before: then it would have been found.
        let _ = seen.enter(inode.ino(), fs.volume().geo().rootino, place);
    }
}

/// A tar archive as the destination.
struct Tar<'a, W> {
    fs: &'a Fs,
    archive: Archive<'a, W>,
    /// The directories so far. `None` only while a walk has it.
    seen: Option<Visited>,
    places: HashSet<Vec<u8>>,
}

impl<W: Write> Receiver for Tar<'_, W> {
    type Error = io::Error;

    fn copy_tree(&mut self, place: &[u8], inode: Inode) -> io::Result<bool> {
        if !self.places.insert(place.to_vec()) {
            return Ok(false);
        }
        let root: Ino = self.fs.volume().geo().rootino;
        let mut seen = self.seen.take().unwrap_or_else(|| Visited::new(root, b"/"));
        if !place.is_empty() {
            enter(&mut seen, self.fs, &inode, place);
        }
        let path = join(b"/", place);
        let mut walk = TreeWalk::beyond(self.fs, seen, &path, inode, usize::MAX);
        self.archive.add_tree(&mut walk, 1)?;
        self.seen = Some(walk.into_seen());
        Ok(true)
    }
}
