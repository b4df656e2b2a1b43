//! A volume as a filesystem: inodes, directories, links, attributes.

use std::borrow::Cow;
use std::ops::ControlFlow;

use serde::Serialize;
use xfskit_core::dir::EachEntry;
use xfskit_core::dir::index::{Digest, IndexFault};
use xfskit_core::{Inode, Volume};
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::NSEC_PER_SEC;
use xfskit_format::{Fork, Location};
use xfskit_trans::Shared;
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::{Daddr, FileOff, Ino, Sectors};

use crate::change::Clock;
use crate::change::hold::Holds;
use crate::names::Names;
use crate::{Error, Result};

/// Maximum number of blocks of one directory that are announced to the device before it is read.
const DIR_AHEAD: u64 = 64;

/// Default maximum of the bytes that one call returns whole; see [`Fs::with_whole_max`]. A damaged
/// or hostile disk may claim any size.
pub const WHOLE_MAX: u64 = 1 << 30;

/// A volume as a filesystem. All threads share it.
///
/// If it is dropped without [`close`](Fs::close), a volume that is open for writing is left as
/// after a crash: with the changes that were synced.
#[derive(Debug)]
pub struct Fs {
    pub(crate) volume: Volume,
    pub(crate) clock: Clock,
    /// Inodes that are open.
    pub(crate) held: Holds,
    /// Held while a directory is moved, so that one is moved at a time. Taken before any inode;
    /// rank [`LockRank::Io`].
    pub(crate) moves: RankedMutex<()>,
    /// Maximum number of bytes that one call returns whole.
    pub(crate) whole_max: u64,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: no slash, no zero byte, neither `.` nor `..`.
    pub name: Vec<u8>,
    /// The inode it names.
    pub ino: Ino,
    /// The file type in the directory entry; [`FileType::Unknown`] if it has none.
    pub file_type: FileType,
}

/// One extended attribute, by the name that programs use: `user.`, `trusted.`, `security.`,
/// `system.posix_acl_access` or `system.posix_acl_default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Xattr {
    /// Name with its namespace.
    pub name: Vec<u8>,
    /// The value, as `getxattr` returns it.
    pub value: Vec<u8>,
}

/// Some entries of a directory.
#[derive(Debug, Default)]
pub struct Portion {
    /// In the order of the directory.
    pub entries: Vec<Entry>,
    /// Cookie of the next portion; `None` at the end.
    pub next: Option<u64>,
    /// Errors of entries that could not be read. All sound entries are returned.
    pub errors: Vec<Error>,
    /// Of the entries, to be compared with the directory's index.
    pub(crate) digest: Digest,
}

/// Memory of a result that is returned whole.
struct Whole {
    max: u64,
    bytes: u64,
}

impl Whole {
    fn new(max: u64) -> Self {
        Self { max, bytes: 0 }
    }

    /// Counts one more `T`, which owns `len` bytes, or an error in its place. Breaks if that
    /// exceeds the maximum.
    fn take<T>(&mut self, len: usize) -> ControlFlow<()> {
        let more = (size_of::<T>().max(size_of::<Error>()) + len) as u64;
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > self.max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the error if the maximum was exceeded. `instead` names the call that returns parts.
    fn exceeded(&self, what: &'static str, instead: &'static str) -> Option<Error> {
        let (bytes, max) = (self.bytes, self.max);
        (bytes > max).then_some(Error::TooLarge { what, bytes, max, instead })
    }
}

impl Fs {
    /// Returns the filesystem on `volume`. Changes get the time of `clock`.
    pub fn new(volume: Volume, clock: Clock) -> Self {
        let moves = RankedMutex::new(LockRank::Io, ());
        Self { volume, clock, held: Holds::default(), moves, whole_max: WHOLE_MAX }
    }

    /// Sets the maximum of the bytes that one call returns whole: a directory, all attributes of a
    /// file, a file's content ([`WHOLE_MAX`] by default).
    #[must_use]
    pub fn with_whole_max(self, bytes: u64) -> Self {
        Self { whole_max: bytes, ..self }
    }

    /// Makes all changes so far durable.
    ///
    /// # Errors
    /// The volume is open for reading only, was shut down, or is shut down by this call.
    pub fn sync(&self) -> Result<()> {
        Ok(self.volume.sync()?)
    }

