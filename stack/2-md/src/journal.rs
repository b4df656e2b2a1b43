//! The journal device of RAID4, 5 and 6: stripes as they will be, before their members are written.
//!
//! A ring of 4 KiB blocks in the journal's data area. A meta block lists payloads, whose pages follow
//! it in the same order: data by the sector of the array, parity by the sector of the members.
//! `journal_tail` of the superblock names the oldest meta block that is still needed; from there the
//! blocks follow each other with sequence numbers one apart, until one does not fit.

use std::mem::{offset_of, size_of};

use xfskit_block::BlockDevice;
use xfskit_units::{Daddr, index};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::superblock::SuperblockV1;

/// `magic` of a meta block.
pub const MAGIC: u32 = 0x6433_c509;
/// Bytes of a meta block and of a page.
pub const BLOCK_BYTES: usize = 4096;
const BLOCK_SECTORS: u64 = 8;

/// The head of a meta block, 32 bytes.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MetaBlock {
    /// [`MAGIC`].
    pub magic: U32,
    /// CRC32c of the 4 KiB, begun with that of the array's identity.
    pub checksum: U32,
    /// 1.
    pub version: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Bytes of the block that count.
    pub meta_size: U32,
    /// One more than that of the block before.
    pub seq: U64,
    /// The block's own sector in the journal's data area.
    pub position: U64,
}

/// The head of a payload, 16 bytes; a checksum of 4 bytes for each page follows.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PayloadHead {
    /// 0 data, 1 parity, 2 flush.
    pub kind: U16,
    /// Nothing known.
    pub flags: U16,
    /// Sectors of the payload.
    pub size: U32,
    /// Data: a sector of the array. Parity: a sector of the members.
    pub location: U64,
}

const META: usize = size_of::<MetaBlock>();
const HEAD: usize = size_of::<PayloadHead>();
const CHECKSUM: usize = offset_of!(MetaBlock, checksum);
const _: () = assert!(META == 32 && HEAD == 16 && CHECKSUM == 4);

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages of the array's content.
    Data,
    /// A page of P, or one of P and one of Q.
    Parity,
    /// Stripes are on their members. It has no pages, and ends the block.
    Flush,
}

/// One payload, its pages found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// What it is.
    pub kind: Kind,
    /// Data: a sector of the array. Parity and flush: a sector of the members.
    pub location: u64,
    /// Where each page lies, in sectors of the journal's data area.
    pub pages: Vec<u64>,
}

/// A meta block and its payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number.
    pub seq: u64,
    /// Its sector in the journal's data area.
    pub position: u64,
    /// Its payloads, in order.
    pub payloads: Vec<Payload>,
}

/// The ring of one journal device.
#[derive(Debug)]
pub struct Journal<'a> {
    device: &'a dyn BlockDevice,
    data_offset: Daddr,
    sectors: u64,
    tail: u64,
    set_uuid: [u8; 16],
}

impl<'a> Journal<'a> {
    /// The ring of the journal device with this superblock; `None` where it does not fit the device.
    pub fn new(device: &'a dyn BlockDevice, superblock: &SuperblockV1) -> Option<Self> {
        let data_offset = Daddr(superblock.data_offset.get());
        let room = (device.size().0 / 512).checked_sub(data_offset.0)?;
        let sectors = superblock.data_size.get().min(room) & !(BLOCK_SECTORS - 1);
        let tail = superblock.recovery_offset.get();
        let set_uuid = superblock.set_uuid;
        (tail < sectors).then_some(Self { device, data_offset, sectors, tail, set_uuid })
    }

