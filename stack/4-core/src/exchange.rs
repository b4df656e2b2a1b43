//! Content of two files changes places, step by step: for who exchanges it, and for recovery, which goes on where he,
//! or Linux, was stopped.
//!
//! Both files are walked side by side. Where both have a hole, or the same blocks, nothing is to be done; what
//! is mapped in either changes places piece by piece, until it is all, or enough for one transaction. What is left
//! then has the form in which the journal promises it (XMI).

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{flags, flags2};
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

/// What one file maps from a place on.
struct Piece {
    extent: Option<Extent>,
    blocks: u64,
}

impl Tx<'_> {
    /// Does as much of `work` between `files`, the first and the second, as goes into one transaction, and answers what
    /// is left.
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

    /// What `side` maps, or does not, of the next `most` blocks.
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

    /// The next `blocks` blocks of both files change places.
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

    /// The file that will be larger is marked: Linux, should it finish this, would else free on its way what lies behind
    /// the end of the file so far. (It takes the sizes from the inodes and not from the journal, so they wait.)
    fn keep_behind_end(&mut self, files: [TxInode; 2], work: &Exchange) {
        for (inode, size) in sizes(files, work) {
            let core = self.core(inode);
            if size > core.size() && core.flags() & flags::PREALLOC == 0 {
                self.set_flags(inode, core.flags() | flags::PREALLOC);
            }
        }
    }

    /// What is to be done when everything has changed places.
    fn end_exchange(&mut self, files: [TxInode; 2], work: &Exchange) {
        for (inode, size) in sizes(files, work) {
            self.set_size(inode, size);
        }
        let flags = work.flags.get();
        for (inode, unshared) in
            [(files[0], exchange::CLEAR_REFLINK_1), (files[1], exchange::CLEAR_REFLINK_2)]
        {
            if flags & unshared != 0 {
                let kept = self.core(inode).flags2() & !flags2::REFLINK;
                self.set_flags2(inode, kept);
            }
        }
    }
}

/// The sizes that both files have afterwards, where they change.
fn sizes(files: [TxInode; 2], work: &Exchange) -> impl Iterator<Item = (TxInode, ByteLen)> {
    let changed = work.flags.get() & exchange::SET_SIZES != 0;
    let sizes = [work.isize1.get(), work.isize2.get()].map(ByteLen);
    files.into_iter().zip(sizes).filter(move |_| changed)
}
