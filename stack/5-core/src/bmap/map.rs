//! Adding extents to a fork's map, and removing them.
//!
//! Neighbours that are contiguous in the file and on the device, and in the same state, are one
//! extent, up to the longest that a record can hold. This module neither allocates nor frees the
//! mapped blocks.

use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_format::{Ctx, Expected, Fork};
use xfskit_units::{FilBlks, FileOff};

use super::cursor::Cursor;
use super::node::ForkOf;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Returns both as one, where `right` continues `left`.
fn joined(left: &Extent, right: &Extent) -> Option<Extent> {
    let blockcount = left.blockcount.0 + right.blockcount.0;
    let continues = left.end() == right.startoff
        && left.startblock.0 + left.blockcount.0 == right.startblock.0
        && left.unwritten == right.unwritten
        && blockcount <= MAX_BLOCKCOUNT;
    continues.then_some(Extent { blockcount: FilBlks(blockcount), ..*left })
}

fn overlap(ctx: &Ctx<'_>, found: FileOff) -> Error {
    let hole = Expected::Described("a hole where blocks are mapped".into());
    Error::Corrupt(ctx.corruption("bmbt.rec.order", hole, found))
}

/// Maps `extent`, where there is a hole.
pub(super) fn insert(tx: &mut Tx<'_>, inode: TxInode, fork: Fork, extent: &Extent) -> Result<()> {
    let mut cursor = Cursor::seek(tx, inode, fork, extent.startoff)?;
    let (left, right) = (cursor.before(tx)?, cursor.after(tx)?);
    let taken = left.filter(|left| left.end() > extent.startoff);
    let taken = taken.or(right.filter(|right| right.startoff < extent.end()));
    if let Some(taken) = taken {
        return Err(overlap(&ForkOf { inode, fork }.ctx(tx), taken.startoff));
    }
    let with_left = left.and_then(|left| joined(&left, extent));
    let with_right = right.and_then(|right| joined(with_left.as_ref().unwrap_or(extent), &right));
    match (with_left, with_right) {
        (_, Some(whole)) => {
            if with_left.is_some() {
                cursor.remove(tx)?;
            }
            cursor.forward(tx)?;
            cursor.replace(tx, &whole)
        }
        (Some(whole), None) => cursor.replace(tx, &whole),
        (None, None) => cursor.insert(tx, extent),
    }
}

/// Unmaps what is mapped of `[start, end)`, and answers what it was, in order.
pub(super) fn remove(
    tx: &mut Tx<'_>,
    inode: TxInode,
    fork: Fork,
    (start, end): (FileOff, FileOff),
) -> Result<Vec<Extent>> {
    let mut removed = Vec::new();
    let mut cursor = Cursor::seek(tx, inode, fork, start)?;
    if cursor.before(tx)?.is_none_or(|extent| extent.end() <= start) {
        match cursor.after(tx)? {
            Some(extent) if extent.startoff < end => cursor.forward(tx)?,
            _ => return Ok(removed),
        };
    }
    // The cursor stands behind an extent of which something goes.
    while let Some(extent) = cursor.before(tx)? {
        removed.push(extent.clip(start, end));
        let left = (extent.startoff < start).then(|| extent.clip(extent.startoff, start));
        let right = (extent.end() > end).then(|| extent.clip(end, extent.end()));
        match (left, right) {
            (Some(left), Some(right)) => {
                cursor.replace(tx, &left)?;
                tx.with_pool(|tx| cursor.insert(tx, &right))?;
            }
            (Some(rest), None) | (None, Some(rest)) => cursor.replace(tx, &rest)?,
            (None, None) => cursor.remove(tx)?,
        }
        match cursor.after(tx)? {
            Some(next) if next.startoff < end && right.is_none() => cursor.forward(tx)?,
            _ => break,
        };
    }
    Ok(removed)
}

/// Makes two extents of the one that covers the blocks before and behind `at`, where one does.
pub(super) fn split(tx: &mut Tx<'_>, inode: TxInode, fork: Fork, at: FileOff) -> Result<()> {
    let mut cursor = Cursor::seek(tx, inode, fork, at)?;
    match cursor.before(tx)? {
        Some(extent) if extent.startoff < at && extent.end() > at => {
            cursor.replace(tx, &extent.clip(extent.startoff, at))?;
            cursor.insert(tx, &extent.clip(at, extent.end()))
        }
        _ => Ok(()),
    }
}
