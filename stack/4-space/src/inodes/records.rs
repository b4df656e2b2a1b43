//! The records of inobt and finobt, kept consistent: the finobt has those with free inodes.

use std::sync::Arc;

use xfskit_format::agbtree::Tree;
use xfskit_format::agi;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK, Rec};
use xfskit_trans::Handle;
use xfskit_units::{AgBlock, AgIno, AgNumber};

use super::group::InodeGroup;
use crate::agtree::{AgKind, AgTree};
use crate::alloc;
use crate::btree::{Cursor, Seek};
use crate::error::Result;
use crate::extent::Owner;
use crate::kinds::Chunks;
use crate::record_cache::{CachedRecord, RecordPosition};
use crate::tx::SpaceTx;

impl<const FREE: bool> AgKind for Chunks<FREE> {
    const TREE: Tree = if FREE { Tree::Fino } else { Tree::Ino };

    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, near: AgBlock) -> Result<AgBlock> {
        alloc::take_tree_block(tx, agno, near, Owner::Inobt)
    }

    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
        alloc::give_tree_block(tx, agno, agbno, Owner::Inobt)
    }
}

/// A position in the inobt, or (`FREE`) the finobt.
type Position<const FREE: bool> = Cursor<AgTree<Chunks<FREE>>>;

fn place<const FREE: bool>(group: InodeGroup) -> Position<FREE> {
    Cursor::new(AgTree::with(group.agno, group.agi))
}

/// Returns the record of the 64 numbers from `startino` on.
pub(super) fn exactly(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    startino: AgIno,
) -> Result<Option<Chunk>> {
    let mut cursor: Position<false> = place(group);
    let found = cursor.seek(tx, startino.0, Seek::Eq)?;
    cursor.close(tx);
    Ok(found.map(|rec| rec.decode(tx.space().geo())))
}

/// Returns the record that covers inode `agino`, which is in use, and a cursor at it.
pub(super) fn covering(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    agino: AgIno,
) -> Result<(Chunk, Position<false>)> {
    let mut cursor: Position<false> = place(group);
    let found = cursor.seek(tx, agino.0, Seek::Le)?;
    let chunk = found.map(|rec| rec.decode(tx.space().geo()));
    let is_used = |chunk: &Chunk| {
        let ahead = agino.0.wrapping_sub(chunk.startino.0);
        ahead < INODES_PER_CHUNK && chunk.used() & (1 << ahead) != 0
    };
    let ctx = tx.space().ctx(agi::location(tx.space().geo(), group.agno));
    let sound = chunk.filter(is_used);
    ctx.require("inobt.free", sound.is_some(), "a record in which this inode is used", agino)?;
    let none = Chunk { startino: agino, holemask: 0, count: 0, freecount: 0, free: 0 };
    Ok((sound.unwrap_or(none), cursor))
}

/// Takes the first free inode from a record with free ones, near `near` if possible. Returns it,
/// and the position of the record if it has more; `None` if there is none.
pub(super) fn take(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    near: Option<AgIno>,
) -> Result<Option<(AgIno, Option<Arc<CachedRecord>>)>> {
    let newino = group.header(tx)?.newino.get();
    let near = near.map_or(newino, |agino| agino.0);
    if !tx.space().geo().features.finobt() {
        let at = first_free(tx, group, near)?;
        return Ok(take_in(tx, at)?.map(|(_, agino)| (agino, None)));
    }
    let at = nearest(tx, group, near)?;
    let finobt = at.position();
    let Some((chunk, agino)) = take_in(tx, at)? else { return Ok(None) };
    let mut cursor: Position<false> = place(group);
    seek_known(tx, group, &mut cursor, &chunk)?;
    let positions = cursor.position().zip(finobt).filter(|_| chunk.freecount > 1);
    let known = positions.map(|positions| known(tx, group, &chunk, positions));
    put(tx, cursor, &chunk.with_allocated(agino))?;
    Ok(Some((agino, known)))
}

/// Returns the position of the record of `chunk` in both trees.
fn known(
    tx: &SpaceTx<'_>,
    group: InodeGroup,
    chunk: &Chunk,
    (inobt, finobt): ((Handle, usize), (Handle, usize)),
) -> Arc<CachedRecord> {
    Arc::new(CachedRecord {
        agno: group.agno,
        agi: Arc::clone(tx.item(group.agi)),
        startino: chunk.startino,
        inobt: RecordPosition::new(tx, inobt),
        finobt: RecordPosition::new(tx, finobt),
    })
}

/// Takes the first free inode from the record at the cursor, and returns the former record. A
/// record without other free inodes is removed from the finobt.
fn take_in<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    cursor: Position<FREE>,
) -> Result<Option<(Chunk, AgIno)>> {
    let Some(rec) = cursor.get(tx) else {
        cursor.close(tx);
        return Ok(None);
    };
    let chunk = rec.decode(tx.space().geo());
    let Some(agino) = chunk.first_free() else {
        cursor.close(tx);
        return Ok(None);
    };
    put_taken(tx, cursor, &chunk.with_allocated(agino))?;
    Ok(Some((chunk, agino)))
}

/// Replaces the record at the cursor by `left`, which has fewer free inodes. The finobt has no
/// record without any.
fn put_taken<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    mut cursor: Position<FREE>,
    left: &Chunk,
) -> Result<()> {
    if FREE && left.freecount == 0 {
        cursor.delete(tx)?;
        cursor.close(tx);
        return Ok(());
    }
    put(tx, cursor, left)
}

