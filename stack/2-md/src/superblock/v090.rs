//! Superblock 0.90: 1024 words of 32 bits in the byte order of the machine that wrote them.
//!
//! It lies in the last whole 64 KiB of the member, does not record its own place, and has a
//! descriptor for each of at most 27 devices. Data begin at the member's first sector. A big-endian
//! superblock is byte-swapped word by word when it is read, so that the fields are the same for
//! both byte orders. Only the halves of 64-bit numbers remain in the order of their machine.

use std::mem::{offset_of, size_of};

use xfskit_units::{Daddr, Sectors};
use zerocopy::little_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::v1::MAGIC;
use super::{Corruption, Role, SUPERBLOCK_BYTES, check, fold};

/// Devices an array can have.
pub const MAX_DEVICES: usize = 27;

/// Bits of `state`.
pub mod state {
    /// Nothing was being written.
    pub const CLEAN: u32 = 1;
    /// Errors were seen.
    pub const ERRORS: u32 = 2;
    /// There is an internal write-intent bitmap.
    pub const BITMAP_PRESENT: u32 = 1 << 8;
}

/// Bits of a descriptor's `state`.
pub mod disk {
    /// The device failed.
    pub const FAULTY: u32 = 1;
    /// It belongs to the array.
    pub const ACTIVE: u32 = 1 << 1;
    /// It holds what it should.
    pub const SYNC: u32 = 1 << 2;
    /// It was removed.
    pub const REMOVED: u32 = 1 << 3;
    /// Reads go to other members where there are any.
    pub const WRITE_MOSTLY: u32 = 1 << 9;
    /// Errors are not retried.
    pub const FAILFAST: u32 = 1 << 10;
}

/// The superblock's record of one device, 128 bytes.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Its index in `disks`.
    pub number: U32,
    /// The kernel's number of the device, when it was last seen.
    pub major: U32,
    /// See `major`.
    pub minor: U32,
    /// Its role.
    pub raid_disk: U32,
    /// [`disk`] bits.
    pub state: U32,
    /// Zero.
    pub reserved: [U32; 27],
}

/// The fields of a superblock of version 0.90, 4096 bytes.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Fields {
    /// [`MAGIC`].
    pub md_magic: U32,
    /// 0.
    pub major_version: U32,
    /// 90; 91 while the array is reshaped.
    pub minor_version: U32,
    /// 0.
    pub patch_version: U32,
    /// Words of the first section in use.
    pub gvalid_words: U32,
    /// First word of the array's identity.
    pub set_uuid0: U32,
    /// When the array was made, in seconds since 1970.
    pub ctime: U32,
    /// -1 linear, 0, 1, 4, 5, 6, 10.
    pub level: I32,
    /// KiB used of each member.
    pub size: U32,
    /// Devices in the array, with spares.
    pub nr_disks: U32,
    /// Roles of the array.
    pub raid_disks: U32,
    /// The preferred N of /dev/mdN.
    pub md_minor: U32,
    /// 1 if the kernel keeps no superblock.
    pub not_persistent: U32,
    /// The other words of the array's identity.
    pub set_uuid: [U32; 3],
    /// Zero.
    pub gstate_creserved: [U32; 16],
    /// When this superblock was written, in seconds since 1970.
    pub utime: U32,
    /// [`mod@state`] bits.
    pub state: U32,
    /// Devices with a role.
    pub active_disks: U32,
    /// Devices that work.
    pub working_disks: U32,
    /// Devices that failed.
    pub failed_disks: U32,
    /// Devices that wait.
    pub spare_disks: U32,
    /// [`SuperblockV090::expected_csum`].
    pub sb_csum: U32,
    /// Counts the changes of the array, as two halves.
    pub events: [U32; 2],
    /// `events` when `recovery_cp` was recorded, as two halves.
    pub cp_events: [U32; 2],
    /// Sectors of the members that are in sync, where `cp_events` equals `events`.
    pub recovery_cp: U32,
    /// Minor 91: the position of the reshape, in sectors of the array, as two halves.
    pub reshape_position: [U32; 2],
    /// Level after the reshape.
    pub new_level: I32,
    /// Roles after the reshape less those before.
    pub delta_disks: I32,
    /// Layout after the reshape.
    pub new_layout: U32,
    /// Bytes per chunk after the reshape.
    pub new_chunk: U32,
    /// Zero.
    pub gstate_sreserved: [U32; 14],
    /// How chunks lie; its meaning depends on the level.
    pub layout: U32,
    /// Bytes per chunk.
    pub chunk_size: U32,
    /// Zero.
    pub pstate: [U32; 62],
    /// The devices, by number.
    pub disks: [Descriptor; MAX_DEVICES],
    /// This device.
    pub this_disk: Descriptor,
}

