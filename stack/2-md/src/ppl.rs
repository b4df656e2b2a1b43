//! The partial parity log (PPL) of RAID5: closes the write hole without a bitmap or a journal
//! device.
//!
//! Before a write that leaves some data of a stripe alone, the xor of these data goes to a log on
//! the member that holds the stripe's parity. After a crash, parity is this xor together with the
//! data at the place of the write, whichever of its parts arrived. Each member has an area for its
//! log, `ppl_offset` sectors from its superblock. The area holds one log, or several one behind the
//! other, of which the one with the largest generation counts. A log is a header of 4 KiB, then the
//! partial parity of its entries in order.

use std::mem::{offset_of, size_of};

use xfskit_block::BlockDevice;
use xfskit_units::Daddr;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::superblock::{MemberRange, Superblock};

/// Bytes of a log's header.
pub const HEADER_BYTES: usize = 4096;
/// Entries that fit in a header.
pub const MAX_ENTRIES: usize = 148;

/// One write in the log, 24 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PplEntry {
    /// Where the write began, in sectors of the array.
    pub data_sector: U64,
    /// Bytes of partial parity; 0 for whole stripes, whose parity is computed from the data.
    pub pp_size: U32,
    /// Bytes of the write.
    pub data_size: U32,
    /// The role that holds the stripe's parity.
    pub parity_disk: U32,
    /// CRC32c of the partial parity.
    pub checksum: U32,
}

/// The head of a log, 4096 bytes.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PplHeader {
    /// All ones.
    pub reserved: [u8; 512],
    /// CRC32c of the array's identity.
    pub signature: U32,
    /// Zero.
    pub padding: U32,
    /// Grows with every log written.
    pub generation: U64,
    /// Entries that count.
    pub entries_count: U32,
    /// CRC32c of this header, this field counted as zero.
    pub checksum: U32,
    /// The entries.
    pub entries: [PplEntry; MAX_ENTRIES],
    /// Zero.
    pub tail: [u8; 8],
}

const CHECKSUM: usize = offset_of!(PplHeader, checksum);
const _: () = assert!(size_of::<PplHeader>() == HEADER_BYTES && CHECKSUM == 532);
const _: () = assert!(offset_of!(PplHeader, entries) == 536 && size_of::<PplEntry>() == 24);

impl PplHeader {
    /// Decodes the header in `bytes`, if it is valid and belongs to this array.
    pub fn decode(bytes: &[u8], set_uuid: [u8; 16]) -> Option<Self> {
        let (header, _) = Self::read_from_prefix(bytes).ok()?;
        let matches = header.signature.get() == xfskit_crc::crc32c(&set_uuid);
        let whole = xfskit_crc::verify(header.as_bytes(), CHECKSUM);
        let count = usize::try_from(header.entries_count.get()).ok()?;
        (matches && whole && count <= MAX_ENTRIES).then_some(header)
    }

    /// Encodes the header with a new checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.as_bytes().to_vec();
        xfskit_crc::update(&mut bytes, CHECKSUM);
        bytes
    }

    /// Returns a header with these entries.
    pub fn new(set_uuid: [u8; 16], generation: u64, entries: &[PplEntry]) -> Self {
        let mut header = Self::new_zeroed();
        header.reserved.fill(0xff);
        header.signature.set(xfskit_crc::crc32c(&set_uuid));
        header.generation.set(generation);
        let count = entries.len().min(MAX_ENTRIES);
        header.entries_count.set(u32::try_from(count).unwrap_or(0));
        header.entries[..count].copy_from_slice(&entries[..count]);
        header
    }

    /// Returns the entries in use.
    pub fn entries(&self) -> &[PplEntry] {
        let count = usize::try_from(self.entries_count.get()).unwrap_or(MAX_ENTRIES);
        &self.entries[..count.min(MAX_ENTRIES)]
    }
}

/// A member's newest log.
#[derive(Clone, Debug)]
pub struct Ppl {
    /// Where its header lies on the member; the partial parity follows.
    pub at: Daddr,
    /// The header.
    pub header: PplHeader,
}

/// Reads the newest log of the member with this superblock; `None` if it has no valid log.
///
/// # Errors
/// Returns an error if the member cannot be read.
pub fn read(
    device: &dyn BlockDevice,
    superblock: &Superblock,
) -> xfskit_block::Result<Option<Ppl>> {
    match superblock.ppl() {
        Some(place) => newest(device, place, superblock.set_uuid()),
        None => Ok(None),
    }
}

fn newest(
    device: &dyn BlockDevice,
    MemberRange { at, len }: MemberRange,
    set_uuid: [u8; 16],
) -> xfskit_block::Result<Option<Ppl>> {
    let end = at.saturating_add(len.0);
    let mut newest: Option<Ppl> = None;
    let mut next = Some(at);
    let mut bytes = vec![0; HEADER_BYTES];
    while let Some(at) = next.filter(|at| at.saturating_add(8) <= end) {
        device.read_at(at.byte_offset(), &mut bytes)?;
        let Some(header) = PplHeader::decode(&bytes, set_uuid) else { break };
        let parity = header.entries().iter().map(|entry| u64::from(entry.pp_size.get()));
        next = at.checked_add(8 + parity.sum::<u64>().div_ceil(4096) * 8);
        let older = |newest: &Ppl| newest.header.generation.get() < header.generation.get();
        if newest.as_ref().is_none_or(older) {
            newest = Some(Ppl { at, header });
        }
    }
    Ok(newest)
}

/// Empties the log at `place` of the array with this UUID. Returns the generation of the empty log.
///
/// # Errors
/// Returns an error if the member cannot be read or written.
pub fn clear(
    device: &dyn BlockDevice,
    place: MemberRange,
    set_uuid: [u8; 16],
) -> xfskit_block::Result<u64> {
    let newest = newest(device, place, set_uuid)?.map_or(0, |log| log.header.generation.get());
    let generation = newest.wrapping_add(1);
    let header = PplHeader::new(set_uuid, generation, &[]);
    device.write_at(place.at.byte_offset(), &header.encode())?;
    Ok(generation)
}
