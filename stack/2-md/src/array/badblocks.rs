//! Bad blocks of a member. A range that cannot be written is recorded in the member's bad-block log
//! and read from the other members until a write to it succeeds.
//!
//! md does the same: a member with a few bad sectors is worth more than none. The whole member
//! fails only if the log is full, or if the data there would be lost without this member.

use std::sync::atomic::Ordering;

use xfskit_block::{Error, Result};
use xfskit_units::{ByteLen, MemberByte};

use super::{Array, Map};

impl Array {
    /// Handles a failed write to a member: records the range as bad, or fails the member.
    ///
    /// # Errors
    /// Returns `error` if the array can afford neither.
    pub(super) fn write_failed(
        &self,
        role: usize,
        at: MemberByte,
        len: ByteLen,
        error: Error,
    ) -> Result<()> {
        if !self.can_record_badblock(role, at, len) || !self.record_badblock(role, false, at, len) {
            return self.fail_member(role, error);
        }
        Ok(())
    }

    /// Removes a range that was written from the member's bad blocks.
    pub(super) fn clear_badblocks(&self, role: usize, at: MemberByte, len: ByteLen) -> Result<()> {
        let member = &self.members[role];
        if !member.bad().clear(at, len) {
            return Ok(());
        }
        self.update_metadata(|metadata| {
            metadata.write_bad_blocks(role, false, member.bad()).unwrap_or_default()
        })
    }

    /// Records a range of a member (or of its replacement) as bad. Returns false if there is no
    /// bad-block log, or it is full.
    pub(super) fn record_badblock(
        &self,
        role: usize,
        replacement: bool,
        at: MemberByte,
        len: ByteLen,
    ) -> bool {
        let (Some(metadata), member) = (&self.metadata, &self.members[role]) else { return false };
        let bad = match member.replacement() {
            Some(active) if replacement => active.bad(),
            _ => member.bad(),
        };
        bad.add(at, len);
        self.is_optimal.store(false, Ordering::Release);
        let recorded = metadata.write_bad_blocks(role, replacement, bad);
        recorded.is_some_and(|failures| failures.is_empty())
    }

    /// Removes a range that could not be recorded from the bad blocks of a member or its
    /// replacement.
    pub(super) fn forget_badblock(
        &self,
        role: usize,
        replacement: bool,
        at: MemberByte,
        len: ByteLen,
    ) {
        let member = &self.members[role];
        match member.replacement() {
            Some(active) if replacement => active.bad().clear(at, len),
            _ => member.bad().clear(at, len),
        };
    }

    /// Removes a range that was written from the replacement's bad blocks.
    pub(super) fn clear_replacement_badblocks(
        &self,
        role: usize,
        at: MemberByte,
        len: ByteLen,
    ) -> Result<()> {
        let Some(replacement) = self.members[role].replacement() else { return Ok(()) };
        if !replacement.bad().clear(at, len) {
            return Ok(());
        }
        self.update_metadata(|metadata| {
            metadata.write_bad_blocks(role, true, replacement.bad()).unwrap_or_default()
        })
    }

    /// Returns true if the range can be read without this member. Always false on RAID10, where the
    /// member's range does not tell which roles hold the other copies.
    fn can_record_badblock(&self, role: usize, at: MemberByte, len: ByteLen) -> bool {
        let others = (0..self.members.len()).filter(|other| *other != role);
        let unreadable = others.filter(|other| !self.members[*other].is_readable(at, len)).count();
        match self.map {
            Map::Concat(_) | Map::Raid10(_) => false,
            Map::Raid1 | Map::Parity => unreadable < self.geometry.tolerates() as usize,
        }
    }
}