const _: () = assert!(size_of::<Descriptor>() == 128);
const _: () = assert!(size_of::<Fields>() == SUPERBLOCK_BYTES);
const _: () = assert!(offset_of!(Fields, utime) == 128);
const _: () = assert!(offset_of!(Fields, sb_csum) == 152);
const _: () = assert!(offset_of!(Fields, new_chunk) == 196);
const _: () = assert!(offset_of!(Fields, layout) == 256);
const _: () = assert!(offset_of!(Fields, disks) == 512);
const _: () = assert!(offset_of!(Fields, this_disk) == 3968);

/// A superblock of version 0.90.
#[derive(Clone, Debug)]
pub struct SuperblockV090 {
    /// Its fields, converted to little-endian order.
    pub fields: Fields,
    /// Where it was read; it does not record that itself.
    pub at: Daddr,
    /// The words on disk are in big-endian order.
    pub big_endian: bool,
}

/// Reverses the bytes of every 32-bit word.
pub(super) fn swap_words(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<4>();
    for word in words {
        word.reverse();
    }
}

impl SuperblockV090 {
    /// Decodes the bytes read at `at`, if magic and version match in either byte order.
    pub fn decode(bytes: &[u8], at: Daddr) -> Option<Self> {
        let (mut fields, _) = Fields::read_from_prefix(bytes).ok()?;
        let big_endian = fields.md_magic.get() == MAGIC.swap_bytes();
        if big_endian {
            swap_words(fields.as_mut_bytes());
        }
        let known = matches!(fields.minor_version.get(), 90 | 91);
        let matches = fields.md_magic.get() == MAGIC && fields.major_version.get() == 0 && known;
        matches.then_some(Self { fields, at, big_endian })
    }

