//! The superblock of one member.

use std::ops::Range;
use std::path::Path;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_md::bitmap::Bitmap;
use xfskit_md::superblock::v1::{DevFlags, FeatureMap};
use xfskit_md::superblock::v090::{Descriptor, disk, state};
use xfskit_md::superblock::{
    self, Corruption, Found, Reshape, Role, SuperblockV1, SuperblockV090, Time, Version,
};
use xfskit_md::{Layout, Level, bad_blocks, ppl};
use xfskit_target::{self as target, ArrayName};
use xfskit_units::{Daddr, MemberSector, Sectors, SyncSector};

use crate::cause::array::ArrayError;
use crate::target::Target;
use crate::{Error, Result};

/// A device that was [examined](examine).
#[derive(Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The target that names it.
    pub name: String,
    /// Its superblock; `None` if it has none.
    pub superblock: Result<Option<Superblock>>,
}

/// The superblock of a member as it is on disk, with the fields of the member and of its array.
/// [`corruption`](Self::corruption) is the reason why it cannot be used, if there is one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// The version, which decides where it lies.
    pub version: Version,
    /// The first field that is impossible, if there is one.
    pub corruption: Option<Corruption>,
    /// Its magic number.
    pub magic: u32,
    /// Its sector on the member.
    pub at: Daddr,
    /// The UUID of the array.
    pub set_uuid: [u8; 16],
    /// The name of the array, of version 1.
    pub set_name: Option<String>,
    /// The UUID of the member, of version 1.
    pub device_uuid: Option<[u8; 16]>,
    /// When the array was made.
    pub created: Time,
    /// When the superblock was written.
    pub updated: Time,
    /// The number of the level: see [`level_name`](Self::level_name).
    pub level: i32,
    /// The number of the layout: see [`layout_name`](Self::layout_name).
    pub layout: u32,
    /// Sectors of a chunk; 0 where there are no chunks.
    pub chunk: Sectors,
    /// Roles of the array.
    pub raid_disks: u32,
    /// Sectors that are used of each member; 0 for RAID0 and linear.
    pub size: Sectors,
    /// The first sector of the data.
    pub data_offset: Sectors,
    /// Sectors that can hold data.
    pub data_size: Sectors,
    /// The number of changes of the array. The largest is the newest.
    pub events: u64,
    /// Where a resync has to begin; `None` if the array is clean.
    pub resync_offset: Option<SyncSector>,
    /// Where the part of this member begins that is not rebuilt; `None` if all of it is.
    pub recovery_offset: Option<MemberSector>,
    /// The number of this device in the role table.
    pub dev_number: u32,
    /// What this device is.
    pub role: Role,
    /// True if it is to replace the active device of its role.
    pub is_replacement: bool,
    /// A letter for each role: `A` active, `R` with a replacement, `.` missing.
    pub array_state: String,
    /// The reshape that is in progress, if one is.
    pub reshape: Option<Reshape>,
    /// True if reads should go to other members.
    pub write_mostly: bool,
    /// True if errors are not retried.
    pub failfast: bool,
    /// True if the array has a journal device.
    pub has_journal: bool,
    /// True if there is a write-intent bitmap.
    pub has_bitmap: bool,
    /// The write-intent bitmap, if it can be read.
    pub bitmap: Option<BitmapInfo>,
    /// The ranges of the data that must not be read.
    pub bad_blocks: Vec<Range<MemberSector>>,
    /// The partial parity log, if there is one that can be read.
    pub ppl: Option<PplInfo>,
    /// The checksum on disk, and the right one.
    pub checksum: (u32, u32),
    /// What only this format has.
    pub format: Format,
}

/// A write-intent bitmap: which regions may differ between the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BitmapInfo {
    /// Its version.
    pub version: u32,
    /// The number of changes that it knows of.
    pub events: u64,
    /// The number of changes when it was last clear.
    pub events_cleared: u64,
    /// Bytes that a bit stands for.
    pub chunk_size: u32,
    /// Sectors that it covers.
    pub sync_size: Sectors,
    /// The number of bits.
    pub bits: u64,
    /// The number of bits that are set.
    pub dirty: u64,
}

