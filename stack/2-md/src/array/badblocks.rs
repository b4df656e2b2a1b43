//! Places of a member that cannot be written: they go onto its bad-block log, and are had from the
//! others, until they can.
//!
//! md does the same: a member with a few bad sectors is worth more than none. Only where the
//! log has no room, or what stood there would be lost without this member, the member fails as a whole.

use std::sync::atomic::Ordering;

use xfskit_block::{Error, Result};

use super::{Array, Map};

impl Array {
    /// A write to a member failed: its place is noted as bad, or the member taken out of use. Answers the
    /// error where neither is borne.
    pub(super) fn write_failed(&self, role: usize, at: u64, len: u64, error: Error) -> Result<()> {
        if !self.can_record_badblock(role, at, len) || !self.record_badblock(role, false, at, len) {
            return self.fail_member(role, error);
        }
        Ok(())
    }

    /// A place of a member was written: it is no longer bad.
    pub(super) fn clear_badblocks(&self, role: usize, at: u64, len: u64) -> Result<()> {
        let member = &self.members[role];
        if !member.bad().clear(at, len) {
            return Ok(());
        }
        let ranges = member.bad().sectors();
        self.update_metadata(|metadata| {
            metadata.write_bad_blocks(role, false, &ranges).unwrap_or_default()
        })
    }

    /// A place of a member that is filled, or of what is to replace it, cannot be had from anybody. False where
    /// there is no log for that, or it has no room.
    pub(super) fn record_badblock(
        &self,
        role: usize,
        replacement: bool,
        at: u64,
        len: u64,
    ) -> bool {
        let (Some(metadata), member) = (&self.metadata, &self.members[role]) else { return false };
        let bad = match member.replacement() {
            Some(active) if replacement => active.bad(),
            _ => member.bad(),
        };
        bad.add(at, len);
        self.is_optimal.store(false, Ordering::Release);
        let noted = metadata.write_bad_blocks(role, replacement, &bad.sectors());
        noted.is_some_and(|failures| failures.is_empty())
    }

    /// A place of what is to replace a member was written: it is no longer bad.
    pub(super) fn clear_replacement_badblocks(&self, role: usize, at: u64, len: u64) -> Result<()> {
        let Some(replacement) = self.members[role].replacement() else { return Ok(()) };
        if !replacement.bad().clear(at, len) {
            return Ok(());
        }
        let ranges = replacement.bad().sectors();
        self.update_metadata(|metadata| {
            metadata.write_bad_blocks(role, true, &ranges).unwrap_or_default()
        })
    }

    /// True where a place is had without this member. Of RAID10 the place does not tell who has the
    /// copies: there a member that fails, fails.
    fn can_record_badblock(&self, role: usize, at: u64, len: u64) -> bool {
        let others = (0..self.members.len()).filter(|other| *other != role);
        let unreadable = others.filter(|other| !self.members[*other].is_readable(at, len)).count();
        match self.map {
            Map::Concat(_) | Map::Raid10(_) => false,
            Map::Raid1 | Map::Parity => unreadable < self.geometry.tolerates() as usize,
        }
    }
}
