//! Merging of runs of blocks, and the edits that turn one list of records into another.
//!
//! The rmapbt and the refcountbt have the same rule: records that can be merged are merged. The new
//! records of a range are made by pushing its pieces one after the other onto a list that
//! [joins](Run::joins) neighbours. The [difference] of the old and the new list is [applied](make)
//! to the tree.

use crate::btree::{BtreeOps, Cursor, Flaw, RecordOps, Seek};
use crate::error::Result;
use crate::tx::SpaceTx;

/// A record about consecutive blocks.
pub(crate) trait Run: Copy + PartialEq {
    /// Returns true if `next` follows immediately, and the tree must hold both as one record.
    fn joins(&self, next: &Self) -> bool;

    /// Merges `next`, which it joins, into this record.
    fn take_in(&mut self, next: &Self);
}

/// A list of records in order, with adjacent ones merged.
#[derive(Debug)]
pub(crate) struct Joined<R>(Vec<R>);

impl<R: Run> Joined<R> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn into_vec(self) -> Vec<R> {
        self.0
    }
}

impl<R: Run> Extend<R> for Joined<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, recs: I) {
        for rec in recs {
            match self.0.last_mut() {
                Some(last) if last.joins(&rec) => last.take_in(&rec),
                _ => self.0.push(rec),
            }
        }
    }
}

/// One edit of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit<R> {
    /// Delete this record.
    Delete(R),
    /// Replace the first record by the second, which has the same position.
    Update(R, R),
    /// Insert this record.
    Insert(R),
}

/// The edits of a tree, in an order in which no two of its records ever have the same position.
pub(crate) type Edits<R> = Vec<Edit<R>>;

/// Returns the difference between the records `old` and `new` of a tree of kind `K`, both in order.
pub(crate) fn difference<K: RecordOps>(old: &[K::Rec], new: &[K::Rec]) -> Edits<K::Rec>
where
    K::Rec: Run,
{
    let (mut edits, mut inserts) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (Some(&&was), Some(&&is)) if K::rec_pos(&was) == K::rec_pos(&is) => {
                if was != is {
                    edits.push(Edit::Update(was, is));
                }
                old.next();
                new.next();
            }
            (Some(&&was), is) if is.is_none_or(|is| K::rec_pos(&was) < K::rec_pos(is)) => {
                edits.push(Edit::Delete(was));
                old.next();
            }
            (_, Some(&&is)) => {
                inserts.push(Edit::Insert(is));
                new.next();
            }
            (_, None) => break,
        }
    }
    edits.extend(inserts);
    edits
}

/// Applies the edits to a tree that was just read.
pub(crate) fn make<H: BtreeOps>(
    tx: &mut SpaceTx<'_>,
    tree: &mut Cursor<H>,
    edits: &[Edit<<H::RecordOps as RecordOps>::Rec>],
) -> Result<()>
where
    <H::RecordOps as RecordOps>::Rec: Run,
{
    let find = |tx: &mut SpaceTx<'_>, tree: &mut Cursor<H>, rec| {
        let found = tree.seek(tx, H::RecordOps::rec_pos(rec), Seek::Eq)?;
        if found.as_ref() == Some(rec) {
            return Ok(());
        }
        Err(tree.tree().flaw(tx, None, Flaw::Order))
    };
    for edit in edits {
        match edit {
            Edit::Delete(rec) => {
                find(tx, tree, rec)?;
                tree.delete(tx)?;
            }
            Edit::Update(was, is) => {
                find(tx, tree, was)?;
                tree.update(tx, is)?;
            }
            Edit::Insert(rec) => tree.insert(tx, rec)?,
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Edit, Run};
    use crate::btree::RecordOps;

    /// A tree as plain records.
    #[derive(Debug)]
    pub(crate) struct PlainTree<K: RecordOps>(pub(crate) Vec<K::Rec>);

    impl<K: RecordOps<Rec: Run>> PlainTree<K> {
        /// Applies the edits one after the other. Each must find its record, and keep positions
        /// distinct.
        pub(crate) fn apply(&mut self, edits: &[Edit<K::Rec>]) {
            for &edit in edits {
                match edit {
                    Edit::Delete(rec) => {
                        let at = self.place(&rec).unwrap();
                        assert!(self.0.remove(at) == rec);
                    }
                    Edit::Update(was, is) => {
                        let at = self.place(&is).unwrap();
                        assert!(self.0[at] == was);
                        self.0[at] = is;
                    }
                    Edit::Insert(rec) => {
                        let at = self.place(&rec).unwrap_err();
                        self.0.insert(at, rec);
                    }
                }
            }
        }

        fn place(&self, rec: &K::Rec) -> Result<usize, usize> {
            self.0.binary_search_by_key(&K::rec_pos(rec), K::rec_pos)
        }
    }
}