/// A partial parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PplInfo {
    /// The number of times that it was written.
    pub generation: u64,
    /// Its entries.
    pub entries: usize,
}

/// What only one of the two formats of superblocks has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Versions 1.0, 1.1 and 1.2.
    V1(FormatV1),
    /// Version 0.90.
    V090(FormatV090),
}

/// What a superblock of version 1 has. Offsets are in sectors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormatV1 {
    /// The bits of the features that are used.
    pub feature_map: u32,
    /// True if the layout of RAID0 is written down.
    pub has_raid0_layout: bool,
    /// The first sector of the data after the reshape, if it moves.
    pub new_data_offset: Option<i128>,
    /// `recovery_offset` as it is on disk, where the member holds data and uses it.
    pub recovery_offset: Option<u64>,
    /// From the superblock to the write-intent bitmap.
    pub bitmap_offset: i32,
    /// The partial parity log: from the superblock to it, and its length.
    pub ppl: Option<(i128, Sectors)>,
    /// The bad-block log: from the superblock to it, and its length.
    pub bad_block_log: Option<(i128, Sectors)>,
    /// True if the bad-block log has entries.
    pub has_bad_blocks: bool,
    /// Sectors before and after the data that nothing uses.
    pub unused: (u64, u64),
}

/// What a superblock of version 0.90 has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormatV090 {
    /// Major, minor and patch number of the version.
    pub version: (u32, u32, u32),
    /// The number of the array's device file.
    pub preferred_minor: u32,
    /// True if the array was marked clean.
    pub is_clean: bool,
    /// Devices of the array.
    pub total_devices: u32,
    /// Devices with a role.
    pub active_devices: u32,
    /// Devices that did not fail.
    pub working_devices: u32,
    /// Devices that failed.
    pub failed_devices: u32,
    /// Spares.
    pub spare_devices: u32,
    /// The device that the superblock is on.
    pub this: DeviceEntry,
    /// The table of devices, with their places in it.
    pub devices: Vec<(usize, DeviceEntry)>,
}

/// A device in the table of a superblock 0.90.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceEntry {
    /// Its number.
    pub number: u32,
    /// The major number of the block device that it was.
    pub major: u32,
    /// The minor number of the block device that it was.
    pub minor: u32,
    /// Its role.
    pub raid_disk: u32,
    /// Its state in mdadm's words: `active sync`, `faulty`, `spare`.
    pub state: String,
}

/// Reads the superblock of each of these devices: targets, or patterns (`m*.img`). `missing` is
/// passed over.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// for examined in xfskit::md::examine(["a.img", "b.img"])? {
///     let Some(superblock) = examined.superblock? else { continue };
///     println!("{}: {:?}, {} events", examined.name, superblock.role, superblock.events);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of opening the devices. A device that cannot be read is an item.
pub fn examine<M: AsRef<Path>>(members: impl IntoIterator<Item = M>) -> Result<Vec<Examined>> {
    let target = Target::array(members)?;
    let name: &ArrayName =
        target.array_name().ok_or_else(|| ArrayError::NotArray(target.to_string()).error())?;
    let members = target::members(name, OpenMode::ReadOnly).map_err(Error::new)?;
    let examined = |member: xfskit_md::Member| Examined {
        superblock: superblock::read(&member.device)
            .map(|found| found.map(|found| Superblock::of(&*member.device, &found)))
            .map_err(Error::new),
        name: member.name,
    };
    Ok(members.into_iter().flatten().map(examined).collect())
}

