//! Changing a filesystem: names, links, owners, times, attributes.
//!
//! Every call is one change that happens or does not: what comes back as an error has changed
//! nothing. Calls may come from many threads. Each begins with inode numbers, as a network or FUSE
//! server has them; paths are resolved by [`Fs::lookup`](crate::Fs::lookup) before. Which caller
//! may do what is the caller's affair: this floor does not know users.
//!
//! | module | what |
//! | --- | --- |
//! | [`make`] | files, directories, symbolic links, devices, and files without a name |
//! | [`remove`] | names removed; inodes given back when nobody needs them |
//! | [`rename`] | names moved, exchanged, replaced |
//! | [`set`] | owners, modes, times, extended attributes |
//! | [`handle`] | files open for reading and writing at an offset |
//! | [`share`] | content of two files shared, copied, exchanged |
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

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The clock of this machine.
    pub fn system() -> Self {
        Self::new(|| {
            let since =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            Timestamp { sec, nsec: since.subsec_nanos() }
        })
    }

    /// A clock that stands still.
    pub fn fixed(at: Timestamp) -> Self {
        Self::new(move || at)
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Takes the locks of several inodes, in the order of their numbers; answers them in the order
/// asked for.
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

/// A name that an entry can have.
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

/// Fails where `dir` is no directory that can take a name: a removed one cannot, though somebody
/// may hold it.
pub(crate) fn check_place(tx: &Tx<'_>, dir: TxInode) -> xfskit_core::Result<()> {
    let core = tx.core(dir);
    if !core.is_dir() {
        return Err(xfskit_core::Error::NotDirectory(dir.ino));
    }
    if core.nlink() == 0 {
        return Err(xfskit_core::Error::NoInode(dir.ino));
    }
    Ok(())
}

/// The entry `name` of directory `dir`, as the inode that it names remembers it; `None` on a volume
/// without parent pointers.
fn entry_of<'n>(tx: &Tx<'_>, dir: TxInode, name: &'n [u8]) -> Option<ParentName<'n>> {
    let has = tx.volume().geo().features.parent();
    has.then(|| ParentName { ino: dir.ino, generation: tx.core(dir).generation(), name })
}

/// `inode` has a new name.
pub(crate) fn named(
    tx: &mut Tx<'_>,
    inode: TxInode,
    dir: TxInode,
    name: &[u8],
) -> xfskit_core::Result<()> {
    entry_of(tx, dir, name).map_or(Ok(()), |entry| tx.parent_set(inode, entry))
}

/// `inode` has lost a name.
pub(crate) fn unnamed(
    tx: &mut Tx<'_>,
    inode: TxInode,
    dir: TxInode,
    name: &[u8],
) -> xfskit_core::Result<()> {
    entry_of(tx, dir, name).map_or(Ok(()), |entry| tx.parent_remove(inode, entry))
}

/// `inode` is named by `new` instead of `old`.
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
