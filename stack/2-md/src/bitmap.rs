//! The write-intent bitmap: which regions may differ between members.
//!
//! A bit is set on disk before its region is written, and cleared some time later. After a crash,
//! only regions with a set bit need a resync. A member that was away needs only those. Every member
//! carries a copy, `bitmap_offset` sectors from its superblock: 256 bytes of [`BitmapSuper`], then
//! bit `i` as bit `i % 8` of byte `i / 8`. A bit covers `chunksize` bytes of each member on levels
//! 1, 4, 5 and 6, and of the array on level 10.

use std::mem::{offset_of, size_of};
use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, Daddr, Sectors, SyncSector, index};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::superblock::{Corruption, Superblock, check};

/// `magic`: "bitm".
pub const MAGIC: u32 = 0x6d74_6962;
/// Little-endian: what every machine writes today.
pub const VERSION: u32 = 4;
/// In the byte order of the machine that wrote it.
pub const VERSION_HOST_ENDIAN: u32 = 3;
/// Of an array that a cluster shares.
pub const VERSION_CLUSTERED: u32 = 5;

/// Bits of `state`.
pub mod state {
    /// The bitmap is out of date: every bit counts as set.
    pub const STALE: u32 = 2;
    /// The bitmap could not be written.
    pub const WRITE_ERROR: u32 = 4;
    /// Words are in the byte order of the machine that wrote it.
    pub const HOST_ENDIAN: u32 = 0x8000;
}

/// The head of a bitmap, 256 bytes, little-endian.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BitmapSuper {
    /// [`MAGIC`].
    pub magic: U32,
    /// [`VERSION`], or one of the others.
    pub version: U32,
    /// The array's identity.
    pub uuid: [u8; 16],
    /// The array's events when the bitmap was last written.
    pub events: U64,
    /// The array's events when bits were last cleared: a member that is older needs a full rebuild.
    pub events_cleared: U64,
    /// Sectors that the bits cover.
    pub sync_size: U64,
    /// [`mod@state`] bits.
    pub state: U32,
    /// Bytes that a bit covers: a power of two.
    pub chunksize: U32,
    /// Seconds until an idle region's bit is cleared.
    pub daemon_sleep: U32,
    /// Writes that may be outstanding on write-mostly members.
    pub write_behind: U32,
    /// Sectors reserved for the bitmap; 0 if unspecified.
    pub sectors_reserved: U32,
    /// Nodes of the cluster.
    pub nodes: U32,
    /// The cluster's name.
    pub cluster_name: [u8; 64],
    /// Zero.
    pub pad: [u8; 120],
}

/// Bytes of the head.
pub const HEAD_BYTES: usize = size_of::<BitmapSuper>();
const _: () = assert!(HEAD_BYTES == 256 && offset_of!(BitmapSuper, cluster_name) == 72);

/// A bitmap: its head and its bits.
#[derive(Clone, Debug)]
pub struct Bitmap {
    /// The head.
    pub superblock: BitmapSuper,
    bits: Vec<u8>,
    count: u64,
}

impl BitmapSuper {
    /// Returns the head of an array's bitmap. The remaining fields are zero.
    pub fn new(uuid: [u8; 16], events: u64, sync_size: Sectors, chunksize: u32) -> Self {
        let mut head = Self::new_zeroed();
        head.magic.set(MAGIC);
        head.version.set(VERSION);
        head.uuid = uuid;
        head.events.set(events);
        head.events_cleared.set(events);
        head.sync_size.set(sync_size.0);
        head.chunksize.set(chunksize);
        head.daemon_sleep.set(5);
        head
    }

    /// Returns the number of bits.
    ///
    /// # Errors
    /// Returns the first impossible field.
    pub fn bits(&self) -> Result<u64, Corruption> {
        let (magic, version) = (self.magic.get(), self.version.get());
        check("bitmap.magic", magic == MAGIC, format_args!("{magic:#x}"), "0x6d746962")?;
        let known = matches!(version, VERSION | VERSION_HOST_ENDIAN | VERSION_CLUSTERED);
        check("bitmap.version", known, version, "3, 4 or 5")?;
        let chunk = self.chunksize.get();
        check(
            "bitmap.chunksize",
            chunk >= 512 && chunk.is_power_of_two(),
            chunk,
            "a power of two",
        )?;
        Ok(self.sync_size.get().div_ceil(u64::from(chunk / 512)))
    }
}