impl Superblock {
    fn of(device: &dyn BlockDevice, found: &Found) -> Self {
        let sb = &found.superblock;
        let (magic, failfast, checksum, format) = match sb {
            superblock::Superblock::V1(v1) => (
                v1.magic.get(),
                v1.dev_flags().contains(DevFlags::FAILFAST),
                (v1.sb_csum.get(), v1.expected_csum().unwrap_or(0)),
                Format::V1(FormatV1::of(v1, sb)),
            ),
            superblock::Superblock::V090(v090) => (
                v090.fields.md_magic.get(),
                false,
                (v090.fields.sb_csum.get(), v090.expected_csum()),
                Format::V090(FormatV090::of(v090)),
            ),
        };
        let bitmap = Bitmap::read(device, sb).ok().flatten();
        let log = ppl::read(device, sb).ok().flatten();
        Self {
            version: found.version,
            corruption: found.corruption.clone(),
            magic,
            at: sb.at(),
            set_uuid: sb.set_uuid(),
            set_name: sb.name(),
            device_uuid: sb.device_uuid(),
            created: sb.ctime(),
            updated: sb.utime(),
            level: sb.level(),
            layout: sb.layout(),
            chunk: sb.chunk(),
            raid_disks: sb.raid_disks(),
            size: sb.size(),
            data_offset: sb.data_offset(),
            data_size: sb.data_size(),
            events: sb.events(),
            resync_offset: sb.resync_offset(),
            recovery_offset: sb.recovery_offset(),
            dev_number: sb.dev_number(),
            role: sb.role(),
            is_replacement: sb.is_replacement(),
            array_state: letters(sb),
            reshape: sb.reshape(),
            write_mostly: sb.write_mostly(),
            failfast,
            has_journal: sb.has_journal(),
            has_bitmap: sb.bitmap().is_some(),
            bitmap: bitmap.as_ref().map(BitmapInfo::of),
            bad_blocks: bad_blocks::read(device, sb).unwrap_or_default(),
            ppl: log.map(|log| PplInfo {
                generation: log.header.generation.get(),
                entries: log.header.entries().len(),
            }),
            checksum,
            format,
        }
    }

    /// Returns mdadm's name of the level, if there is one.
    pub fn level_name(&self) -> Option<&'static str> {
        Level::from_number(self.level).map(Level::name)
    }

    /// Returns mdadm's name of the layout, if there is one.
    pub fn layout_name(&self) -> Option<String> {
        Layout::from_numbers(self.level, self.layout).ok().and_then(Layout::name)
    }

    /// Returns the size of the array in sectors, as far as one member tells it: with redundancy.
    pub fn array_size(&self) -> Option<Sectors> {
        let (used, n) = (self.size.0, u64::from(self.raid_disks));
        let without = |parity| used.saturating_mul(n.saturating_sub(parity));
        if matches!(self.format, Format::V090(_)) && self.level == 10 {
            return None; // as mdadm
        }
        let size = match Layout::from_numbers(self.level, self.layout).ok()? {
            Layout::Raid10(layout) => used.saturating_mul(n) / u64::from(layout.copies()),
            Layout::Raid1 => used,
            Layout::Raid4 | Layout::Raid5(_) => without(1),
            Layout::Raid6(_) => without(2),
            Layout::Linear | Layout::Raid0(_) => 0,
        };
        (size > 0).then_some(Sectors(size))
    }
}

impl BitmapInfo {
    fn of(bitmap: &Bitmap) -> Self {
        let superblock = &bitmap.superblock;
        Self {
            version: superblock.version.get(),
            events: superblock.events.get(),
            events_cleared: superblock.events_cleared.get(),
            chunk_size: superblock.chunksize.get(),
            sync_size: Sectors(superblock.sync_size.get()),
            bits: bitmap.count(),
            dirty: bitmap.dirty(),
        }
    }
}

