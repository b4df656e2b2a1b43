//! An assembly of an array that runs, brought up to date.

use super::{
    Assembly, Error, Freshness, check_duplicates, check_same_array, freshness, read_member,
    reference,
};
use crate::Member;
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

    /// Lists a device that has a superblock of this array, in place of one of the same name, while
    /// the array runs. It is what [`update`](Self::update) finds.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read, has no sound superblock of this array, or one
    /// with more events: the array then ran elsewhere meanwhile.
    pub fn enlist(&mut self, device: Member, array: &Array) -> Result<(), Error> {
        let new = read_member(device)?;
        let (events, own) = (self.superblock().events(), new.superblock.events());
        if own > events {
            let (name, array) = (new.name, self.reference().to_owned());
            return Err(Error::Ahead { name, own, array, events });
        }
        array.forget_failed(&new.device);
        let mut with_new = self.clone();
        with_new.members.retain(|member| member.name != new.name);
        with_new.members.push(new);
        check_same_array(&with_new.members)?;
        check_duplicates(&with_new.members)?;
        with_new.update(array)?;
        *self = with_new;
        Ok(())
    }

    /// Takes a device that serves no role off the list, while the array runs.
    ///
    /// # Errors
    /// See [`update`](Self::update).
    pub fn delist(&mut self, name: &str, array: &Array) -> Result<(), Error> {
        let mut without = self.clone();
        without.members.retain(|member| member.name != name);
        without.update(array)?;
        *self = without;
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
