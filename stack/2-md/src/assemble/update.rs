//! An assembly of an array that runs, brought up to date.

use super::{Assembly, Error, Freshness, freshness, reference};
use crate::array::{Array, MemberState};

impl Assembly {
    /// Brings the assembly up to date with `array`, which was opened from it: members that failed,
    /// spares that serve a role, how far members are filled, events, the bitmap. Reads no device
    /// but the bitmaps of members that serve a role.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the superblocks describe no array any more.
    pub fn update(&mut self, array: &Array) -> Result<(), Error> {
        let mut members = self.members.clone();
        for member in &mut members {
            if let Some(superblock) = array.superblock_on(&member.device) {
                member.superblock = superblock;
            }
        }
        let reference = reference(&members).ok_or(Error::Nothing)?;
        let mut now = freshness::classify(members, reference)?;
        now.drop_faulty(array);
        now.is_replayed = self.is_replayed;
        now.is_forced = self.is_forced;
        if self.is_forced {
            now.warnings.clone_from(&self.warnings); // with those about members used by force
        } else {
            now.add_warnings();
        }
        *self = now;
        Ok(())
    }

    /// Leaves out members that failed in an array that maintains no superblocks.
    fn drop_faulty(&mut self, array: &Array) {
        for (role, state) in array.states().into_iter().enumerate() {
            if state == MemberState::Faulty
                && let Some(failed) = self.roles.get_mut(role).and_then(Option::take)
            {
                self.members[failed].freshness = Freshness::Faulty;
            }
        }
    }
}
