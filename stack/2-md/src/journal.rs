//! The journal device of RAID4, 5 and 6: stripes are logged there before their members are written.
//!
//! The journal is a ring of 4 KiB blocks in the device's data area. A meta block lists payloads,
//! whose pages follow it in the same order: data by the sector of the array, parity by the sector
//! of the members. `journal_tail` of the superblock names the oldest meta block that is still
//! needed. From there, blocks follow each other with consecutive sequence numbers until one is not
//! valid.
//!
//! [`JournalReader`] reads the journal, [`JournalWriter`] appends to it.

use std::mem::{offset_of, size_of};
use std::sync::Arc;

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
    /// CRC32c of the 4 KiB block, seeded with that of the array's UUID.
    pub checksum: U32,
    /// 1.
    pub version: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Bytes of the block in use.
    pub meta_size: U32,
    /// One more than that of the previous block.
    pub seq: U64,
    /// The block's own sector in the journal's data area.
    pub position: U64,
}

/// The head of a payload, 16 bytes. A checksum of 4 bytes for each page follows.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PayloadHead {
    /// 0 data, 1 parity, 2 flush.
    pub kind: U16,
    /// Unused.
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

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages of the array's content.
    Data,
    /// A page of P, or one of P and one of Q.
    Parity,
    /// Stripes are on their members. It has no pages, and ends the block.
    Flush,
}

/// A payload whose pages are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its kind.
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

/// The location of the ring on its device, and its array.
#[derive(Clone, Copy, Debug)]
struct Area {
    data_offset: Daddr,
    sectors: u64,
    set_uuid: [u8; 16],
}

impl Area {
    /// Returns the CRC32c of the array's UUID and these bytes, without the final complement.
    fn checksum(&self, bytes: &[u8]) -> u32 {
        !xfskit_crc::append(xfskit_crc::crc32c(&self.set_uuid), bytes)
    }

    /// Returns a meta block that lists these payloads, each a head with its checksums.
    fn block(&self, seq: u64, position: u64, payloads: &[u8]) -> Vec<u8> {
        let head = MetaBlock {
            magic: U32::new(MAGIC),
            checksum: U32::new(0),
            version: 1,
            pad: [0; 3],
            meta_size: U32::new(u32::try_from(META + payloads.len()).unwrap_or(u32::MAX)),
            seq: U64::new(seq),
            position: U64::new(position),
        };
        let mut block = head.as_bytes().to_vec();
        block.extend_from_slice(payloads);
        debug_assert!(block.len() <= BLOCK_BYTES, "payloads fit their block");
        block.resize(BLOCK_BYTES, 0);
        let sum = self.checksum(&block);
        block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
        block
    }
}

/// A journal, opened for reading.
#[derive(Debug)]
pub struct JournalReader<'a> {
    device: &'a dyn BlockDevice,
    area: Area,
    tail: u64,
}

impl<'a> JournalReader<'a> {
    /// Opens the journal of the device with this superblock; `None` if it does not fit the device.
    pub fn new(device: &'a dyn BlockDevice, superblock: &SuperblockV1) -> Option<Self> {
        let data_offset = Daddr(superblock.data_offset.get());
        let available = (device.size().0 / 512).checked_sub(data_offset.0)?;
        let sectors = superblock.data_size.get().min(available) & !(BLOCK_SECTORS - 1);
        let tail = superblock.recovery_offset.get();
        let set_uuid = superblock.set_uuid;
        let area = Area { data_offset, sectors, set_uuid };
        (tail < sectors).then_some(Self { device, area, tail })
    }

    /// Returns the entries from the tail until the first invalid one, at most as many as the ring
    /// holds.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read.
    pub fn entries(&self) -> xfskit_block::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut position, mut walked) = (self.tail, 0);
        while walked < self.area.sectors {
            let block = self.page(position)?;
            let seq = entries.last().map(|last| last.seq.wrapping_add(1));
            let Some(entry) = self.entry(&block, position, seq)? else { break };
            let pages: usize = entry.payloads.iter().map(|payload| payload.pages.len()).sum();
            let length = (pages as u64 + 1) * BLOCK_SECTORS;
            position = (position + length) % self.area.sectors;
            walked += length;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Reads the page at a sector of the data area.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read.
    pub fn page(&self, position: u64) -> xfskit_block::Result<Vec<u8>> {
        let mut page = vec![0; BLOCK_BYTES];
        let at = self.area.data_offset.saturating_add(position % self.area.sectors);
        self.device.read_at(at.byte_offset(), &mut page)?;
        Ok(page)
    }

    /// Decodes the meta block at `position` with its payloads. Returns `None` if it or one of its
    /// pages is invalid, or if its sequence number does not follow.
    fn entry(
        &self,
        block: &[u8],
        position: u64,
        seq: Option<u64>,
    ) -> xfskit_block::Result<Option<Entry>> {
        let Ok((head, _)) = MetaBlock::read_from_prefix(block) else { return Ok(None) };
        let follows = seq.is_none_or(|seq| seq == head.seq.get());
        let matches = head.magic.get() == MAGIC && head.version == 1;
        let here = head.position.get() == position;
        let mut zeroed = block.to_vec();
        zeroed[CHECKSUM..CHECKSUM + 4].fill(0);
        if !(matches && here && follows && self.area.checksum(&zeroed) == head.checksum.get()) {
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

    /// Decodes the payload at the start of `bytes`, with its pages from `next` on. Also returns the
    /// remaining bytes.
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
            if self.area.checksum(&page) != u32::from_le_bytes(*sum) {
                return Ok(None);
            }
            pages.push(*next % self.area.sectors);
            *next += BLOCK_SECTORS;
        }
        Ok(Some((Payload { kind, location: head.location.get(), pages }, behind)))
    }
}