    /// Encodes the superblock as it is on disk, with a new checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut copy = self.fields.clone();
        copy.sb_csum.set(self.expected_csum());
        let mut bytes = copy.as_bytes().to_vec();
        if self.big_endian {
            swap_words(&mut bytes);
        }
        bytes
    }

    /// Returns the right checksum: the sum of all words with its own as zero, the carry folded in
    /// once.
    pub fn expected_csum(&self) -> u32 {
        let (words, _) = self.fields.as_bytes().as_chunks::<4>();
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
        fold(sum.saturating_sub(u64::from(self.fields.sb_csum.get())))
    }

    /// Verifies everything that does not depend on the device and the other members.
    /// [`Geometry`](crate::Geometry) checks level, layout and chunk.
    ///
    /// # Errors
    /// Returns the first impossible field.
    pub fn verify(&self) -> Result<(), Corruption> {
        let sb = &self.fields;
        let (csum, expected) = (sb.sb_csum.get(), self.expected_csum());
        check(
            "md0.sb_csum",
            csum == expected,
            format_args!("{csum:08x}"),
            format_args!("{expected:08x}"),
        )?;
        let raid_disks = sb.raid_disks.get();
        let possible = usize::try_from(raid_disks).is_ok_and(|n| (1..=MAX_DEVICES).contains(&n));
        check("md0.raid_disks", possible, raid_disks, "1 to 27")?;
        let chunk = sb.chunk_size.get();
        check("md0.chunk_size", chunk.is_multiple_of(512), chunk, "whole sectors")?;
        let number = sb.this_disk.number.get();
        let possible = usize::try_from(number).is_ok_and(|n| n < MAX_DEVICES);
        check("md0.this_disk.number", possible, number, "an index of disks")?;
        if self.reshaping() {
            let chunk = sb.new_chunk.get();
            check("md0.new_chunk", chunk.is_multiple_of(512), chunk, "whole sectors")?;
            let before = i64::from(raid_disks) - i64::from(sb.delta_disks.get()).abs();
            check("md0.delta_disks", before > 0, sb.delta_disks.get(), "less than raid_disks")?;
        }
        let fits = self.size().0 <= self.at.0;
        check("md0.size", fits, sb.size.get(), "an end before the superblock")
    }

    /// Combines the two halves of a 64-bit number.
    fn wide(&self, halves: [U32; 2]) -> u64 {
        let [first, second] = halves.map(|half| u64::from(half.get()));
        if self.big_endian { first << 32 | second } else { second << 32 | first }
    }

    /// Splits a 64-bit number into two halves.
    pub(super) fn halves(&self, n: u64) -> [U32; 2] {
        let low = u32::try_from(n & u64::from(u32::MAX)).unwrap_or(0);
        let high = u32::try_from(n >> 32).unwrap_or(0);
        let [first, second] = if self.big_endian { [high, low] } else { [low, high] };
        [U32::new(first), U32::new(second)]
    }

    /// Returns the number of changes of the array.
    pub fn events(&self) -> u64 {
        self.wide(self.fields.events)
    }

    /// Returns the position of the reshape, in sectors of the array.
    pub fn reshape_position(&self) -> u64 {
        self.wide(self.fields.reshape_position)
    }

    /// Returns true while the array is reshaped.
    pub fn reshaping(&self) -> bool {
        self.fields.minor_version.get() == 91
    }

    /// Returns the sectors used of each member.
    pub fn size(&self) -> Sectors {
        Sectors(u64::from(self.fields.size.get()) * 2)
    }

    /// Returns the array's UUID as md writes it: its four words, high byte first.
    pub fn set_uuid(&self) -> [u8; 16] {
        let [a, b, c] = self.fields.set_uuid;
        let mut uuid = [0; 16];
        let words = [self.fields.set_uuid0, a, b, c];
        for (bytes, word) in uuid.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.get().to_be_bytes();
        }
        uuid
    }

    /// Returns where a resync begins: `None` if the array is clean.
    pub fn resync_offset(&self) -> Option<u64> {
        let sb = &self.fields;
        let clean = sb.state.get() & state::CLEAN != 0;
        let recorded = self.wide(sb.cp_events) == self.events();
        (!clean).then(|| if recorded { u64::from(sb.recovery_cp.get()) } else { 0 })
    }

    /// Returns what device `number` is. A device with a role that is not in sync counts as a spare:
    /// its rebuild starts over.
    pub fn role_of(&self, number: u32) -> Role {
        let disk = usize::try_from(number).ok().and_then(|n| self.fields.disks.get(n));
        let Some(descriptor) = disk else { return Role::Spare };
        let bits = descriptor.state.get();
        if bits & (disk::FAULTY | disk::REMOVED) != 0 {
            Role::Faulty
        } else if bits & disk::ACTIVE != 0 && bits & disk::SYNC != 0 {
            Role::Active(descriptor.raid_disk.get())
        } else {
            Role::Spare
        }
    }

    /// Returns where the bitmap begins on the member.
    pub fn bitmap(&self) -> Option<Daddr> {
        let present = self.fields.state.get() & state::BITMAP_PRESENT != 0;
        present.then(|| self.at.saturating_add(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const AT: Daddr = Daddr(4096);

    fn superblock(big_endian: bool) -> SuperblockV090 {
        let mut sb = Fields::new_zeroed();
        sb.md_magic.set(MAGIC);
        sb.minor_version.set(90);
        sb.level.set(1);
        sb.raid_disks.set(2);
        sb.size.set(2048);
        sb.this_disk.number.set(1);
        sb.disks[1].state.set(disk::ACTIVE | disk::SYNC);
        sb.disks[1].raid_disk.set(1);
        let halves: [u32; 2] = if big_endian { [1, 5] } else { [5, 1] };
        sb.events = halves.map(U32::new);
        let sb = SuperblockV090 { fields: sb, at: AT, big_endian };
        SuperblockV090::decode(&sb.encode(), AT).unwrap()
    }

    #[test]
    fn both_byte_orders_decode_to_the_same_fields() {
        let (little, big) = (superblock(false), superblock(true));
        assert_eq!(little.encode()[..4], [0xfc, 0x4e, 0x2b, 0xa9]);
        assert_eq!(big.encode()[..4], [0xa9, 0x2b, 0x4e, 0xfc]);
        for sb in [little, big] {
            sb.verify().unwrap();
            assert_eq!(sb.events(), (1 << 32) + 5);
            assert_eq!(sb.size(), Sectors(4096));
            assert_eq!((sb.role_of(0), sb.role_of(1)), (Role::Spare, Role::Active(1)));
            assert_eq!(SuperblockV090::decode(&sb.encode(), AT).unwrap().encode(), sb.encode());
        }
    }

    #[test]
    fn each_impossible_field_is_named() {
        let broken = |change: fn(&mut Fields)| {
            let mut sb = superblock(true);
            change(&mut sb.fields);
            SuperblockV090::decode(&sb.encode(), AT).unwrap().verify().unwrap_err().check
        };
        assert_eq!(broken(|sb| sb.raid_disks.set(28)), "md0.raid_disks");
        assert_eq!(broken(|sb| sb.chunk_size.set(1000)), "md0.chunk_size");
        assert_eq!(broken(|sb| sb.this_disk.number.set(27)), "md0.this_disk.number");
        assert_eq!(broken(|sb| sb.size.set(2049)), "md0.size");
        let reshape = |change: fn(&mut Fields)| {
            let mut sb = superblock(false);
            sb.fields.minor_version.set(91);
            change(&mut sb.fields);
            SuperblockV090::decode(&sb.encode(), AT).unwrap().verify().unwrap_err().check
        };
        assert_eq!(reshape(|sb| sb.new_chunk.set(1)), "md0.new_chunk");
        assert_eq!(reshape(|sb| sb.delta_disks.set(2)), "md0.delta_disks");
        let mut sb = superblock(false);
        sb.fields.utime.set(1);
        assert_eq!(sb.verify().unwrap_err().check, "md0.sb_csum");
    }

    #[test]
    fn dirty_arrays_resync_from_the_recorded_offset() {
        let mut sb = superblock(true);
        assert_eq!(sb.resync_offset(), Some(0));
        sb.fields.recovery_cp.set(77);
        sb.fields.cp_events = sb.fields.events;
        assert_eq!(sb.resync_offset(), Some(77));
        sb.fields.state.set(state::CLEAN);
        assert_eq!(sb.resync_offset(), None);
    }
}
