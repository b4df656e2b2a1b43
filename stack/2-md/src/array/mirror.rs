//! RAID1 and RAID10: reads use any copy.

use std::sync::atomic::Ordering;

use xfskit_block::{Error, Result};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, Sectors, SyncSector, index};

use super::io::{ReadJob, WriteJob, io_error};
use super::{Array, Map};

/// RAID1 is read in pieces of this size, so that one large read keeps all members busy.
const PIECE: ByteLen = ByteLen(1 << 20);

/// The unit that is retried on its own when a larger read fails.
pub(super) const PAGE: ByteLen = ByteLen(4096);

/// One copy of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) role: usize,
    pub(super) at: MemberByte,
}

impl Array {
    /// Returns the length from `offset` to the end of its unit of copies.
    pub(super) fn mirror_piece(&self, offset: ByteOffset) -> ByteLen {
        self.mirror_unit().minus(offset.within(self.mirror_unit()))
    }

    /// Returns the size of what lies together on every copy and shares a lock.
    pub(super) fn mirror_unit(&self) -> ByteLen {
        if matches!(self.map, Map::Raid1) { PIECE } else { self.geometry.chunk_bytes() }
    }

    /// Returns where a unit of copies begins in the array.
    pub(super) fn mirror_start(&self, unit: u64) -> ByteOffset {
        ByteOffset(self.mirror_unit().times(unit).0)
    }

    /// Returns all copies of the byte at `offset` of the array.
    pub(super) fn copies(&self, offset: ByteOffset) -> Vec<Copy> {
        let Map::Raid10(map) = &self.map else {
            let at = MemberByte(offset.0);
            return (0..self.members.len()).map(|role| Copy { role, at }).collect();
        };
        let chunk = self.geometry.chunk_bytes();
        let within = offset.within(chunk);
        let at = |number: u64| MemberByte(chunk.times(number).plus(within).0);
        map.copies(offset.whole(chunk))
            .map(|copy| Copy { role: copy.role, at: at(copy.chunk) })
            .collect()
    }

    /// Returns the readable copies of a piece, the preferred one first.
    pub(super) fn readable_copies(&self, offset: ByteOffset, len: ByteLen) -> Vec<Copy> {
        let mut copies = self.copies(offset);
        copies.retain(|copy| self.members[copy.role].is_readable(copy.at, len));
        let end = SyncSector(offset.plus(len).div_ceil(Sectors(1).byte_len()));
        if self.first_copy_only.load(Ordering::Relaxed) || !self.is_synced(end) {
            return copies; // always the same copy, or data read once might change by themselves
        }
        // Pieces are spread over the members, so that several readers of one file use all of them.
        let turn = index(offset.whole(PIECE));
        let n = copies.len().max(1);
        copies.rotate_left(turn % n);
        copies.sort_by_key(|copy| {
            let member = &self.members[copy.role];
            (member.is_write_mostly(), member.pending().load(Ordering::Relaxed))
        });
        copies
    }

    /// Returns the readable copies of a piece by role, so that alternative `k` is the same for
    /// every caller.
    pub(super) fn copies_in_order(&self, offset: ByteOffset, len: ByteLen) -> Vec<Copy> {
        let mut copies = self.readable_copies(offset, len);
        copies.sort_by_key(|copy| copy.role);
        copies
    }

    pub(super) fn read_mirror(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = self.mirror_piece(at).min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at_mut(len.index());
            match self.readable_copies(at, len).first() {
                Some(copy) => {
                    self.members[copy.role].pending().fetch_add(1, Ordering::Relaxed);
                    jobs.push(ReadJob { role: copy.role, at: copy.at, buf: piece });
                    places.push(at);
                }
                None => self.read_copies_by_page(at, piece)?,
            }
            (at, rest) = (at.plus(len), behind);
        }
        self.prefetch(&jobs);
        let failed = self.fetch(&mut jobs);
        for job in &jobs {
            self.members[job.role].pending().fetch_sub(1, Ordering::Relaxed);
        }
        for i in failed {
            self.read_copies_by_page(places[i], jobs[i].buf)?;
        }
        Ok(())
    }

    /// Reads page by page, each from the first copy that succeeds. Rewrites the page on writable
    /// members whose copy could not be read.
    fn read_copies_by_page(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = PAGE.minus(at.within(PAGE)).min(ByteLen::of(rest));
            let (page, behind) = rest.split_at_mut(len.index());
            let _shared = self.lock_stripe_shared(at.whole(self.mirror_unit()));
            let mut failed = Vec::new();
            let found = self.readable_copies(at, len).into_iter().any(|copy| {
                let job = ReadJob { role: copy.role, at: copy.at, buf: &mut *page };
                let ok = self.fetch(&mut [job]).is_empty();
                if !ok {
                    failed.push(copy);
                }
                ok
            });
            if !found {
                return Err(io_error("read", at, len, "no copy of it can be read".into()));
            }
            for copy in failed {
                self.rewrite(copy.role, copy.at, page);
            }
            (at, rest) = (at.plus(len), behind);
        }
        Ok(())
    }

    /// Writes every copy.
    pub(super) fn write_mirror(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = self.mirror_piece(at).min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at(len.index());
            let _alone = self.lock_stripe(at.whole(self.mirror_unit()));
            let jobs: Vec<WriteJob<'_>> = self
                .copies(at)
                .into_iter()
                .map(|copy| WriteJob { role: copy.role, at: copy.at, buf: piece })
                .collect();
            self.store(&jobs)?;
            (at, rest) = (at.plus(len), behind);
        }
        Ok(())
    }

    pub(super) fn mirror_alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        let end = offset.saturating_plus(len).min(self.end());
        let (mut at, mut most) = (offset, 1);
        while at < end {
            let len = self.mirror_piece(at).min(end.distance_from(at));
            most = most.max(self.copy_alternatives(at, len).len());
            at = at.plus(len);
        }
        most
    }

    /// Reads the range by alternative `k`. A piece with fewer alternatives is read by its last one.
    pub(super) fn read_mirror_copy(
        &self,
        offset: ByteOffset,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        if k >= self.mirror_alternatives(offset, ByteLen::of(buf)) {
            return Err(Error::NoAlternative(k));
        }
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = self.mirror_piece(at).min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at_mut(len.index());
            // While copies are written they need not agree.
            let _shared = self.lock_stripe_shared(at.whole(self.mirror_unit()));
            let alternatives = self.copy_alternatives(at, len);
            match alternatives.get(k).or(alternatives.last()) {
                None => return Err(Error::NoAlternative(k)),
                Some((Copy { role, at }, inner @ 1..)) => {
                    self.read_member_alternative(*role, *at, piece, *inner)?;
                }
                Some((copy, _)) => {
                    let job = ReadJob { role: copy.role, at: copy.at, buf: piece };
                    if !self.fetch(&mut [job]).is_empty() {
                        return Err(io_error("read", at, len, format!("copy {k} cannot be read")));
                    }
                }
            }
            (at, rest) = (at.plus(len), behind);
        }
        Ok(())
    }
}
