//! Adding devices to an array: new ones, and members that were away.

use std::sync::Arc;

use xfskit_units::{MemberSector, Sectors, index};
use zerocopy::FromZeros;

use super::{AssembledMember, Assembly, Error, Freshness};
use crate::array::metadata::MemberMetadata;
use crate::array::metadata::roles::superblock_for;
use crate::array::sync_action::{ReAddCandidate, Spare};
use crate::bad_blocks;
use crate::create::member_layout::{BitmapSpace, MemberLayout};
use crate::create::{self, NewMember};
use crate::geometry::{PAGE_SECTORS, Replacement};
use crate::ppl;
use crate::superblock::v1::{ROLE_SPARE, SuperblockV1};
use crate::superblock::{Role, Superblock};

impl Assembly {
    /// Makes a device a spare of the array: writes superblock, bitmap and bad-block log to it, and
    /// nothing to the others. The device's data are lost; the caller has checked that this is
    /// wanted.
    ///
    /// # Errors
    /// Returns an error if the device is too small, if the array's superblocks are of version 0.90
    /// or their role table is full, or if the array has partial parity logs and superblocks at the
    /// end.
    pub fn add(&self, new: &NewMember, now: u64) -> Result<(), create::Error> {
        let Superblock::V1(array) = self.superblock() else {
            return Err(create::Error::Version(self.version()));
        };
        let number = self.free_number(array)?;
        let mut own = SuperblockV1::new_zeroed();
        if array.ppl().is_some() {
            copy_member_layout(&mut own, array, new)?;
        } else {
            create::set_layout(&mut own, &self.layout_on(new, array)?, self.bitmap.is_some());
        }
        own.device_uuid = new.uuid;
        own.dev_number.set(number);
        let mut superblock = superblock_for(array, &own);
        superblock.utime.set(now);
        let failed = |source| create::Error::Device { name: new.name.clone(), source };
        create::write(&new.device, &superblock, self.bitmap.as_ref()).map_err(failed)?;
        if let Some(place) = superblock.ppl() {
            ppl::clear(&new.device, place, superblock.set_uuid).map_err(failed)?;
            new.device.flush().map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the layout of a new device: that of the other members, if the device is large
    /// enough.
    fn layout_on(
        &self,
        new: &NewMember,
        array: &SuperblockV1,
    ) -> Result<MemberLayout, create::Error> {
        let bitmap = match &self.bitmap {
            Some(bitmap) => {
                BitmapSpace::Now(PAGE_SECTORS.times(bitmap.encode().len().div_ceil(4096) as u64))
            }
            None => BitmapSpace::Later,
        };
        let (size, chunk) = (new.device.size(), self.geometry.chunk());
        let like = Some(Sectors(array.data_offset.get()));
        let on = |at| MemberLayout::new(&new.name, size, self.version(), chunk, bitmap, at);
        let fits = |layout: &MemberLayout| layout.data_size >= self.geometry.component_size();
        let layout = on(like).ok().filter(fits).map_or_else(|| on(None), Ok)?;
        if fits(&layout) {
            Ok(layout)
        } else {
            Err(create::Error::Small { name: new.name.clone(), size })
        }
    }

    /// Returns a device number that was never used, as far as the superblocks show.
    fn free_number(&self, array: &SuperblockV1) -> Result<u32, create::Error> {
        let used = self.members.iter().map(|member| member.superblock.dev_number());
        let listed = array.roles().iter().zip(0..).filter(|(role, _)| role.get() != ROLE_SPARE);
        let last = used.chain(listed.map(|(_, number)| number)).max().unwrap_or(0);
        let number = last.saturating_add(1).max(array.raid_disks.get());
        let layout = array.roles().len();
        if index(u64::from(number)) < layout {
            Ok(number)
        } else {
            Err(create::Error::Devices(layout))
        }
    }

    /// Returns the devices that wait for a member to fail.
    pub fn spares(&self) -> Vec<Spare> {
        let waits = |member: &&AssembledMember| member.freshness == Freshness::Spare;
        self.members.iter().filter(waits).map(spare).collect()
    }

    /// Returns a member that was away, if the bitmap covers all that it missed and its role is
    /// free.
    pub fn re_add_candidate(&self, name: &str) -> Option<ReAddCandidate> {
        let member = self.members.iter().find(|member| member.name == name)?;
        let (Freshness::Stale { .. }, Role::Active(role)) =
            (member.freshness, member.superblock.role())
        else {
            return None;
        };
        if member.superblock.recovery_offset().is_some() {
            return None; // it was being filled when it went, and never held all of its role
        }
        let role = index(u64::from(role));
        let bitmap = self.bitmap.as_ref()?;
        let knows = member.superblock.events() >= bitmap.superblock.events_cleared.get();
        let free = self.roles.get(role).is_some_and(Option::is_none);
        let number = member.superblock.dev_number();
        let inactive = !matches!(self.superblock().role_of(number), Role::Active(_));
        (knows && free && inactive).then(|| ReAddCandidate { spare: spare(member), role })
    }

    /// Returns the replacement of the member of `role`. After a crash it may lack what the member
    /// has, wherever something was written, and is filled again from the start.
    pub(super) fn replacement(&self, role: usize) -> Result<Option<Replacement>, Error> {
        let Some((_, member)) = self.replacing().find(|kept| kept.0 == role) else {
            return Ok(None);
        };
        let failed = |source| Error::Device { name: member.name.clone(), source };
        let bad_blocks = bad_blocks::read(&member.device, &member.superblock).map_err(failed)?;
        let filled = member.superblock.recovery_offset().unwrap_or(MemberSector::MAX);
        let filled = if self.is_dirty() { MemberSector(0) } else { filled };
        Ok(Some(Replacement {
            device: Arc::clone(&member.device),
            name: member.name.clone(),
            data_offset: member.superblock.data_offset(),
            filled,
            bad_blocks,
            ppl: member.superblock.ppl(),
        }))
    }

    /// Returns the superblocks of the replacements.
    pub(super) fn replacements(&self) -> Vec<MemberMetadata> {
        let kept = |(role, member): (usize, &AssembledMember)| {
            let mut kept = self.member_metadata(role, member);
            if let Superblock::V1(own) = &mut kept.superblock
                && self.is_dirty()
            {
                own.recovery_offset.set(0);
            }
            kept
        };
        self.replacing().map(kept).collect()
    }

    fn replacing(&self) -> impl Iterator<Item = (usize, &AssembledMember)> {
        self.members.iter().filter_map(|member| match member.freshness {
            Freshness::Replacement { role } => Some((index(u64::from(role)), member)),
            _ => None,
        })
    }
}

/// Copies the layout of the other members, so that there is certainly space for the partial parity
/// log. This is not possible with superblocks at the end of a device of another size.
fn copy_member_layout(
    own: &mut SuperblockV1,
    array: &SuperblockV1,
    new: &NewMember,
) -> Result<(), create::Error> {
    let (size, offset) = (new.device.size(), array.data_offset.get());
    let left = (size.0 / 512).saturating_sub(offset);
    if array.super_offset.get() > offset {
        return Err(create::Error::PartialParity);
    }
    if left < array.size.get() {
        return Err(create::Error::Small { name: new.name.clone(), size });
    }
    own.super_offset = array.super_offset;
    own.data_offset = array.data_offset;
    own.data_size.set(left);
    own.bblog_shift = array.bblog_shift;
    own.bblog_size = array.bblog_size;
    own.bblog_offset = array.bblog_offset;
    own.bitmap_offset = array.bitmap_offset; // the log's place
    Ok(())
}

fn spare(member: &AssembledMember) -> Spare {
    Spare {
        name: member.name.clone(),
        device: Arc::clone(&member.device),
        superblock: member.superblock.clone(),
    }
}
