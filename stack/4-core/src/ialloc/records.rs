//! The records of inobt and finobt, kept alike: the finobt has those with free inodes.

use xfskit_format::agi;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_units::AgIno;

use super::Group;
use crate::btree::{AgTree, Chunks, Cursor, Seek};
use crate::error::Result;
use crate::tx::Tx;

/// A place in the inobt, or (`FREE`) the finobt.
type Place<const FREE: bool> = Cursor<AgTree<Chunks<FREE>>>;

fn place<const FREE: bool>(tx: &mut Tx<'_>, group: Group) -> Result<Place<FREE>> {
    Ok(Cursor::new(AgTree::new(tx, group.agno)?))
}

/// The record of the 64 numbers from `startino` on.
pub(super) fn exactly(tx: &mut Tx<'_>, group: Group, startino: AgIno) -> Result<Option<Chunk>> {
    let mut cursor: Place<false> = place(tx, group)?;
    let found = cursor.seek(tx, startino.0, Seek::Eq)?;
    cursor.close(tx);
    Ok(found.map(|rec| rec.decode(tx.volume().geo())))
}

/// The record that covers inode `agino`, which is in use.
pub(super) fn covering(tx: &mut Tx<'_>, group: Group, agino: AgIno) -> Result<Chunk> {
    let mut cursor: Place<false> = place(tx, group)?;
    let found = cursor.seek(tx, agino.0, Seek::Le)?;
    cursor.close(tx);
    let chunk = found.map(|rec| rec.decode(tx.volume().geo()));
    let is_used = |chunk: &Chunk| {
        let ahead = agino.0.wrapping_sub(chunk.startino.0);
        ahead < INODES_PER_CHUNK && chunk.used() & (1 << ahead) != 0
    };
    let ctx = tx.volume().ctx(agi::location(tx.volume().geo(), group.agno));
    let sound = chunk.filter(is_used);
    ctx.require("inobt.free", sound.is_some(), "a record in which this inode is used", agino)?;
    Ok(sound.unwrap_or(Chunk { startino: agino, holemask: 0, count: 0, freecount: 0, free: 0 }))
}

/// A record with free inodes, one near `near` if possible.
pub(super) fn with_free(
    tx: &mut Tx<'_>,
    group: Group,
    near: Option<AgIno>,
) -> Result<Option<Chunk>> {
    let newino = group.header(tx)?.newino.get();
    let near = near.map_or(newino, |agino| agino.0);
    if tx.volume().geo().features.finobt() {
        nearest(tx, group, near)
    } else {
        first_free(tx, group, near)
    }
}

/// In the finobt, all of whose records have free inodes: the one nearest to `near`.
fn nearest(tx: &mut Tx<'_>, group: Group, near: u32) -> Result<Option<Chunk>> {
    let mut cursor: Place<true> = place(tx, group)?;
    let before = cursor.seek(tx, near, Seek::Le)?;
    let behind = match before {
        Some(_) => cursor.next(tx)?,
        None => cursor.seek(tx, near, Seek::Ge)?,
    };
    cursor.close(tx);
    let geo = tx.volume().geo();
    let both = [before, behind].into_iter().flatten().map(|rec| rec.decode(geo));
    Ok(both.min_by_key(|chunk| chunk.startino.0.abs_diff(near)))
}

/// In the inobt: the first with free inodes from `near` on, then from the beginning.
fn first_free(tx: &mut Tx<'_>, group: Group, near: u32) -> Result<Option<Chunk>> {
    let mut cursor: Place<false> = place(tx, group)?;
    let mut at = cursor.seek(tx, near, Seek::Le)?;
    if at.is_none() {
        at = cursor.first(tx)?;
    }
    let geo = tx.volume().geo().clone();
    for lap in 0..2 {
        while let Some(rec) = at {
            let chunk = rec.decode(&geo);
            if chunk.freecount > 0 {
                cursor.close(tx);
                return Ok(Some(chunk));
            }
            at = cursor.next(tx)?;
        }
        if lap == 0 {
            at = cursor.first(tx)?;
        }
    }
    cursor.close(tx);
    Ok(None)
}

/// Adds the record of a new chunk to both trees.
pub(super) fn insert(tx: &mut Tx<'_>, group: Group, chunk: &Chunk) -> Result<()> {
    insert_in::<false>(tx, group, chunk)?;
    if tx.volume().geo().features.finobt() {
        insert_in::<true>(tx, group, chunk)?;
    }
    Ok(())
}

/// Replaces the record `old` by `new` in both trees.
pub(super) fn update(tx: &mut Tx<'_>, group: Group, old: &Chunk, new: &Chunk) -> Result<()> {
    update_in::<false>(tx, group, new)?;
    if !tx.volume().geo().features.finobt() {
        return Ok(());
    }
    match (old.freecount, new.freecount) {
        (0, 0) => Ok(()),
        (0, _) => insert_in::<true>(tx, group, new),
        (_, 0) => delete_in::<true>(tx, group, old),
        _ => update_in::<true>(tx, group, new),
    }
}

/// Removes the record `chunk` from both trees.
pub(super) fn delete(tx: &mut Tx<'_>, group: Group, chunk: &Chunk) -> Result<()> {
    delete_in::<false>(tx, group, chunk)?;
    if tx.volume().geo().features.finobt() && chunk.freecount > 0 {
        delete_in::<true>(tx, group, chunk)?;
    }
    Ok(())
}

fn insert_in<const FREE: bool>(tx: &mut Tx<'_>, group: Group, chunk: &Chunk) -> Result<()> {
    let mut cursor: Place<FREE> = place(tx, group)?;
    cursor.insert(tx, &chunk.encode(tx.volume().geo()))?;
    cursor.close(tx);
    Ok(())
}

fn update_in<const FREE: bool>(tx: &mut Tx<'_>, group: Group, chunk: &Chunk) -> Result<()> {
    let mut cursor: Place<FREE> = place(tx, group)?;
    let found = cursor.seek(tx, chunk.startino.0, Seek::Eq)?;
    known(tx, group, chunk, found.is_some())?;
    cursor.update(tx, &chunk.encode(tx.volume().geo()))?;
    cursor.close(tx);
    Ok(())
}

fn delete_in<const FREE: bool>(tx: &mut Tx<'_>, group: Group, chunk: &Chunk) -> Result<()> {
    let mut cursor: Place<FREE> = place(tx, group)?;
    let found = cursor.seek(tx, chunk.startino.0, Seek::Eq)?;
    known(tx, group, chunk, found.is_some())?;
    cursor.delete(tx)?;
    cursor.close(tx);
    Ok(())
}

/// Both trees have the record, or one of them is damaged.
fn known(tx: &Tx<'_>, group: Group, chunk: &Chunk, found: bool) -> Result<()> {
    let ctx = tx.volume().ctx(agi::location(tx.volume().geo(), group.agno));
    let expected = "a record in inobt and finobt";
    Ok(ctx.require("finobt.startino", found, expected, chunk.startino)?)
}
