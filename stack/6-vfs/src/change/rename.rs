//! Moves names.

use xfskit_core::icore::Touch;
use xfskit_core::{Error as Core, Tx, TxInode};
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;

use super::hold::Hold;
use super::make::{NewNode, check_new, make_in_place};
use super::{check_dir, check_name, renamed, take, unnamed};
use crate::{Fs, Result};

/// How an existing entry at the new name is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced, a directory only if it is empty.
    #[default]
    Replace,
    /// It is an error.
    NoReplace,
    /// It is required: the two entries are exchanged.
    Exchange,
}

/// A name in a directory that is held, and its inode.
#[derive(Clone, Copy)]
struct End<'n> {
    dir: TxInode,
    name: &'n [u8],
}

/// A rename whose directories are held.
struct Move<'n> {
    source: End<'n>,
    target: End<'n>,
    /// Made under the old name, in place of a free one.
    whiteout: Option<(&'n NewNode, FileType)>,
    now: Timestamp,
}

impl Fs {
    /// Renames `from_name` in `from` to `to_name` in `to`.
    ///
    /// # Errors
    /// [`Core::NoEntry`], [`Core::Exists`], [`Core::NotEmpty`], [`Core::NotDirectory`],
    /// [`Core::IsDirectory`], and [`Core::Limit`] if a directory would come below itself.
    pub fn rename(
        &self,
        from: Ino,
        from_name: &[u8],
        to: Ino,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.move_name((from, from_name), (to, to_name), mode, None)
    }

    /// Renames as [`rename`](Self::rename) does, and makes `whiteout`, which is no directory, under
    /// the old name. Both are one change. Two names of one inode are left alone.
    ///
    /// # Errors
    /// As [`rename`](Self::rename) and [`make`](Self::make); [`Core::Limit`] for an exchange, which
    /// leaves no name free.
    pub fn rename_leaving(
        &self,
        from: Ino,
        from_name: &[u8],
        to: Ino,
        to_name: &[u8],
        mode: RenameMode,
        whiteout: &NewNode,
    ) -> Result<()> {
        let file_type = check_new(whiteout)?;
        if file_type == FileType::Directory || mode == RenameMode::Exchange {
            return Err(Core::Limit("a rename leaves no directory, and an exchange nothing").into());
        }
        self.move_name((from, from_name), (to, to_name), mode, Some((whiteout, file_type)))
    }

    fn move_name(
        &self,
        (from, from_name): (Ino, &[u8]),
        (to, to_name): (Ino, &[u8]),
        mode: RenameMode,
        whiteout: Option<(&NewNode, FileType)>,
    ) -> Result<()> {
        check_name(from_name)?;
        check_name(to_name)?;
        // Directories are moved one at a time, because two moves could make a loop.
        let _order = (from != to).then(|| self.moves.lock());
        // Before any inode is locked: directories do not move while this lock is held.
        let [above_from, above_to] =
            if from == to { [vec![], vec![]] } else { [self.path_up(from)?, self.path_up(to)?] };
        let now = self.clock.now();
        let left = self.volume.transact(|tx| {
            let [from_dir, to_dir] = take(tx, [from, to])?;
            for dir in [from_dir, to_dir] {
                check_dir(tx, dir)?;
            }
            let source = End { dir: from_dir, name: from_name };
            let target = End { dir: to_dir, name: to_name };
            let change = Move { source, target, whiteout, now };
            let (ino, _) = tx.dir_lookup(from_dir, from_name)?.ok_or(Core::NoEntry)?;
            let there = tx.dir_lookup(to_dir, to_name)?.map(|(ino, _)| ino);
            match (there, mode) {
                (Some(_), RenameMode::NoReplace) => return Err(Core::Exists),
                (None, RenameMode::Exchange) => return Err(Core::NoEntry),
                (Some(same), _) if same == ino => return Ok(None),
                _ => {}
            }
            not_among(ino, &above_to)?;
            let inode = tx.iget(ino)?;
            match there {
                Some(other) if mode == RenameMode::Exchange => {
                    not_among(other, &above_from)?;
                    let other = tx.iget(other)?;
                    exchange(tx, &change, inode, other)?;
                    Ok(None)
                }
                Some(other) => {
                    let other = tx.iget(other)?;
                    self.replace(tx, &change, inode, other)
                }
                None => {
                    tx.dir_create(to_dir, to_name, ino, type_of(tx, inode))?;
                    moved(tx, &change, inode)?;
                    Ok(None)
                }
            }
        })?;
        Self::finish(left);
        Ok(())
    }

