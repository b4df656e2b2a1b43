//! Superblocks 1.0, 1.1 and 1.2: one format in three places. Little-endian throughout.
//!
//! 256 bytes of fields are followed by the role table, with an entry per device that ever belonged
//! to the array, indexed by `dev_number`. All 4 KiB are kept, so that encoding changes only the
//! fields that were set. The superblock records its own sector (`super_offset`). A candidate read
//! elsewhere belongs to another device, such as the whole disk seen through a partition.

use std::mem::{offset_of, size_of};

use bitflags::bitflags;
use xfskit_units::{Daddr, Sectors, flag_word};
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Corruption, MemberRange, Role, SUPERBLOCK_BYTES, check};

/// `magic` of every md superblock.
pub const MAGIC: u32 = 0xa92b_4efc;
/// Entries of `dev_roles` that fit.
pub const MAX_DEVICES: usize = 1920;
/// `resync_offset` of an array that is in sync.
pub const IN_SYNC: u64 = u64::MAX;

/// `dev_roles`: the device holds the journal.
pub const ROLE_JOURNAL: u16 = 0xfffd;
/// `dev_roles`: the device is faulty, or was removed.
pub const ROLE_FAULTY: u16 = 0xfffe;
/// `dev_roles`: the device is a spare, or there is none of this number.
pub const ROLE_SPARE: u16 = 0xffff;
/// Roles are below this.
pub const ROLE_END: u16 = 0xff00;

bitflags! {
    /// Bits of `feature_map`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FeatureMap: u32 {
        /// `bitmap_offset` is valid: there is an internal write-intent bitmap.
        const BITMAP_OFFSET = 0x1;
        /// `recovery_offset` is valid: only that much of the member is rebuilt.
        const RECOVERY_OFFSET = 0x2;
        /// The fields of a reshape are valid.
        const RESHAPE_ACTIVE = 0x4;
        /// The bad-block log has entries.
        const BAD_BLOCKS = 0x8;
        /// The device is to replace the active one of its role.
        const REPLACEMENT = 0x10;
        /// The reshape runs from the end to the start.
        const RESHAPE_BACKWARDS = 0x20;
        /// `new_offset` is valid.
        const NEW_OFFSET = 0x40;
        /// The device is being recovered by the bitmap.
        const RECOVERY_BITMAP = 0x80;
        /// The array is shared by a cluster.
        const CLUSTERED = 0x100;
        /// The array has a journal device.
        const JOURNAL = 0x200;
        /// A partial parity log is in the place of the bitmap.
        const PPL = 0x400;
        /// Several partial parity logs are in rotation.
        const MULTIPLE_PPLS = 0x800;
        /// `layout` is valid for RAID0.
        const RAID0_LAYOUT = 0x1000;
    }
}

flag_word! {
    /// Bits of `devflags`, named as `mdadm` prints them.
    pub struct DevFlags: u8 {
        /// Reads go to other members where there are any.
        WRITE_MOSTLY = 1 << 0, "write-mostly";
        /// Errors are not retried.
        FAILFAST = 1 << 1, "failfast";
    }
}

