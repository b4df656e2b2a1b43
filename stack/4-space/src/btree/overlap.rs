//! Look-up in a tree with overlapping records: finds all that touch a range, by the high keys of
//! nodes.

use crate::btree::cursor::{Cursor, Key, Pos, Rec};
use crate::btree::ops::{BtreeOps, Flaw, RecordOps};
use crate::error::Result;
use crate::tx::SpaceTx;

impl<H: BtreeOps> Cursor<H> {
    /// Returns the records that begin at or before `to` and end at or behind `from`, in order; at
    /// most `most`. The cursor has no position afterwards.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn overlapping(
        &mut self,
        tx: &mut SpaceTx<'_>,
        from: Pos<H>,
        to: Pos<H>,
        most: usize,
    ) -> Result<Vec<Rec<H>>> {
        let mut found: Vec<Rec<H>> = Vec::new();
        self.leave(tx);
        self.enter_root(tx, &|_, _| 0)?;
        while let Some(&step) = self.path.last() {
            let depth = self.path.len() - 1;
            let bytes = tx.bytes(step.handle);
            if step.level > 0 && step.index < step.shape.count(bytes) {
                let Some(key) = step.shape.entry::<Key<H>>(bytes, step.index) else { break };
                if H::RecordOps::key_pos(&key) > to {
                    break;
                }
                if H::RecordOps::key_end(&key) >= from {
                    self.enter_child(tx, depth, step.index, &|_, _| 0)?;
                } else {
                    self.path[depth].index += 1;
                }
                continue;
            }
            if step.level == 0 {
                let recs = step.shape.entries::<Rec<H>>(bytes).iter();
                let recs = recs.take_while(|rec| H::RecordOps::rec_pos(rec) <= to);
                let room = most.saturating_sub(found.len());
                let touching = recs.filter(|rec| H::RecordOps::rec_end(rec) >= from).take(room);
                let last = found.last().map(H::RecordOps::rec_pos);
                if let (Some(last), Some(next)) = (last, touching.clone().next())
                    && last >= H::RecordOps::rec_pos(next)
                {
                    return Err(self.flaw(tx, depth, Flaw::Order));
                }
                found.extend(touching);
                if found.len() >= most {
                    break;
                }
            }
            self.path.pop();
            if step.block.is_some() {
                tx.release(step.handle);
            }
            if let Some(parent) = self.path.last_mut() {
                parent.index += 1;
            }
        }
        self.leave(tx);
        Ok(found)
    }
}
