//! Exchange of the mappings of two files, in steps: for callers that exchange files, and for
//! recovery, which finishes an exchange that this code or Linux began.
//!
//! Both files are walked side by side. Ranges where both have a hole, or the same blocks, are
//! skipped. A range that either file maps is exchanged piece by piece, until all is done or the
//! transaction is full. The remaining work has the form of the journal's intent (XMI).

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{InodeFlags, InodeFlags2};
use xfskit_format::log::item::intent::{Exchange, exchange};
use xfskit_units::{ByteLen, FileOff};

use crate::bmap::BUNMAP_MAX;
use crate::error::Result;
use crate::tx::{Tx, TxInode};

/// One of the two files: blocks from `at` on.
#[derive(Clone, Copy)]
struct Side {
    inode: TxInode,
    at: u64,
}

impl Side {
    fn range(self, blocks: u64) -> Range<FileOff> {
        FileOff(self.at)..FileOff(self.at.saturating_add(blocks))
    }
}

/// One mapping or hole of a file.
struct Piece {
    extent: Option<Extent>,
    blocks: u64,
}

impl Tx<'_> {
    /// Does as much of `work` between the first and the second of `files` as fits into one
    /// transaction. Returns the remaining work.
    pub(crate) fn exchange_some(
        &mut self,
        files: [TxInode; 2],
        work: &Exchange,
    ) -> Result<Option<Exchange>> {
        let mut sides = [
            Side { inode: files[0], at: work.startoff1.get() },
            Side { inode: files[1], at: work.startoff2.get() },
        ];
        let mut left = work.blockcount.get();
        let written_only = work.flags.get() & exchange::WRITTEN_ONLY != 0;
        let mut moved = 0;
        while left > 0 && moved < BUNMAP_MAX {
            let (first, second) = (self.piece(sides[0], left)?, self.piece(sides[1], left)?);
            let blocks = first.blocks.min(second.blocks);
            let block = |piece: &Piece| piece.extent.map(|extent| extent.startblock);
            let same = block(&first) == block(&second);
            let passed_over = written_only && first.extent.is_none_or(|extent| extent.unwritten);
            if !same && !passed_over {
                self.change_places(sides, blocks)?;
                moved += [first, second].iter().filter(|piece| piece.extent.is_some()).count();
            }
            for side in &mut sides {
                side.at = side.at.saturating_add(blocks);
            }
            left -= blocks;
        }
        if left == 0 {
            self.end_exchange(files, work);
            return Ok(None);
        }
        self.keep_behind_end(files, work);
        Ok(Some(Exchange {
            startoff1: sides[0].at.into(),
            startoff2: sides[1].at.into(),
            blockcount: left.into(),
            ..work.clone()
        }))
    }

    /// Returns the mapping or hole of `side` at its position, at most `most` blocks long.
    fn piece(&self, side: Side, most: u64) -> Result<Piece> {
        let Range { start, end } = side.range(most);
        let next = self.bmap_next(side.inode, Fork::Data, start)?;
        Ok(match next.filter(|extent| extent.startoff < end) {
            Some(extent) if extent.startoff > start => {
                Piece { extent: None, blocks: extent.startoff.0 - start.0 }
            }
            Some(extent) => {
                let extent = extent.clip(start, end);
                Piece { extent: Some(extent), blocks: extent.blockcount.0 }
            }
            None => Piece { extent: None, blocks: most },
        })
    }

    /// Exchanges the next `blocks` blocks of both files.
    fn change_places(&mut self, sides: [Side; 2], blocks: u64) -> Result<()> {
        let [first, second] = sides;
        let going = self.bmap_take(first.inode, first.range(blocks))?;
        let coming = self.bmap_take(second.inode, second.range(blocks))?;
        for (to, from, extents) in [(second, first, going), (first, second, coming)] {
            for extent in extents {
                let startoff = FileOff(extent.startoff.0 - from.at + to.at);
                self.bmap_give(to.inode, &Extent { startoff, ..extent })?;
            }
        }
        Ok(())
    }

    /// Marks the file that will be larger. If Linux finishes the exchange, it would otherwise free
    /// blocks behind the file's present end on its way. (Linux takes the sizes from the inodes and
    /// not from the journal, so the sizes are set at the end.)
    fn keep_behind_end(&mut self, files: [TxInode; 2], work: &Exchange) {
        for (inode, size) in sizes(files, work) {
            let core = self.core(inode);
            if size > core.size() && !core.flags().contains(InodeFlags::PREALLOC) {
                self.set_flags(inode, core.flags() | InodeFlags::PREALLOC);
            }
        }
    }

    /// Finishes an exchange after all mappings were exchanged.
    fn end_exchange(&mut self, files: [TxInode; 2], work: &Exchange) {
        for (inode, size) in sizes(files, work) {
            self.set_size(inode, size);
        }
        let flags = work.flags.get();
        for (inode, unshared) in
            [(files[0], exchange::CLEAR_REFLINK_1), (files[1], exchange::CLEAR_REFLINK_2)]
        {
            if flags & unshared != 0 {
                let kept = self.core(inode).flags2() - InodeFlags2::REFLINK;
                self.set_flags2(inode, kept);
            }
        }
    }
}

/// Returns the sizes that both files have afterwards, if they change.
fn sizes(files: [TxInode; 2], work: &Exchange) -> impl Iterator<Item = (TxInode, ByteLen)> {
    let changed = work.flags.get() & exchange::SET_SIZES != 0;
    let sizes = [work.isize1.get(), work.isize2.get()].map(ByteLen);
    files.into_iter().zip(sizes).filter(move |_| changed)
}