/// Data to be written to one page of the members of a stripe.
#[derive(Clone, Debug)]
pub struct StripePage<'a> {
    /// Sectors of the array, and their pages.
    pub data: Vec<(u64, &'a [u8])>,
    /// The page's first sector on every member.
    pub member_sector: u64,
    /// P, or P and Q; empty if the data are to wait for their parity.
    pub parity: Vec<&'a [u8]>,
}

impl StripePage<'_> {
    /// Returns the bytes that it takes in a meta block.
    fn heads_len(&self) -> usize {
        let parity = if self.parity.is_empty() { 0 } else { HEAD + 4 * self.parity.len() };
        self.data.len() * (HEAD + 4) + parity
    }

    fn pages(&self) -> usize {
        self.data.len() + self.parity.len()
    }
}

/// The most roles of an array whose [`StripePage`] fits in one meta block.
pub const ROLES_MAX: usize = (BLOCK_BYTES - META - HEAD - 8) / (HEAD + 4);
/// The most sectors that are appended at once.
const AT_ONCE: u64 = 16_384;

/// A journal, opened for appending.
#[derive(Clone, Debug)]
pub struct JournalWriter {
    device: Arc<dyn BlockDevice>,
    area: Area,
    /// Sector of the data area for the next meta block.
    head: u64,
    /// Sequence number of the next meta block.
    seq: u64,
    /// Sectors from the tail to the head.
    used: u64,
    /// The journal has more than an empty block.
    has_entries: bool,
}

impl JournalWriter {
    /// Opens the journal with this superblock for appending; `None` if it does not fit the device.
    /// `now` is the basis of the sequence numbers of a journal without any block.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read.
    pub fn new(
        device: &Arc<dyn BlockDevice>,
        superblock: &SuperblockV1,
        now: u64,
    ) -> xfskit_block::Result<Option<Self>> {
        let Some(journal) = JournalReader::new(device, superblock) else { return Ok(None) };
        let entries = journal.entries()?;
        let length = |entry: &Entry| {
            let pages: usize = entry.payloads.iter().map(|payload| payload.pages.len()).sum();
            (pages as u64 + 1) * BLOCK_SECTORS
        };
        let used: u64 = entries.iter().map(length).sum();
        let seq = entries.last().map_or(now << 20, |last| last.seq.wrapping_add(1));
        Ok(Some(Self {
            device: Arc::clone(device),
            area: journal.area,
            head: (journal.tail + used) % journal.area.sectors,
            seq,
            used,
            has_entries: entries.iter().any(|entry| !entry.payloads.is_empty()),
        }))
    }

    /// Returns true if the journal has entries that the members may lack.
    pub fn has_entries(&self) -> bool {
        self.has_entries
    }

    /// Returns how many stripe pages with so many pages each are appended at once.
    pub fn pages_max(&self, pages: usize) -> usize {
        index((self.area.sectors / 4).min(AT_ONCE) / ((pages as u64 + 1) * BLOCK_SECTORS)).max(1)
    }