impl Bitmap {
    /// Creates a bitmap with no bit set.
    ///
    /// # Errors
    /// Returns an error if the head has an impossible field.
    pub fn new(superblock: BitmapSuper) -> Result<Self, Corruption> {
        let count = superblock.bits()?;
        Ok(Self { superblock, bits: vec![0; index(count.div_ceil(8))], count })
    }

    /// Decodes the bitmap in `bytes`.
    ///
    /// # Errors
    /// Returns [`Corruption`] if there is none, or it is longer than `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let short = || Corruption {
            check: "bitmap.sync_size",
            found: "more bits than fit".into(),
            expected: format!("at most {} bytes of bits", bytes.len().saturating_sub(HEAD_BYTES)),
        };
        let (superblock, rest) = BitmapSuper::read_from_prefix(bytes).map_err(|_| short())?;
        let count = superblock.bits()?;
        let bits = usize::try_from(count.div_ceil(8)).ok().and_then(|len| rest.get(..len));
        Ok(Self { superblock, bits: bits.ok_or_else(short)?.to_vec(), count })
    }

    /// Reads the bitmap that belongs to `superblock` on its device; `None` if it has none.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the bitmap cannot be read or is invalid.
    pub fn read(
        device: &dyn BlockDevice,
        superblock: &Superblock,
    ) -> Result<Option<Self>, ReadError> {
        let Some(at) = superblock.bitmap() else { return Ok(None) };
        let mut head = vec![0; HEAD_BYTES];
        device.read_at(at.byte_offset(), &mut head)?;
        let head =
            BitmapSuper::read_from_bytes(&head).unwrap_or_else(|_| BitmapSuper::new_zeroed());
        let count = head.bits()?;
        let len = ByteLen(count.div_ceil(8).saturating_add(HEAD_BYTES as u64));
        let space = space_behind(superblock, at, device.size().sectors());
        let fits = len <= space.byte_len();
        check(
            "bitmap.sync_size",
            fits,
            format_args!("{count} bits"),
            format_args!("{space} sectors"),
        )?;
        let mut bytes = vec![0; len.index()];
        device.read_at(at.byte_offset(), &mut bytes)?;
        Ok(Some(Self::decode(&bytes)?))
    }

    /// Encodes the bitmap as it is on disk, in whole sectors.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.superblock.as_bytes().to_vec();
        bytes.extend_from_slice(&self.bits);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    /// Returns the number of bits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of set bits.
    pub fn dirty(&self) -> u64 {
        self.set_bits().count() as u64
    }

    /// Returns the set bits in order.
    pub fn set_bits(&self) -> impl Iterator<Item = u64> {
        (0..self.count).filter(|bit| self.get(*bit))
    }

    /// Returns whether `bit` is set; false beyond the last bit.
    pub fn get(&self, bit: u64) -> bool {
        let byte = usize::try_from(bit / 8).ok().and_then(|i| self.bits.get(i));
        bit < self.count && byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// Sets or clears `bit`. Does nothing beyond the last bit.
    pub fn put(&mut self, bit: u64, set: bool) {
        let byte = usize::try_from(bit / 8).ok().and_then(|i| self.bits.get_mut(i));
        let Some(byte) = byte.filter(|_| bit < self.count) else { return };
        let mask = 1 << (bit % 8);
        if set { *byte |= mask } else { *byte &= !mask }
    }

    /// Sets all bits.
    pub fn set_all(&mut self) {
        self.bits.fill(0xff);
        if let (Some(last), rest @ 1..) = (self.bits.last_mut(), self.count % 8) {
            *last = 0xff >> (8 - rest);
        }
    }

    /// Returns the bit that covers a sector.
    pub fn bit_of(&self, sector: SyncSector) -> u64 {
        sector.whole(self.sectors_per_bit())
    }

    /// Returns the sectors that a bit covers.
    pub fn covers(&self, bit: u64) -> Range<SyncSector> {
        let start = SyncSector(self.sectors_per_bit().saturating_times(bit).0);
        let end = SyncSector(self.superblock.sync_size.get());
        start..start.saturating_plus(self.sectors_per_bit()).min(end)
    }

    /// Returns the number of sectors that a bit covers.
    pub fn sectors_per_bit(&self) -> Sectors {
        Sectors(u64::from(self.superblock.chunksize.get() / 512))
    }

    /// Returns true if an array with these events can trust the bits: the bitmap has the array's
    /// UUID, is not marked stale, and was written no earlier than the superblock.
    pub fn is_current(&self, set_uuid: [u8; 16], events: u64) -> bool {
        let head = &self.superblock;
        let stale = head.state.get() & state::STALE != 0;
        head.uuid == set_uuid && head.events.get() >= events && !stale
    }
}

