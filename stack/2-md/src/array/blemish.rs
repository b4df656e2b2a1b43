//! Places of a member that cannot be written: they go onto its bad-block log, and are had from the
//! others, until they can.
//!
//! md does the same: a member with a few bad sectors is worth more than none. Only where the
//! log has no room, or what stood there would be lost without this member, the member fails as a whole.

use xfskit_block::{Error, Result};

use super::{Array, Map};

impl Array {
    /// A write to a member failed: its place is noted as bad, or the member taken out of use. Answers the
    /// error where neither is borne.
    pub(super) fn write_failed(&self, role: usize, at: u64, len: u64, error: Error) -> Result<()> {
        if !self.bears_blemish(role, at, len) || !self.ledger_takes(role, at, len) {
            return self.fail_member(role, error);
        }
        Ok(())
    }

    /// A place of a member was written: it is no longer bad.
    pub(super) fn written(&self, role: usize, at: u64, len: u64) -> Result<()> {
        let member = &self.members[role];
        if !member.forget_bad(at, len) {
            return Ok(());
        }
        let ranges = member.bad_sectors();
        self.note(|ledger| ledger.bad_blocks(role, &ranges).unwrap_or_default())
    }

    /// True where a place is had without this member. Of RAID10 the place does not tell who has the
    /// copies: there a member that fails, fails.
    fn bears_blemish(&self, role: usize, at: u64, len: u64) -> bool {
        let others = (0..self.members.len()).filter(|other| *other != role);
        let unreadable = others.filter(|other| !self.members[*other].is_readable(at, len)).count();
        match self.map {
            Map::Concat(_) | Map::Raid10(_) => false,
            Map::Raid1 | Map::Parity => unreadable < self.geometry.tolerates() as usize,
        }
    }

    /// Puts the place onto the member's log. False where there is none, or it has no room.
    fn ledger_takes(&self, role: usize, at: u64, len: u64) -> bool {
        let (Some(ledger), Some(member)) = (&self.ledger, self.members.get(role)) else {
            return false;
        };
        member.add_bad(at, len);
        self.is_whole.store(false, std::sync::atomic::Ordering::Release);
        let noted = ledger.bad_blocks(role, &member.bad_sectors());
        noted.is_some_and(|failures| failures.is_empty())
    }
}