/// Takes inode `agino` if its record has it free. Returns false, and changes nothing, if not.
pub(super) fn take_exactly(tx: &mut SpaceTx<'_>, group: InodeGroup, agino: AgIno) -> Result<bool> {
    let mut cursor: Position<false> = place(group);
    let found = cursor.seek(tx, agino.0, Seek::Le)?;
    let chunk = found.map(|rec| rec.decode(tx.space().geo()));
    let is_free = |chunk: &Chunk| {
        let ahead = agino.0.wrapping_sub(chunk.startino.0);
        ahead < INODES_PER_CHUNK && chunk.free & chunk.present() & (1 << ahead) != 0
    };
    let Some(chunk) = chunk.filter(is_free) else {
        cursor.close(tx);
        return Ok(false);
    };
    let left = chunk.with_allocated(agino);
    put(tx, cursor, &left)?;
    if tx.space().geo().features.finobt() {
        let mut cursor: Position<true> = place(group);
        seek_known(tx, group, &mut cursor, &chunk)?;
        put_taken(tx, cursor, &left)?;
    }
    Ok(true)
}

/// Returns a cursor in the finobt, all of whose records have free inodes, at the one nearest to
/// `near`.
fn nearest(tx: &mut SpaceTx<'_>, group: InodeGroup, near: u32) -> Result<Position<true>> {
    let mut cursor: Position<true> = place(group);
    let behind = cursor.seek(tx, near, Seek::Ge)?;
    let before = cursor.prev(tx)?;
    let ahead = |rec: Rec| rec.startino.get().abs_diff(near);
    if let (Some(before), Some(behind)) = (before, behind)
        && ahead(behind) < ahead(before)
    {
        cursor.next(tx)?;
    }
    Ok(cursor)
}

/// Returns a cursor in the inobt at the first record with free inodes from `near` on, then from the
/// beginning; at no record if there is none.
fn first_free(tx: &mut SpaceTx<'_>, group: InodeGroup, near: u32) -> Result<Position<false>> {
    let mut cursor: Position<false> = place(group);
    let mut at = cursor.seek(tx, near, Seek::Le)?;
    if at.is_none() {
        at = cursor.first(tx)?;
    }
    let geo = tx.space().geo().clone();
    for lap in 0..2 {
        while let Some(rec) = at {
            if rec.decode(&geo).freecount > 0 {
                return Ok(cursor);
            }
            at = cursor.next(tx)?;
        }
        if lap == 0 {
            at = cursor.first(tx)?;
        }
    }
    Ok(cursor)
}

/// Adds the record of a new chunk to both trees.
pub(super) fn insert(tx: &mut SpaceTx<'_>, group: InodeGroup, chunk: &Chunk) -> Result<()> {
    insert_in::<false>(tx, group, chunk)?;
    if tx.space().geo().features.finobt() {
        insert_in::<true>(tx, group, chunk)?;
    }
    Ok(())
}

/// Replaces the record `old` by `new`, which has more free inodes, in both trees.
pub(super) fn update(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    old: &Chunk,
    new: &Chunk,
) -> Result<()> {
    let mut cursor = place(group);
    seek_known(tx, group, &mut cursor, old)?;
    update_at(tx, group, cursor, old, new).map(drop)
}

/// Replaces the record at `cursor` in the inobt, and its copy in the finobt. Returns the position
/// of the records.
pub(super) fn update_at(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    cursor: Position<false>,
    old: &Chunk,
    new: &Chunk,
) -> Result<Option<Arc<CachedRecord>>> {
    let inobt = cursor.position();
    put(tx, cursor, new)?;
    if !tx.space().geo().features.finobt() {
        return Ok(None);
    }
    let mut cursor: Position<true> = place(group);
    if old.freecount == 0 {
        cursor.insert(tx, &new.encode(tx.space().geo()))?;
    } else {
        seek_known(tx, group, &mut cursor, old)?;
        cursor.update(tx, &new.encode(tx.space().geo()))?;
    }
    let positions = inobt.zip(cursor.position());
    let known = positions.map(|positions| known(tx, group, new, positions));
    cursor.close(tx);
    Ok(known)
}

/// Removes the record `chunk` from both trees.
pub(super) fn delete(tx: &mut SpaceTx<'_>, group: InodeGroup, chunk: &Chunk) -> Result<()> {
    delete_in::<false>(tx, group, chunk)?;
    if tx.space().geo().features.finobt() && chunk.freecount > 0 {
        delete_in::<true>(tx, group, chunk)?;
    }
    Ok(())
}

fn insert_in<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    chunk: &Chunk,
) -> Result<()> {
    let mut cursor: Position<FREE> = place(group);
    cursor.insert(tx, &chunk.encode(tx.space().geo()))?;
    cursor.close(tx);
    Ok(())
}

/// Replaces the record at the cursor by `chunk`.
fn put<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    mut cursor: Position<FREE>,
    chunk: &Chunk,
) -> Result<()> {
    cursor.update(tx, &chunk.encode(tx.space().geo()))?;
    cursor.close(tx);
    Ok(())
}

fn delete_in<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    chunk: &Chunk,
) -> Result<()> {
    let mut cursor: Position<FREE> = place(group);
    seek_known(tx, group, &mut cursor, chunk)?;
    cursor.delete(tx)?;
    cursor.close(tx);
    Ok(())
}

/// Moves to the record of `chunk`, which both trees have unless one of them is damaged.
fn seek_known<const FREE: bool>(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    cursor: &mut Position<FREE>,
    chunk: &Chunk,
) -> Result<()> {
    let found = cursor.seek(tx, chunk.startino.0, Seek::Eq)?.is_some();
    let ctx = tx.space().ctx(agi::location(tx.space().geo(), group.agno));
    let expected = "a record in inobt and finobt";
    Ok(ctx.require("finobt.startino", found, expected, chunk.startino)?)
}