/// Returns the sectors from `at` to the next structure on the member: superblock, bad-block log,
/// data, or its end.
fn space_behind(superblock: &Superblock, at: Daddr, end: Sectors) -> Sectors {
    let log = match superblock {
        Superblock::V1(sb) => sb.bad_blocks().map(|place| place.at.0),
        Superblock::V090(_) => None,
    };
    let neighbours = [Some(superblock.at().0), log, Some(superblock.data_offset().0), Some(end.0)];
    let next = neighbours.into_iter().flatten().filter(|next| *next > at.0).min();
    Sectors(next.unwrap_or(at.0) - at.0)
}

/// Why a bitmap cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The member cannot be read.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The bytes are not a valid bitmap.
    #[error(transparent)]
    Corruption(#[from] Corruption),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap() -> Bitmap {
        Bitmap::new(BitmapSuper::new([7; 16], 18, Sectors(8192), 64 * 1024)).unwrap()
    }

    #[test]
    fn bits_survive_encoding() {
        let mut bitmap = bitmap();
        assert_eq!(bitmap.count(), 64);
        for bit in [0, 2, 6, 9, 63, 64, u64::MAX] {
            bitmap.put(bit, true);
        }
        bitmap.put(6, false);
        let again = Bitmap::decode(&bitmap.encode()).unwrap();
        assert_eq!(again.set_bits().collect::<Vec<_>>(), [0, 2, 9, 63]);
        assert_eq!(again.encode(), bitmap.encode());
        assert_eq!(again.bit_of(SyncSector(127)), 0);
        assert_eq!(again.covers(9), SyncSector(9 * 128)..SyncSector(10 * 128));
    }

    #[test]
    fn set_all_sets_only_existing_bits() {
        let mut bitmap = Bitmap::new(BitmapSuper::new([7; 16], 1, Sectors(1300), 65536)).unwrap();
        bitmap.set_all();
        assert_eq!((bitmap.count(), bitmap.dirty()), (11, 11));
        assert_eq!(bitmap.encode()[256..258], [0xff, 0x07]);
        assert_eq!(bitmap.covers(10), SyncSector(1280)..SyncSector(1300));
    }

    #[test]
    fn an_impossible_head_is_refused_by_name() {
        let broken = |change: fn(&mut BitmapSuper)| {
            let mut bitmap = bitmap();
            change(&mut bitmap.superblock);
            Bitmap::decode(&bitmap.encode()).unwrap_err().check
        };
        assert_eq!(broken(|head| head.magic.set(1)), "bitmap.magic");
        assert_eq!(broken(|head| head.version.set(6)), "bitmap.version");
        assert_eq!(broken(|head| head.chunksize.set(0)), "bitmap.chunksize");
        assert_eq!(broken(|head| head.chunksize.set(65537)), "bitmap.chunksize");
        assert_eq!(broken(|head| head.sync_size.set(u64::MAX)), "bitmap.sync_size");
        assert!(Bitmap::decode(&[0; 100]).is_err());
    }

    #[test]
    fn a_bitmap_is_trusted_only_if_it_belongs_to_the_array_and_is_current() {
        let mut bitmap = bitmap();
        assert!(bitmap.is_current([7; 16], 18) && bitmap.is_current([7; 16], 17));
        assert!(!bitmap.is_current([7; 16], 19) && !bitmap.is_current([8; 16], 18));
        bitmap.superblock.state.set(state::STALE);
        assert!(!bitmap.is_current([7; 16], 18));
    }
}