/// A superblock of version 1, 4096 bytes.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SuperblockV1 {
    /// [`MAGIC`].
    pub magic: U32,
    /// 1. The place alone distinguishes 1.0, 1.1 and 1.2.
    pub major_version: U32,
    /// [`FeatureMap`] bits.
    pub feature_map: U32,
    /// Zero.
    pub pad0: U32,
    /// The array's identity, the same on all members.
    pub set_uuid: [u8; 16],
    /// The array's name, usually `host:name`, padded with zeroes.
    pub set_name: [u8; 32],
    /// When the array was made: seconds since 1970 in the low 40 bits, microseconds above.
    pub ctime: U64,
    /// -1 linear, 0, 1, 4, 5, 6, 10.
    pub level: I32,
    /// How chunks lie; its meaning depends on the level.
    pub layout: U32,
    /// Sectors used of each member; 0 for RAID0 and linear.
    pub size: U64,
    /// Sectors.
    pub chunksize: U32,
    /// Roles of the array. The larger of old and new while it is reshaped.
    pub raid_disks: U32,
    /// Sectors from the superblock to the bitmap; with a PPL feature see [`SuperblockV1::ppl`].
    pub bitmap_offset: I32,
    /// Level after the reshape.
    pub new_level: I32,
    /// The position of the reshape, in sectors of the array.
    pub reshape_position: U64,
    /// Roles after the reshape less those before.
    pub delta_disks: I32,
    /// Layout after the reshape.
    pub new_layout: U32,
    /// Sectors per chunk after the reshape.
    pub new_chunk: U32,
    /// Sectors from `data_offset` to where the data begin after the reshape.
    pub new_offset: I32,
    /// First sector of data on this member.
    pub data_offset: U64,
    /// Sectors that can hold data from there on.
    pub data_size: U64,
    /// Sector of this superblock on the member.
    pub super_offset: U64,
    /// Sectors of data that are rebuilt; on a journal device the journal's tail.
    pub recovery_offset: U64,
    /// This device's index in `dev_roles`.
    pub dev_number: U32,
    /// Read errors that were corrected by rewriting.
    pub cnt_corrected_read: U32,
    /// The member's own identity.
    pub device_uuid: [u8; 16],
    /// [`DevFlags`] bits.
    pub devflags: u8,
    /// The bad-block log counts in units of `1 << bblog_shift` sectors.
    pub bblog_shift: u8,
    /// Sectors of the bad-block log; 0 for none.
    pub bblog_size: U16,
    /// Sectors from the superblock to the bad-block log.
    pub bblog_offset: I32,
    /// When this superblock was written, in the form of `ctime`.
    pub utime: U64,
    /// The number of changes of the array. The largest is the newest.
    pub events: U64,
    /// Sectors of the members that are in sync; [`IN_SYNC`] for all.
    pub resync_offset: U64,
    /// [`SuperblockV1::expected_csum`].
    pub sb_csum: U32,
    /// Entries of `dev_roles`.
    pub max_dev: U32,
    /// Zero.
    pub pad3: [u8; 32],
    /// What each device is, by `dev_number`: a role, or one of the `ROLE_` values.
    pub dev_roles: [U16; MAX_DEVICES],
}

const HEADER: usize = offset_of!(SuperblockV1, dev_roles);
const CSUM: usize = offset_of!(SuperblockV1, sb_csum);
const _: () = assert!(size_of::<SuperblockV1>() == SUPERBLOCK_BYTES);
const _: () = assert!(HEADER == 0x100 && CSUM == 0xd8);
const _: () = assert!(offset_of!(SuperblockV1, bitmap_offset) == 0x60);
const _: () = assert!(offset_of!(SuperblockV1, data_offset) == 0x80);
const _: () = assert!(offset_of!(SuperblockV1, devflags) == 0xb8);
const _: () = assert!(offset_of!(SuperblockV1, utime) == 0xc0);

impl SuperblockV1 {
    /// Decodes the bytes read at `at`, if magic, version and own address match. Checks nothing
    /// else: see [`verify`](Self::verify).
    pub fn decode(bytes: &[u8], at: Daddr) -> Option<Self> {
        let (found, _) = Self::read_from_prefix(bytes).ok()?;
        let matches = found.magic.get() == MAGIC
            && found.major_version.get() == 1
            && found.super_offset.get() == at.0;
        matches.then_some(found)
    }