    /// Returns true if there is space for these pages and an empty block behind them.
    pub fn has_space_for(&self, columns: &[StripePage<'_>]) -> bool {
        let pages: usize = columns.iter().map(StripePage::pages).sum();
        let blocks = blocks(columns).count();
        let needed = (pages + blocks + 1) as u64 * BLOCK_SECTORS;
        self.used.saturating_add(needed) <= self.area.sectors
    }

    /// Advances as [`append`](Self::append) would, without writing. Returns whether there was
    /// space.
    pub fn simulate_append(&mut self, columns: &[StripePage<'_>]) -> bool {
        let pages: usize = columns.iter().map(StripePage::pages).sum();
        let fits = self.has_space_for(columns);
        self.advance((pages + blocks(columns).count()) * BLOCK_BYTES);
        fits
    }

    fn advance(&mut self, bytes: usize) {
        self.head = self.after(bytes);
        self.used += bytes as u64 / 512;
    }

    /// Appends these pages, durably. Returns false, and writes nothing, if there is no space.
    ///
    /// # Errors
    /// Returns an error if the device cannot be written.
    pub fn append(&mut self, columns: &[StripePage<'_>]) -> xfskit_block::Result<bool> {
        if !self.has_space_for(columns) {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        let mut seq = self.seq;
        for columns in blocks(columns) {
            let position = self.after(bytes.len());
            let mut heads = Vec::new();
            for column in columns {
                for (sector, page) in &column.data {
                    self.put_head(&mut heads, 0, *sector, &[page]);
                }
                if !column.parity.is_empty() {
                    self.put_head(&mut heads, 1, column.member_sector, &column.parity);
                }
            }
            bytes.extend_from_slice(&self.area.block(seq, position, &heads));
            for column in columns {
                let data = column.data.iter().map(|(_, page)| *page);
                data.chain(column.parity.iter().copied()).for_each(|p| bytes.extend_from_slice(p));
            }
            seq = seq.wrapping_add(1);
        }
        self.write(&bytes)?;
        self.device.flush()?;
        self.advance(bytes.len());
        self.seq = seq;
        self.has_entries |= !columns.is_empty();
        Ok(true)
    }

    /// Appends an empty block and returns its sector. The caller writes that sector to the
    /// superblock as the tail, which empties the journal, and then calls
    /// [`mark_empty`](Self::mark_empty). The block's sequence number is far ahead, so that no older
    /// block can be taken for its successor.
    ///
    /// # Errors
    /// Returns an error if the device cannot be written.
    pub fn append_empty_block(&mut self) -> xfskit_block::Result<u64> {
        let (tail, seq) = (self.head, self.seq.wrapping_add(10_000));
        self.write(&self.area.block(seq, tail, &[]))?;
        self.device.flush()?;
        self.advance(BLOCK_BYTES);
        self.seq = seq.wrapping_add(1);
        self.has_entries = false;
        Ok(tail)
    }

    /// Frees everything before `tail`, which the superblock names as the tail.
    pub fn advance_tail(&mut self, tail: u64) {
        let sectors = self.area.sectors;
        let left = (self.head + sectors - tail % sectors) % sectors;
        // A full ring ends where it begins.
        self.used = if left == 0 { self.used } else { left };
    }

    /// Returns the sector of the tail.
    pub fn tail(&self) -> u64 {
        (self.head + self.area.sectors - self.used % self.area.sectors) % self.area.sectors
    }

    /// Marks the journal as empty: the superblock names the last empty block as the tail.
    pub fn mark_empty(&mut self) {
        self.used = BLOCK_SECTORS;
    }

    /// Returns the sector so many bytes behind the head.
    fn after(&self, bytes: usize) -> u64 {
        (self.head + bytes as u64 / 512) % self.area.sectors
    }

    fn put_head(&self, heads: &mut Vec<u8>, kind: u16, location: u64, pages: &[&[u8]]) {
        let sectors = u32::try_from(pages.len() as u64 * BLOCK_SECTORS).unwrap_or(u32::MAX);
        let head = PayloadHead {
            kind: kind.into(),
            flags: 0.into(),
            size: sectors.into(),
            location: location.into(),
        };
        heads.extend_from_slice(head.as_bytes());
        for page in pages {
            heads.extend_from_slice(&self.area.checksum(page).to_le_bytes());
        }
    }

    /// Writes at the head, wrapping at the end of the ring.
    fn write(&self, bytes: &[u8]) -> xfskit_block::Result<()> {
        let left = index((self.area.sectors - self.head) * 512);
        let (here, around) = bytes.split_at(bytes.len().min(left));
        let at = self.area.data_offset.saturating_add(self.head).byte_offset();
        self.device.write_at(at, here)?;
        if around.is_empty() {
            return Ok(());
        }
        self.device.write_at(self.area.data_offset.byte_offset(), around)
    }
}

/// Returns the pages grouped by the meta blocks that list them.
fn blocks<'a, 'b>(columns: &'b [StripePage<'a>]) -> impl Iterator<Item = &'b [StripePage<'a>]> {
    let mut rest = columns;
    std::iter::from_fn(move || {
        let mut len = META;
        let fits = rest.iter().take_while(|column| {
            len += column.heads_len();
            len <= BLOCK_BYTES
        });
        let count = fits.count().max(1).min(rest.len());
        let (block, behind) = rest.split_at(count);
        rest = behind;
        (!block.is_empty()).then_some(block)
    })
}