    /// The entries from the tail on, until one is not whole. No more than the ring has room for.
    ///
    /// # Errors
    /// Where the device cannot be read.
    pub fn entries(&self) -> xfskit_block::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut position, mut walked) = (self.tail, 0);
        while walked < self.sectors {
            let block = self.page(position)?;
            let seq = entries.last().map(|last| last.seq.wrapping_add(1));
            let Some(entry) = self.entry(&block, position, seq)? else { break };
            let pages: usize = entry.payloads.iter().map(|payload| payload.pages.len()).sum();
            let length = (pages as u64 + 1) * BLOCK_SECTORS;
            position = (position + length) % self.sectors;
            walked += length;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The meta block without payloads that follows `last`, and its sector in the data area: from there the
    /// journal is empty. Its number is far ahead, so that nothing older can be taken for what follows it.
    pub fn empty_block(&self, last: &Entry) -> (u64, Vec<u8>) {
        let pages: usize = last.payloads.iter().map(|payload| payload.pages.len()).sum();
        let position = (last.position + (pages as u64 + 1) * BLOCK_SECTORS) % self.sectors;
        let head = MetaBlock {
            magic: U32::new(MAGIC),
            checksum: U32::new(0),
            version: 1,
            pad: [0; 3],
            meta_size: U32::new(32),
            seq: U64::new(last.seq.wrapping_add(10_000)),
            position: U64::new(position),
        };
        let mut block = head.as_bytes().to_vec();
        block.resize(BLOCK_BYTES, 0);
        let sum = self.checksum(&block);
        block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
        (position, block)
    }

    /// The page at a sector of the data area.
    ///
    /// # Errors
    /// Where the device cannot be read.
    pub fn page(&self, position: u64) -> xfskit_block::Result<Vec<u8>> {
        let mut page = vec![0; BLOCK_BYTES];
        let at = self.data_offset.saturating_add(position % self.sectors);
        self.device.read_at(at.byte_offset(), &mut page)?;
        Ok(page)
    }

    /// The meta block at `position` with its payloads; `None` where it or one of its pages is not
    /// whole, or it is not the one that follows.
    fn entry(
        &self,
        block: &[u8],
        position: u64,
        seq: Option<u64>,
    ) -> xfskit_block::Result<Option<Entry>> {
        let Ok((head, _)) = MetaBlock::read_from_prefix(block) else { return Ok(None) };
        let follows = seq.is_none_or(|seq| seq == head.seq.get());
        let ours = head.magic.get() == MAGIC && head.version == 1;
        let here = head.position.get() == position;
        let mut zeroed = block.to_vec();
        zeroed[CHECKSUM..CHECKSUM + 4].fill(0);
        if !(ours && here && follows && self.checksum(&zeroed) == head.checksum.get()) {
            return Ok(None);
        }
        let size = usize::try_from(head.meta_size.get()).unwrap_or(usize::MAX);
        let Some(mut rest) = block.get(META..size) else { return Ok(None) };
        let mut payloads = Vec::new();
        let mut next = position + BLOCK_SECTORS;
        while !rest.is_empty() {
            let Some((payload, behind)) = self.payload(rest, &mut next)? else { return Ok(None) };
            payloads.push(payload);
            rest = behind;
        }
        Ok(Some(Entry { seq: head.seq.get(), position, payloads }))
    }

    /// The payload at the start of `bytes`, its pages from `next` on, and the bytes behind it.
    fn payload<'b>(
        &self,
        bytes: &'b [u8],
        next: &mut u64,
    ) -> xfskit_block::Result<Option<(Payload, &'b [u8])>> {
        let Ok((head, rest)) = PayloadHead::read_from_prefix(bytes) else { return Ok(None) };
        let kind = match head.kind.get() {
            0 => Kind::Data,
            1 => Kind::Parity,
            2 => {
                let payload =
                    Payload { kind: Kind::Flush, location: head.location.get(), pages: Vec::new() };
                return Ok(Some((payload, &[])));
            }
            _ => return Ok(None),
        };
        let count = index(u64::from(head.size.get()) / BLOCK_SECTORS);
        let Some((sums, behind)) = rest.split_at_checked(4 * count) else { return Ok(None) };
        let mut pages = Vec::with_capacity(count);
        for sum in sums.as_chunks::<4>().0 {
            let page = self.page(*next)?;
            if self.checksum(&page) != u32::from_le_bytes(*sum) {
                return Ok(None);
            }
            pages.push(*next % self.sectors);
            *next += BLOCK_SECTORS;
        }
        Ok(Some((Payload { kind, location: head.location.get(), pages }, behind)))
    }

    /// CRC32c of the array's identity and these bytes, without the final complement.
    fn checksum(&self, bytes: &[u8]) -> u32 {
        !xfskit_crc::append(xfskit_crc::crc32c(&self.set_uuid), bytes)
    }
}
