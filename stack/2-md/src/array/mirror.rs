//! RAID1 and RAID10: reads use any copy.

use std::sync::atomic::Ordering;

use xfskit_block::{Error, Result};
use xfskit_units::index;

use super::io::{ReadJob, WriteJob, io_error};
use super::{Array, Map};

/// RAID1 is read in pieces of this many bytes, so that one large read keeps all members busy.
const PIECE: u64 = 1 << 20;

/// The unit that is retried on its own when a larger read fails, in bytes.
pub(super) const PAGE: u64 = 4096;

/// One copy of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) role: usize,
    /// Bytes from the member's data offset.
    pub(super) at: u64,
}

impl Array {
    /// Returns the bytes from `offset` to the end of its unit of copies.
    pub(super) fn mirror_piece(&self, offset: u64) -> u64 {
        self.mirror_unit() - offset % self.mirror_unit()
    }

    /// Returns the bytes that lie together on every copy and share a lock.
    pub(super) fn mirror_unit(&self) -> u64 {
        if matches!(self.map, Map::Raid1) { PIECE } else { self.geometry.chunk_bytes().0 }
    }

    /// Returns all copies of the byte at `offset` of the array.
    pub(super) fn copies(&self, offset: u64) -> Vec<Copy> {
        match &self.map {
            Map::Raid10(map) => {
                let chunk = self.geometry.chunk_bytes().0;
                let within = offset % chunk;
                map.copies(offset / chunk)
                    .map(|copy| Copy { role: copy.role, at: copy.chunk * chunk + within })
                    .collect()
            }
            _ => (0..self.members.len()).map(|role| Copy { role, at: offset }).collect(),
        }
    }

    /// Returns the readable copies of a piece, the preferred one first.
    pub(super) fn readable_copies(&self, offset: u64, len: u64) -> Vec<Copy> {
        let mut copies = self.copies(offset);
        copies.retain(|copy| self.members[copy.role].is_readable(copy.at, len));
        if self.first_copy_only.load(Ordering::Relaxed) || !self.is_synced(offset + len) {
            return copies; // always the same copy, or data read once might change by themselves
        }
        // Pieces are spread over the members, so that several readers of one file use all of them.
        let turn = index(offset / PIECE);
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
    pub(super) fn copies_in_order(&self, offset: u64, len: u64) -> Vec<Copy> {
        let mut copies = self.readable_copies(offset, len);
        copies.sort_by_key(|copy| copy.role);
        copies
    }

    pub(super) fn read_mirror(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = index(self.mirror_piece(at)).min(rest.len());
            let (piece, behind) = rest.split_at_mut(len);
            match self.readable_copies(at, len as u64).first() {
                Some(copy) => {
                    self.members[copy.role].pending().fetch_add(1, Ordering::Relaxed);
                    jobs.push(ReadJob { role: copy.role, at: copy.at, buf: piece });
                    places.push(at);
                }
                None => self.read_copies_by_page(at, piece)?,
            }
            (at, rest) = (at + len as u64, behind);
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
    fn read_copies_by_page(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = index(PAGE - at % PAGE).min(rest.len());
            let (page, behind) = rest.split_at_mut(len);
            let _shared = self.lock_stripe_shared(at / self.mirror_unit());
            let mut failed = Vec::new();
            let found = self.readable_copies(at, len as u64).into_iter().any(|copy| {
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
            (at, rest) = (at + len as u64, behind);
        }
        Ok(())
    }

    /// Writes every copy.
    pub(super) fn write_mirror(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = index(self.mirror_piece(at)).min(rest.len());
            let (piece, behind) = rest.split_at(len);
            let _alone = self.lock_stripe(at / self.mirror_unit());
            let jobs: Vec<WriteJob<'_>> = self
                .copies(at)
                .into_iter()
                .map(|copy| WriteJob { role: copy.role, at: copy.at, buf: piece })
                .collect();
            self.store(&jobs)?;
            (at, rest) = (at + len as u64, behind);
        }
        Ok(())
    }

    pub(super) fn mirror_alternatives(&self, offset: u64, len: u64) -> usize {
        let end = offset.saturating_add(len).min(self.size_bytes());
        let (mut at, mut most) = (offset, 1);
        while at < end {
            let len = self.mirror_piece(at).min(end - at);
            most = most.max(self.copy_alternatives(at, len).len());
            at += len;
        }
        most
    }

    /// Reads the range by alternative `k`. A piece with fewer alternatives is read by its last one.
    pub(super) fn read_mirror_copy(&self, offset: u64, buf: &mut [u8], k: usize) -> Result<()> {
        if k >= self.mirror_alternatives(offset, buf.len() as u64) {
            return Err(Error::NoAlternative(k));
        }
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = index(self.mirror_piece(at)).min(rest.len());
            let (piece, behind) = rest.split_at_mut(len);
            // While copies are written they need not agree.
            let _shared = self.lock_stripe_shared(at / self.mirror_unit());
            let alternatives = self.copy_alternatives(at, len as u64);
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
            (at, rest) = (at + len as u64, behind);
        }
        Ok(())
    }
}