impl FormatV1 {
    fn of(sb: &SuperblockV1, common: &superblock::Superblock) -> Self {
        let distance = |at: Daddr| i128::from(at.0) - i128::from(sb.super_offset.get());
        let new = i128::from(sb.data_offset.get()) + i128::from(sb.new_offset.get());
        let recovers = common.role() != Role::Journal && sb.has(FeatureMap::RECOVERY_OFFSET);
        Self {
            feature_map: sb.feature_map.get(),
            has_raid0_layout: sb.has(FeatureMap::RAID0_LAYOUT),
            new_data_offset: sb.has(FeatureMap::NEW_OFFSET).then_some(new),
            recovery_offset: recovers.then_some(sb.recovery_offset.get()),
            bitmap_offset: sb.bitmap_offset.get(),
            ppl: sb.ppl().map(|area| (distance(area.at), area.len)),
            bad_block_log: sb.bad_blocks().map(|area| (distance(area.at), area.len)),
            has_bad_blocks: sb.has(FeatureMap::BAD_BLOCKS),
            unused: unused(sb, common),
        }
    }
}

/// Returns the unused sectors before and after the data.
fn unused(sb: &SuperblockV1, common: &superblock::Superblock) -> (u64, u64) {
    let (at, data) = (sb.super_offset.get(), sb.data_offset.get());
    let areas = [sb.ppl(), sb.bad_blocks()];
    let areas = areas.into_iter().flatten();
    if at > data {
        let bitmap = common.bitmap().map(|place| place.0);
        let first = areas.map(|area| area.at.0).chain(bitmap).chain([at]).min().unwrap_or(at);
        return (0, first.saturating_sub(data.saturating_add(sb.size.get())));
    }
    // mdadm keeps 36 KiB after the superblock for itself.
    let kept = at.saturating_add(72);
    let end = areas.map(|area| area.at.0.saturating_add(area.len.0)).chain([kept]).max();
    let used = match (sb.size.get(), sb.role()) {
        (0, _) | (_, Role::Journal) => sb.data_size.get(),
        (size, _) => size,
    };
    let after = sb.data_size.get().saturating_sub(used);
    (data.saturating_sub(end.unwrap_or(at)), after)
}

impl FormatV090 {
    fn of(sb: &SuperblockV090) -> Self {
        let fields = &sb.fields;
        let is_used =
            |(_, disk): &(usize, &Descriptor)| disk.state.get() != 0 || disk.major.get() != 0;
        let devices = fields.disks.iter().enumerate().filter(is_used);
        Self {
            version: (
                fields.major_version.get(),
                fields.minor_version.get(),
                fields.patch_version.get(),
            ),
            preferred_minor: fields.md_minor.get(),
            is_clean: fields.state.get() & state::CLEAN != 0,
            total_devices: fields.nr_disks.get(),
            active_devices: fields.active_disks.get(),
            working_devices: fields.working_disks.get(),
            failed_devices: fields.failed_disks.get(),
            spare_devices: fields.spare_disks.get(),
            this: DeviceEntry::of(&fields.this_disk),
            devices: devices.map(|(i, disk)| (i, DeviceEntry::of(disk))).collect(),
        }
    }
}

impl DeviceEntry {
    fn of(entry: &Descriptor) -> Self {
        let bits = entry.state.get();
        let words = [
            (disk::FAULTY, "faulty"),
            (disk::ACTIVE, "active"),
            (disk::SYNC, "sync"),
            (disk::REMOVED, "removed"),
        ];
        let words: Vec<&str> =
            words.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| *word).collect();
        Self {
            number: entry.number.get(),
            major: entry.major.get(),
            minor: entry.minor.get(),
            raid_disk: entry.raid_disk.get(),
            state: if words.is_empty() { "spare".into() } else { words.join(" ") },
        }
    }
}

/// Returns a letter for each role.
fn letters(sb: &superblock::Superblock) -> String {
    let roles: Vec<Role> = (0..sb.max_dev()).map(|number| sb.role_of(number)).collect();
    let holders = |role| roles.iter().filter(|other| **other == Role::Active(role)).count();
    let letter = |role| match holders(role) {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    (0..sb.raid_disks().min(sb.max_dev())).map(letter).collect()
}
