//! Allocation and freeing of extents: the choice of a group, and the change of its free space.

use std::mem::offset_of;

use xfskit_format::agf::Agf;
use xfskit_format::bytes::be32;
use xfskit_trans::{Handle, TransError};
use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock};

use crate::agfl;
use crate::error::{Error, Result};
use crate::extent::{AllocRequest, Owner};
use crate::free_space::{self, FreeSpace, Wish};
use crate::refill;
use crate::reserve;
use crate::rmap;
use crate::tx::{SpaceTx, agf_map};

/// An extent of this many blocks is long enough to stay in the group that was asked for, however
/// many more are wanted.
const GOOD: u32 = 1 << 14;

/// The two rounds of a search over the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Groups whose locks are free, for the wanted length or [`GOOD`].
    Easy,
    /// Every group, for an extent of the smallest length.
    Hard,
}

impl SpaceTx<'_> {
    /// Allocates one extent.
    ///
    /// Looks in the group of `near` first, and in the groups behind it; one that another thread
    /// works in, or that has only shorter extents, is passed over in the first round.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::BusyExtents`] where only extents freed too recently would do.
    pub fn alloc_extent(&mut self, request: &AllocRequest) -> Result<(FsBlock, ExtLen)> {
        if self.uses_reservation || request.reserve {
            return self.alloc_anywhere(request);
        }
        let Some(maxlen) = self.taken.take(request.minlen, request.maxlen)? else {
            self.met_reservations = true;
            return Err(Error::NoSpace("blocks"));
        };
        let found = self.alloc_anywhere(&AllocRequest { maxlen, ..*request });
        let got = found.as_ref().map_or(0, |(_, len)| len.0);
        self.taken.give_back(maxlen.saturating_sub(got));
        found
    }

    /// Allocates one extent, of blocks that the volume has for it.
    fn alloc_anywhere(&mut self, request: &AllocRequest) -> Result<(FsBlock, ExtLen)> {
        let geo = self.space().geo();
        let (first, near) = geo.fsb_split(request.near).unwrap_or((AgNumber(0), AgBlock(0)));
        let groups = if request.this_group { 1 } else { geo.agcount };
        self.met_busy = false;
        for round in [Round::Easy, Round::Hard] {
            for n in 0..groups {
                let agno = AgNumber((first.0 + n) % geo.agcount);
                let near = if n == 0 { near } else { AgBlock(0) };
                if let Some(found) = self.alloc_in(agno, near, request, round)? {
                    return Ok(found);
                }
            }
        }
        Err(if self.met_busy { Error::BusyExtents } else { Error::NoSpace("blocks") })
    }

    /// Tries one group.
    fn alloc_in(
        &mut self,
        agno: AgNumber,
        near: AgBlock,
        request: &AllocRequest,
        round: Round,
    ) -> Result<Option<(FsBlock, ExtLen)>> {
        let space = self.space();
        let enough = request.maxlen.min(GOOD).max(request.minlen);
        if round == Round::Easy && space.hints.longest(agno) < enough {
            return Ok(None);
        }
        let mine = self.holds_agf(agno);
        let map = agf_map(space.geo(), agno);
        if round == Round::Easy && !mine && map.is_some_and(|map| self.is_contended(&map)) {
            return Ok(None);
        }
        let agf = match self.agf(agno) {
            Ok(agf) => agf,
            Err(Error::Trans(TransError::Busy(_))) if round == Round::Easy => return Ok(None),
            Err(error) => return Err(error),
        };
        let least = if round == Round::Easy { enough } else { request.minlen };
        let found = self.alloc_held(agno, agf, near, &AllocRequest { minlen: least, ..*request });
        if !mine && !matches!(found, Ok(Some(_))) {
            self.release(agf);
        }
        found
    }

    /// Tries a group whose AGF is held.
    fn alloc_held(
        &mut self,
        agno: AgNumber,
        agf: Handle,
        near: AgBlock,
        request: &AllocRequest,
    ) -> Result<Option<(FsBlock, ExtLen)>> {
        if self.available(agno, agf, request) < request.minlen {
            return Ok(None);
        }
        refill::fix(self, agno, agf)?;
        let want = self.available(agno, agf, request).min(request.maxlen);
        if want < request.minlen {
            return Ok(None);
        }
        let wish = Wish { near, want, least: request.minlen, align: request.align };
        let mut space = FreeSpace::of(self, agno)?;
        let piece = space.find(self, &wish)?;
        if let Some(piece) = &piece {
            space.take(self, piece)?;
        }
        space.close(self);
        let Some(piece) = piece else { return Ok(None) };
        let (agbno, len) = (AgBlock(piece.start), ExtLen(piece.len));
        rmap::map(self, agno, agbno, len, request.owner)?;
        self.delta.fdblocks -= i64::from(len.0);
        Ok(Some((self.space().geo().agb_to_fsb(agno, agbno), len)))
    }

    /// Returns the blocks that a group can give in one piece, apart from its reserve.
    fn available(&self, agno: AgNumber, agf: Handle, request: &AllocRequest) -> u32 {
        let longest = be32(self.bytes(agf), offset_of!(Agf, longest)).unwrap_or(0);
        self.space().hints.saw(agno, longest);
        longest.min(self.spare(agno, agf, request.reserve))
    }

    /// Returns the free blocks of a group without those that its free list lacks, and, except for a
    /// request of its own trees (`reserve`), without those that are held back for these.
    pub(crate) fn spare(&self, agno: AgNumber, agf: Handle, reserve: bool) -> u32 {
        let geo = self.space().geo();
        let agf = self.bytes(agf);
        let field = |at| be32(agf, at).unwrap_or(0);
        let short = agfl::need(geo, agf).saturating_sub(field(offset_of!(Agf, flcount)));
        let held = if reserve { 0 } else { reserve::held_back(geo, agno, agf) };
        field(offset_of!(Agf, freeblks)).saturating_sub(short).saturating_sub(held)
    }

    /// Frees an extent now. It becomes usable again with the next checkpoint. Metadata blocks in it
    /// were [invalidated](xfskit_trans::Trans::invalidate) by the caller.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`]: what is free already, for one.
    pub fn free_extent(&mut self, start: FsBlock, len: ExtLen, owner: Owner) -> Result<()> {
        let (agno, agbno) = self.space().split_extent(start, len)?;
        let agf = self.agf(agno)?;
        refill::fix(self, agno, agf)?;
        rmap::unmap(self, agno, agbno, len, owner)?;
        free_space::give_back(self, agno, agbno, len)?;
        self.delta.fdblocks += i64::from(len.0);
        Ok(())
    }
}

/// Allocates a block for a tree of group `agno` whose blocks do not come from the free list.
pub(crate) fn take_tree_block(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    near: AgBlock,
    owner: Owner,
) -> Result<AgBlock> {
    let geo = tx.space().geo();
    let near = geo.agb_to_fsb(agno, near);
    let request = AllocRequest::exactly(1, near, owner).in_this_group();
    let (start, _) = tx.alloc_extent(&AllocRequest { reserve: true, ..request })?;
    Ok(geo.fsb_split(start).map_or(AgBlock(0), |(_, agbno)| agbno))
}

/// Frees a block of such a tree.
pub(crate) fn give_tree_block(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    owner: Owner,
) -> Result<()> {
    let start = tx.space().geo().agb_to_fsb(agno, agbno);
    tx.free_extent(start, ExtLen(1), owner)
}
