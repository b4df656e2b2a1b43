//! Changes a filesystem: names, links, owners, times, attributes.
//!
//! Every call is atomic: a call that returns an error has changed nothing. Any thread may call.
//! Calls take inode numbers, as a network or FUSE server has them;
//! [`Fs::lookup`](crate::Fs::lookup) resolves paths before. Permissions are the caller's concern:
//! this floor does not know users.
//!
//! | module | what |
//! | --- | --- |
//! | [`make`] | makes files, directories, symbolic links, devices, and files without a name |
//! | [`remove`] | removes names, and frees inodes that are no longer used |
//! | [`rename`] | moves, exchanges and replaces names |
//! | [`set`] | sets owners, modes, times, extended attributes |
//! | [`handle`] | files open for reading and writing at an offset |
//! | [`share`] | shares, copies and exchanges content of two files |
//! | [`hold`] | inodes held open: they outlive their names |

pub mod handle;
pub mod hold;
pub mod make;
pub mod remove;
pub mod rename;
pub mod set;
pub mod share;

use std::sync::Arc;
use std::time::SystemTime;

use xfskit_core::attr::change::ParentName;
use xfskit_core::{Tx, TxInode};
use xfskit_format::dir::NAME_MAX;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;

use crate::{Error, Result};

/// A source of the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Makes a clock that calls `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the clock of this machine.
    pub fn system() -> Self {
        Self::new(|| {
            let since =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            Timestamp { sec, nsec: since.subsec_nanos() }
        })
    }

    /// Returns a clock that always has the same time.
    pub fn fixed(at: Timestamp) -> Self {
        Self::new(move || at)
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Takes the locks of several inodes, in the order of their numbers. Returns the inodes in the
/// order of the arguments.
pub(crate) fn take<const N: usize>(
    tx: &mut Tx<'_>,
    inos: [Ino; N],
) -> xfskit_core::Result<[TxInode; N]> {
    let mut order = inos;
    order.sort_unstable();
    let mut taken = [None; N];
    for ino in order {
        let inode = tx.iget(ino)?;
        for (place, _) in taken.iter_mut().zip(inos).filter(|(_, wanted)| *wanted == ino) {
            *place = Some(inode);
        }
    }
    Ok(taken.map(|inode| inode.expect("each was taken in its turn")))
}

/// Checks that an entry can have this name.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong { path: shown() });
    }
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == b'/' || b == 0)
    {
        return Err(Error::BadName { name: shown() });
    }
    Ok(())
}

/// Fails if `dir` is not a directory that can take a name. A removed directory cannot, even if it
/// is held.
pub(crate) fn check_dir(tx: &Tx<'_>, dir: TxInode) -> xfskit_core::Result<()> {
    let core = tx.core(dir);
    if !core.is_dir() {
        return Err(xfskit_core::Error::NotDirectory(dir.ino));
    }
    if core.nlink() == 0 {
        return Err(xfskit_core::Error::NoInode(dir.ino));
    }
    Ok(())
}

/// Returns the parent pointer of entry `name` in directory `dir`; `None` on a volume without parent
/// pointers.
fn entry_of<'n>(tx: &Tx<'_>, dir: TxInode, name: &'n [u8]) -> Option<ParentName<'n>> {
    let has = tx.volume().geo().features.parent();
    has.then(|| ParentName { ino: dir.ino, generation: tx.core(dir).generation(), name })
}

/// Adds the parent pointer of a new name of `inode`.
pub(crate) fn named(
    tx: &mut Tx<'_>,
    inode: TxInode,
    dir: TxInode,
    name: &[u8],
) -> xfskit_core::Result<()> {
    entry_of(tx, dir, name).map_or(Ok(()), |entry| tx.parent_set(inode, entry))
}

/// Removes the parent pointer of a lost name of `inode`.
pub(crate) fn unnamed(
    tx: &mut Tx<'_>,
    inode: TxInode,
    dir: TxInode,
    name: &[u8],
) -> xfskit_core::Result<()> {
    entry_of(tx, dir, name).map_or(Ok(()), |entry| tx.parent_remove(inode, entry))
}

/// Replaces the parent pointer of `old` by that of `new`.
pub(crate) fn renamed(
    tx: &mut Tx<'_>,
    inode: TxInode,
    old: (TxInode, &[u8]),
    new: (TxInode, &[u8]),
) -> xfskit_core::Result<()> {
    match (entry_of(tx, old.0, old.1), entry_of(tx, new.0, new.1)) {
        (Some(old), Some(new)) => tx.parent_replace(inode, old, new),
        _ => Ok(()),
    }
}