    /// Encodes the superblock as it is on disk, with a new checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut copy = self.clone();
        if let Some(sum) = self.expected_csum() {
            copy.sb_csum.set(sum);
        }
        copy.as_bytes().to_vec()
    }

    /// Returns the right checksum: the sum of all 32-bit words of header and role table with its
    /// own as zero, the carry folded in once. Returns `None` if `max_dev` is impossible.
    pub fn expected_csum(&self) -> Option<u32> {
        let roles = usize::try_from(self.max_dev.get()).ok().filter(|n| *n <= MAX_DEVICES)?;
        let bytes = self.as_bytes().get(..HEADER + 2 * roles)?;
        let (words, rest) = bytes.as_chunks::<4>();
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
        let odd = <[u8; 2]>::try_from(rest).map_or(0, u16::from_le_bytes);
        let sum = (sum + u64::from(odd)).saturating_sub(u64::from(self.sb_csum.get()));
        Some(super::fold(sum))
    }

    /// Verifies everything that does not depend on the device and the other members.
    /// [`Geometry`](crate::Geometry) checks level, layout and chunk.
    ///
    /// # Errors
    /// Returns the first impossible field.
    pub fn verify(&self) -> Result<(), Corruption> {
        let roles = usize::try_from(self.max_dev.get()).unwrap_or(usize::MAX);
        check("md1.max_dev", roles <= MAX_DEVICES, self.max_dev.get(), "at most 1920")?;
        let expected = self.expected_csum().unwrap_or_default();
        let csum = self.sb_csum.get();
        check(
            "md1.sb_csum",
            csum == expected,
            format_args!("{csum:08x}"),
            format_args!("{expected:08x}"),
        )?;
        let unknown = self.features().difference(FeatureMap::all()).bits();
        check(
            "md1.feature_map",
            unknown == 0,
            format_args!("{unknown:#x}"),
            "known features only",
        )?;
        let raid_disks = self.raid_disks.get();
        let possible = usize::try_from(raid_disks).is_ok_and(|n| (1..=MAX_DEVICES).contains(&n));
        check("md1.raid_disks", possible, raid_disks, "1 to 1920")?;
        let number = self.dev_number.get();
        check("md1.dev_number", number < self.max_dev.get(), number, "an index of dev_roles")?;
        if self.has(FeatureMap::RESHAPE_ACTIVE) {
            let before = i64::from(raid_disks) - i64::from(self.delta_disks.get()).abs();
            check("md1.delta_disks", before > 0, self.delta_disks.get(), "less than raid_disks")?;
        }
        let end = self.data_offset.get().checked_add(self.data_size.get());
        let end = end.filter(|end| *end <= super::MAX_SECTORS.0);
        check("md1.data_size", end.is_some(), self.data_size.get(), "an end below 2^54 sectors")?;
        let fits = self.size.get() <= self.data_size.get() || self.role() == Role::Journal;
        check("md1.size", fits, self.size.get(), "at most data_size")
    }

    /// Returns `feature_map`.
    pub fn features(&self) -> FeatureMap {
        FeatureMap::from_bits_retain(self.feature_map.get())
    }

    /// Sets `feature_map`.
    pub fn set_features(&mut self, features: FeatureMap) {
        self.feature_map.set(features.bits());
    }

    /// Returns true if any of these feature bits is set.
    pub fn has(&self, features: FeatureMap) -> bool {
        self.features().intersects(features)
    }

    /// Returns `devflags`.
    pub fn dev_flags(&self) -> DevFlags {
        DevFlags::from_bits_retain(self.devflags)
    }

    /// Returns what this device is, by its own role table.
    pub fn role(&self) -> Role {
        self.role_of(self.dev_number.get())
    }

    /// Returns what device `dev_number` is, by this member's role table.
    pub fn role_of(&self, dev_number: u32) -> Role {
        let entry = usize::try_from(dev_number).ok().and_then(|n| self.roles().get(n));
        match entry.map_or(ROLE_SPARE, |role| role.get()) {
            ROLE_JOURNAL => Role::Journal,
            ROLE_FAULTY => Role::Faulty,
            role if role < ROLE_END => Role::Active(u32::from(role)),
            _ => Role::Spare,
        }
    }

    /// Returns the entries of `dev_roles` in use.
    pub fn roles(&self) -> &[U16] {
        let count = usize::try_from(self.max_dev.get()).unwrap_or(MAX_DEVICES);
        &self.dev_roles[..count.min(MAX_DEVICES)]
    }

    /// Returns where the bitmap begins on the member.
    pub fn bitmap(&self) -> Option<Daddr> {
        let has = self.has(FeatureMap::BITMAP_OFFSET) && self.ppl().is_none();
        has.then(|| self.relative(i64::from(self.bitmap_offset.get())))?
    }

    /// Returns where the bad-block log lies on the member, whether it has entries or not.
    pub fn bad_blocks(&self) -> Option<MemberRange> {
        let len = Sectors(u64::from(self.bblog_size.get()));
        let at = self.relative(i64::from(self.bblog_offset.get()))?;
        (len.0 != 0 && self.bblog_offset.get() != 0).then_some(MemberRange { at, len })
    }

    /// Returns where the partial parity log lies on the member. The two halves of `bitmap_offset`
    /// are then its offset from the superblock and its length, in sectors.
    pub fn ppl(&self) -> Option<MemberRange> {
        if !self.has(FeatureMap::PPL | FeatureMap::MULTIPLE_PPLS) {
            return None;
        }
        let [a, b, c, d] = self.bitmap_offset.to_bytes();
        let at = self.relative(i64::from(i16::from_le_bytes([a, b])))?;
        Some(MemberRange { at, len: Sectors(u64::from(u16::from_le_bytes([c, d]))) })
    }

    /// Returns the name without its padding.
    pub fn name(&self) -> String {
        let end = self.set_name.iter().position(|byte| *byte == 0).unwrap_or(self.set_name.len());
        String::from_utf8_lossy(&self.set_name[..end]).into_owned()
    }

    /// Returns the sector `offset` sectors from the superblock.
    fn relative(&self, offset: i64) -> Option<Daddr> {
        self.super_offset.get().checked_add_signed(offset).map(Daddr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// Returns a superblock 1.2 of a RAID5 of three members, with the right checksum.
    fn superblock() -> SuperblockV1 {
        let mut sb = SuperblockV1::new_zeroed();
        sb.magic.set(MAGIC);
        sb.major_version.set(1);
        sb.level.set(5);
        sb.layout.set(2);
        sb.chunksize.set(32);
        sb.raid_disks.set(3);
        sb.size.set(2048);
        sb.data_offset.set(256);
        sb.data_size.set(2048);
        sb.super_offset.set(8);
        sb.max_dev.set(128);
        sb.dev_roles.iter_mut().for_each(|role| role.set(ROLE_SPARE));
        (0u16..3).for_each(|role| sb.dev_roles[usize::from(role)].set(role));
        SuperblockV1::decode(&sb.encode(), Daddr(8)).unwrap()
    }

    #[test]
    fn a_superblock_is_valid_only_at_its_own_sector() {
        let bytes = superblock().encode();
        assert!(SuperblockV1::decode(&bytes, Daddr(8)).is_some());
        assert!(SuperblockV1::decode(&bytes, Daddr(0)).is_none());
        assert!(SuperblockV1::decode(&bytes[..4000], Daddr(8)).is_none());
    }

    #[test]
    fn each_impossible_field_is_named() {
        superblock().verify().unwrap();
        let broken = |change: fn(&mut SuperblockV1)| {
            let mut sb = superblock();
            change(&mut sb);
            let sb = SuperblockV1::decode(&sb.encode(), Daddr(8)).unwrap();
            sb.verify().unwrap_err().check
        };
        assert_eq!(broken(|sb| sb.max_dev.set(1921)), "md1.max_dev");
        assert_eq!(broken(|sb| sb.feature_map.set(0x2000)), "md1.feature_map");
        assert_eq!(broken(|sb| sb.raid_disks.set(0)), "md1.raid_disks");
        assert_eq!(broken(|sb| sb.dev_number.set(128)), "md1.dev_number");
        assert_eq!(broken(|sb| sb.data_size.set(u64::MAX)), "md1.data_size");
        assert_eq!(broken(|sb| sb.size.set(2049)), "md1.size");
        let reshape = |sb: &mut SuperblockV1| {
            sb.set_features(FeatureMap::RESHAPE_ACTIVE);
            sb.delta_disks.set(i32::MIN);
        };
        assert_eq!(broken(reshape), "md1.delta_disks");
        let mut sb = superblock();
        sb.events.set(7);
        let corruption = sb.verify().unwrap_err();
        assert_eq!(corruption.check, "md1.sb_csum");
        assert!(corruption.to_string().starts_with("sb_csum is "), "{corruption}");
    }

    #[test]
    fn an_odd_role_table_is_summed_to_its_last_byte() {
        let mut sb = superblock();
        sb.max_dev.set(3);
        let before = sb.expected_csum().unwrap();
        sb.dev_roles[2].set(1);
        assert_eq!(sb.expected_csum().unwrap(), before - 1);
        sb.dev_roles[3].set(1);
        assert_eq!(sb.expected_csum().unwrap(), before - 1);
    }

    #[test]
    fn roles_are_read_from_the_table() {
        let mut sb = superblock();
        sb.dev_roles[3].set(ROLE_JOURNAL);
        sb.dev_roles[4].set(ROLE_FAULTY);
        let roles: Vec<Role> = (0..6).map(|n| sb.role_of(n)).collect();
        let [a, b, c] = [0, 1, 2].map(Role::Active);
        assert_eq!(roles, [a, b, c, Role::Journal, Role::Faulty, Role::Spare]);
        assert_eq!(sb.role_of(u32::MAX), Role::Spare);
    }
}