    /// Makes all changes of inode `ino` durable; for a directory, those of its names.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        Ok(self.volume.fsync(ino)?)
    }

    /// Returns the size of the volume, and how much of it is free.
    pub fn statfs(&self) -> crate::Statfs {
        crate::Statfs::of(&self.volume)
    }

    /// Makes all changes durable, writes them in place, and marks the journal clean.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); [`LeftDirty`](xfskit_core::Error::LeftDirty) if the volume is
    /// closed and its journal stays dirty.
    pub fn close(self) -> Result<()> {
        Ok(self.close_counted()?.into_clean().map(drop)?)
    }

    /// Closes the volume like [`close`](Self::close), and returns its statistics and the orphans
    /// for which the journal stays dirty.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn close_counted(self) -> Result<xfskit_core::Closed> {
        Ok(self.volume.close_counted()?)
    }

    /// Closes a filesystem that handles still refer to. Held inodes without a name are freed. Every
    /// later call fails with [`Closed`](xfskit_core::Error::Closed). The caller makes sure that no
    /// change is running.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn close_shared(&self) -> Result<xfskit_core::Closed> {
        self.give_back_held();
        Ok(self.volume.close_shared()?)
    }

    /// Makes all changes so far durable and writes them in place. The journal is clean afterwards,
    /// unless there are files without a name. The caller makes sure that no change is running.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn quiesce(&self) -> Result<()> {
        Ok(self.volume.quiesce(self.held.has_unlinked())?)
    }

    /// Returns the clock that changes get their time from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the volume below.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the root directory.
    ///
    /// # Errors
    /// Its inode cannot be read.
    pub fn root(&self) -> Result<Inode> {
        self.inode(self.volume.geo().rootino)
    }

    /// Returns inode `ino`, which must be in use, as it is now, with changes of its file that are
    /// only in memory.
    ///
    /// # Errors
    /// The inode is free, or cannot be read.
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        Ok(self.volume.iget_live(ino)?)
    }

    /// Reads many inodes together. Entry `i` of the result belongs to `inos[i]`.
    pub fn inodes(&self, inos: &[Ino]) -> Vec<Result<Inode>> {
        self.volume.read_ahead_inodes(inos);
        inos.iter().map(|&ino| self.inode(ino)).collect()
    }

    /// Returns `inode` as it is now, and a lock that keeps it unchanged while it is read. On a
    /// volume that is open for writing, the caller's copy may be old.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode) if it is gone, or its number is another file's.
    pub(crate) fn now<'i>(&self, inode: &'i Inode) -> Result<(Option<Shared>, Cow<'i, Inode>)> {
        let Some(shared) = self.volume.share(inode.ino())? else {
            return Ok((None, Cow::Borrowed(inode)));
        };
        let now = self.volume.iget(inode.ino())?;
        if !now.is_same_file(inode) {
            return Err(xfskit_core::Error::NoInode(inode.ino()).into());
        }
        Ok((Some(shared), Cow::Owned(now)))
    }

    /// Returns the inode number of `name` in the directory `dir`, as it is now.
    ///
    /// # Errors
    /// `dir` is not a directory, or is damaged.
    pub fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let (shared, dir) = self.now(dir)?;
        Ok(self.volume.lookup_kept(&dir, name, shared.as_ref())?.map(|(ino, _)| ino))
    }

    /// Returns the inode of `name` in the directory `dir`, as it is now: that of the file with this
    /// name, not of a file that got its number since.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup), and if the inode cannot be read.
    pub fn lookup_inode(&self, dir: &Inode, name: &[u8]) -> Result<Option<Inode>> {
        let (shared, dir) = self.now(dir)?;
        let Some((ino, _)) = self.volume.lookup_kept(&dir, name, shared.as_ref())? else {
            return Ok(None);
        };
        // The directory is locked, so the name exists. From here on its inode is not freed.
        let _hold = shared.is_some().then(|| self.hold(ino));
        drop(shared);
        Ok(Some(self.inode(ino)?))
    }

    /// Returns the metadata of `inode`.
    pub fn stat(&self, inode: &Inode) -> crate::Stat {
        crate::Stat::of(inode.ino(), &inode.core(), self.volume.geo())
    }

    /// Returns an error if a time of `inode` has a second of nanoseconds or more. Only the older
    /// encoding can hold that. The rest of the inode is intact. Walks of a tree report it.
    pub fn time_fault(&self, inode: &Inode) -> Option<Error> {
        let core = inode.core();
        if core.has_bigtime() {
            return None;
        }
        let times = [("inode.atime", core.atime()), ("inode.mtime", core.mtime())];
        let born = core.crtime().map(|time| ("inode.crtime", time));
        let mut times = times.into_iter().chain([("inode.ctime", core.ctime())]).chain(born);
        let (check, time) = times.find(|(_, time)| time.nsec >= NSEC_PER_SEC)?;
        let at = xfskit_format::inode::location(self.volume.geo(), inode.ino());
        let fault = self.volume.ctx(at).at_most(check, NSEC_PER_SEC - 1, time.nsec).err()?;
        Some(Error::Core(fault.into()))
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// `inode` is not a symbolic link, or cannot be read.
    pub fn read_link(&self, inode: &Inode) -> Result<Vec<u8>> {
        let (_shared, inode) = self.now(inode)?;
        Ok(self.volume.readlink(&inode)?)
    }

    /// Returns all extended attributes of `inode`, in the order of the disk, and errors of those
    /// that could not be read. If they take more memory than one call returns, that is the last
    /// error ([`Fs::with_whole_max`]).
    pub fn xattrs(&self, inode: &Inode) -> (Vec<Xattr>, Vec<Error>) {
        let (mut xattrs, mut errors) = (Vec::new(), Vec::new());
        let (_shared, inode) = match self.now(inode) {
            Ok(now) => now,
            Err(error) => return (xattrs, vec![error]),
        };
        let mut whole = Whole::new(self.whole_max);
        let listed = self.volume.xattrs(&inode, &mut |xattr| {
            let len = match xattr {
                Ok(xattr) => {
                    let len = xattr.name.len() + xattr.value.len();
                    xattrs.push(Xattr { name: xattr.name, value: xattr.value.into_owned() });
                    len
                }
                Err(error) => {
                    errors.push(error.into());
                    0
                }
            };
            whole.take::<Xattr>(len)
        });
        errors.extend(whole.exceeded("the extended attributes", "read one with Fs::xattr"));
        errors.extend(listed.err().map(Error::Core));
        (xattrs, errors)
    }

    /// Returns the value of one extended attribute of inode `ino`, by the name that programs use,
    /// or `None`. On a volume that is open for writing only the blocks on the path to it are read,
    /// else all attributes before it.
    ///
    /// # Errors
    /// A name that no attribute can have, device failures, corruption.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (namespace, on_disk, _) = crate::xattr::to_disk(name, &[])?;
        if self.volume.engine().is_ok() && !name.starts_with(b"system.") {
            return Ok(self.volume.transact(|tx| {
                let [inode] = crate::change::take(tx, [ino])?;
                tx.attr_get(inode, namespace, on_disk)
            })?);
        }
        let (xattrs, mut errors) = self.xattrs(&self.inode(ino)?);
        let found = xattrs.into_iter().find(|xattr| xattr.name == name);
        match errors.pop() {
            Some(error) if found.is_none() => Err(error),
            _ => Ok(found.map(|xattr| xattr.value)),
        }
    }

    /// Returns all entries of a directory, in the order of the directory, without `.` and `..`. If
    /// they take more memory than one call returns, that is the last error
    /// ([`Fs::with_whole_max`]). A repeated name is an error.
    pub fn read_dir(&self, dir: &Inode) -> Portion {
        self.read_dir_from(dir, 0, usize::MAX)
    }

    /// Returns at most `max` entries of a directory from `cookie` (0 is the beginning). A name that
    /// repeats among them is an error; only a [`listing`](Self::listing) finds one that repeats in
    /// another portion.
    pub fn read_dir_from(&self, dir: &Inode, cookie: u64, max: usize) -> Portion {
        let mut portion = self.portion(dir, cookie, max);
        let mut names = Names::default();
        names.add(&portion.entries);
        portion.errors.splice(0..0, names.repeated(&self.volume, dir.ino()));
        if cookie == 0 && portion.next.is_none() {
            portion.errors.extend(self.unindexed(dir, portion.digest));
        }
        portion
    }

    /// Returns an error if the index of `dir`, of which `listed` is a whole listing, does not lead
    /// to every name, or has entries without a name.
    pub(crate) fn unindexed(&self, dir: &Inode, listed: Digest) -> Option<Error> {
        let (_shared, dir) = self.now(dir).ok()?;
        let indexed = self.volume.index_digest(&dir);
        if indexed.is_ok_and(|indexed| indexed.is_none_or(|indexed| indexed == listed)) {
            return None;
        }
        // Damage, or the directory changed between the portions.
        let (check, due, found) = match self.volume.index_fault(&dir).ok()?? {
            IndexFault::Missing { count, first } => {
                let first = String::from_utf8_lossy(&first);
                let found = match count {
                    1 => format!("the name {first:?} cannot be looked up"),
                    _ => format!("{count} names cannot be looked up, {first:?} first"),
                };
                ("dir.leaf.missing", "names that can be looked up", found)
            }
            IndexFault::Extra { count } => {
                let found = match count {
                    1 => "a hash entry has no name".to_owned(),
                    _ => format!("{count} hash entries have no name"),
                };
                ("dir.leaf.extra", "a name for each hash entry", found)
            }
        };
        let ctx = self.volume.ctx(Location::of("directory").ino(dir.ino()));
        Some(Error::Core(ctx.fail(check, due, found).err()?.into()))
    }

    /// Passes each entry of a directory from `cookie` on (0 is the beginning) to `each`, `.` and
    /// `..` too, and each part that cannot be read. The directory is locked meanwhile.
    ///
    /// # Errors
    /// `dir` is not a directory any more, or its map is damaged.
    pub fn each_entry(&self, dir: &Inode, cookie: u64, each: &mut EachEntry<'_>) -> Result<()> {
        let (_shared, dir) = self.now(dir)?;
        Ok(self.volume.readdir(&dir, cookie, each)?)
    }

    /// Returns a portion like [`read_dir_from`](Self::read_dir_from), without a check for repeated
    /// names.
    pub(crate) fn portion(&self, dir: &Inode, cookie: u64, max: usize) -> Portion {
        let mut portion = Portion::default();
        let mut whole = Whole::new(self.whole_max);
        let listed = self.each_entry(dir, cookie, &mut |entry| {
            if let Ok(entry) = &entry {
                portion.digest.add(self.volume.geo(), entry);
            }
            let len = match entry {
                Ok(entry) if matches!(entry.name, b"." | b"..") => 0,
                Ok(entry) => {
                    portion.entries.push(Entry {
                        name: entry.name.to_vec(),
                        ino: entry.ino,
                        file_type: entry.ftype.unwrap_or(FileType::Unknown),
                    });
                    if portion.entries.len() >= max {
                        portion.next = Some(entry.cookie);
                        return ControlFlow::Break(());
                    }
                    entry.name.len()
                }
                Err(error) => {
                    portion.errors.push(error.into());
                    0
                }
            };
            whole.take::<Entry>(len)
        });
        portion.errors.extend(whole.exceeded("the directory", "list it with Fs::read_dir_from"));
        portion.errors.extend(listed.err());
        portion
    }

    /// Announces the blocks of many directories to the device, neighbours together.
    pub fn read_ahead_dirs<'i>(&self, dirs: impl Iterator<Item = &'i Inode>) {
        let geo = self.volume.geo();
        let step = u64::from(geo.dirblkfsbs());
        let mut wanted: Vec<(Daddr, Sectors)> = Vec::new();
        for dir in dirs {
            // A damaged map is reported when the directory is read.
            let Ok(extents) = self.volume.extents(dir, Fork::Data) else { continue };
            let blocks = (dir.core().size().0 >> geo.blocklog) / step;
            let starts = (0..blocks.min(DIR_AHEAD)).map(|n| FileOff(n * step));
            let maps = starts.filter_map(|start| extents.map_dir_block(geo, start));
            wanted.extend(maps.filter_map(|map| map.as_single()));
        }
        self.volume.cache().read_ahead(&wanted);
    }
}