    /// Removes the name of the inode at the target, and gives it to the source.
    fn replace(
        &self,
        tx: &mut Tx<'_>,
        change: &Move<'_>,
        inode: TxInode,
        other: TxInode,
    ) -> xfskit_core::Result<Option<Hold<'_>>> {
        let target = change.target;
        let (is_dir, was_dir) = (tx.core(inode).is_dir(), tx.core(other).is_dir());
        match (is_dir, was_dir) {
            (true, false) => return Err(Core::NotDirectory(other.ino)),
            (false, true) => return Err(Core::IsDirectory(other.ino)),
            (true, true) if !tx.dir_is_empty(other)? => return Err(Core::NotEmpty),
            _ => {}
        }
        tx.dir_replace(target.dir, target.name, inode.ino, type_of(tx, inode))?;
        unnamed(tx, other, target.dir, target.name)?;
        if was_dir {
            let links = tx.core(target.dir).nlink();
            tx.set_nlink(target.dir, links.saturating_sub(1))?;
        }
        moved(tx, change, inode)?;
        tx.touch(other, Touch::INODE, change.now);
        self.drop_link(tx, other, if was_dir { 2 } else { 1 })
    }

    /// Returns `dir` and all directories above it, as they are now. They stay the same only while
    /// the caller keeps other threads from moving directories.
    ///
    /// # Errors
    /// [`Core::Limit`] if more are nested than possible; damage, device failures.
    pub fn path_up(&self, dir: Ino) -> Result<Vec<Ino>> {
        let root = self.volume.geo().rootino;
        let mut path = vec![dir];
        // Damage must not make this loop endless.
        for _ in 0..u32::from(u16::MAX) {
            let at = path[path.len() - 1];
            let above = self.lookup(&self.inode(at)?, b"..")?;
            match above {
                Some(up) if at != root && up != at => path.push(up),
                _ => return Ok(path),
            }
        }
        Err(Core::Limit("directories nested too deeply").into())
    }
}

/// Fails if the directory that `path` leads to is `ino` or is below it, because `ino` would be cut
/// off.
fn not_among(ino: Ino, path: &[Ino]) -> xfskit_core::Result<()> {
    if path.contains(&ino) {
        return Err(Core::Limit("a directory cannot be moved below itself"));
    }
    Ok(())
}

/// Completes a move after the entry is at its new place: removes the old one or makes the whiteout,
/// and updates links and parents.
fn moved(tx: &mut Tx<'_>, change: &Move<'_>, inode: TxInode) -> xfskit_core::Result<()> {
    let Move { source, target, whiteout, now } = *change;
    match whiteout {
        // XFS in Linux gives the whiteout the group of the target's directory.
        Some(new) => make_in_place(tx, (source.dir, source.name), target.dir, new, now)?,
        None => drop(tx.dir_remove(source.dir, source.name)?),
    }
    reparent(tx, inode, source, target)?;
    for dir in [source.dir, target.dir] {
        tx.touch(dir, Touch::CONTENT, now);
    }
    tx.touch(inode, Touch::INODE, now);
    Ok(())
}

/// Updates `..`, link counts and parent pointer of an inode that moved from `source` to `target`.
fn reparent(
    tx: &mut Tx<'_>,
    inode: TxInode,
    source: End<'_>,
    target: End<'_>,
) -> xfskit_core::Result<()> {
    renamed(tx, inode, (source.dir, source.name), (target.dir, target.name))?;
    if tx.core(inode).is_dir() && source.dir != target.dir {
        tx.dir_replace(inode, b"..", target.dir.ino, FileType::Directory)?;
        let (down, up) = (tx.core(source.dir).nlink(), tx.core(target.dir).nlink());
        tx.set_nlink(source.dir, down.saturating_sub(1))?;
        tx.set_nlink(target.dir, up.saturating_add(1))?;
    }
    Ok(())
}

/// Exchanges the two entries.
fn exchange(
    tx: &mut Tx<'_>,
    change: &Move<'_>,
    inode: TxInode,
    other: TxInode,
) -> xfskit_core::Result<()> {
    let Move { source, target, now, .. } = *change;
    tx.dir_replace(target.dir, target.name, inode.ino, type_of(tx, inode))?;
    tx.dir_replace(source.dir, source.name, other.ino, type_of(tx, other))?;
    reparent(tx, inode, source, target)?;
    reparent(tx, other, target, source)?;
    for dir in [source.dir, target.dir] {
        tx.touch(dir, Touch::CONTENT, now);
    }
    touch_exchanged(tx, change, [inode, other]);
    Ok(())
}

/// Updates the times of two exchanged inodes as Linux does: a directory that got another parent has
/// new content, its `..`. Without such a directory, neither inode has changed.
fn touch_exchanged(tx: &mut Tx<'_>, change: &Move<'_>, inodes: [TxInode; 2]) {
    let is_dir = inodes.map(|inode| tx.core(inode).is_dir());
    if change.source.dir == change.target.dir || is_dir == [false; 2] {
        return;
    }
    for (inode, is_dir) in inodes.into_iter().zip(is_dir) {
        tx.touch(inode, if is_dir { Touch::CONTENT } else { Touch::INODE }, change.now);
    }
}

fn type_of(tx: &Tx<'_>, inode: TxInode) -> FileType {
    tx.core(inode).file_type().unwrap_or(FileType::Unknown)
}
