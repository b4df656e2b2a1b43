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
use xfskit_units::{ArraySector, ByteLen, Daddr, JournalSector, MemberSector, Sectors, index};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::superblock::SuperblockV1;

/// `magic` of a meta block.
pub const MAGIC: u32 = 0x6433_c509;
/// Bytes of a meta block and of a page.
pub const BLOCK_BYTES: usize = 4096;
const BLOCK_SECTORS: Sectors = Sectors(8);

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
    /// Pages of the array's content, from this sector on.
    Data(ArraySector),
    /// A page of P, or one of P and one of Q, at this sector.
    Parity(MemberSector),
    /// The stripe at this sector is on its members. It has no pages, and ends the block.
    Flush(MemberSector),
}

/// A payload whose pages are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its kind, and where its pages belong.
    pub kind: Kind,
    /// Where each page lies in the journal.
    pub pages: Vec<JournalSector>,
}

/// A meta block and its payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number.
    pub seq: u64,
    /// Where it lies in the journal.
    pub position: JournalSector,
    /// Its payloads, in order.
    pub payloads: Vec<Payload>,
}

impl Entry {
    /// Returns the size of the meta block with its pages.
    fn length(&self) -> Sectors {
        let pages: usize = self.payloads.iter().map(|payload| payload.pages.len()).sum();
        blocks_long(pages + 1)
    }
}

/// Returns the size of so many blocks.
fn blocks_long(blocks: usize) -> Sectors {
    BLOCK_SECTORS.times(blocks as u64)
}

/// The location of the ring on its device, and its array.
#[derive(Clone, Copy, Debug)]
struct Area {
    data_offset: Daddr,
    sectors: Sectors,
    set_uuid: [u8; 16],
}

impl Area {
    /// Returns the CRC32c of the array's UUID and these bytes, without the final complement.
    fn checksum(&self, bytes: &[u8]) -> u32 {
        !xfskit_crc::append(xfskit_crc::crc32c(&self.set_uuid), bytes)
    }

    /// Returns the position so many sectors behind `position`, around the ring.
    fn after(&self, position: JournalSector, len: Sectors) -> JournalSector {
        JournalSector(position.plus(len).within(self.sectors).0)
    }

    /// Returns the distance from one position to another, around the ring; less than its length.
    fn distance(&self, from: JournalSector, to: JournalSector) -> Sectors {
        to.plus(self.sectors.minus(from.within(self.sectors))).within(self.sectors)
    }

    /// Returns where a position lies on the device.
    fn daddr(&self, position: JournalSector) -> Daddr {
        self.data_offset.saturating_add(position.0)
    }

    /// Returns a meta block that lists these payloads, each a head with its checksums.
    fn block(&self, seq: u64, position: JournalSector, payloads: &[u8]) -> Vec<u8> {
        let head = MetaBlock {
            magic: U32::new(MAGIC),
            checksum: U32::new(0),
            version: 1,
            pad: [0; 3],
            meta_size: U32::new(u32::try_from(META + payloads.len()).unwrap_or(u32::MAX)),
            seq: U64::new(seq),
            position: U64::new(position.0),
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
    tail: JournalSector,
}

impl<'a> JournalReader<'a> {
    /// Opens the journal of the device with this superblock; `None` if it does not fit the device.
    pub fn new(device: &'a dyn BlockDevice, superblock: &SuperblockV1) -> Option<Self> {
        let data_offset = Daddr(superblock.data_offset.get());
        let available = (device.size().0 / 512).checked_sub(data_offset.0)?;
        let blocks = Sectors(superblock.data_size.get().min(available)).whole(BLOCK_SECTORS);
        let sectors = BLOCK_SECTORS.times(blocks);
        let tail = JournalSector(superblock.recovery_offset.get());
        let set_uuid = superblock.set_uuid;
        let area = Area { data_offset, sectors, set_uuid };
        (tail.0 < sectors.0).then_some(Self { device, area, tail })
    }

    /// Returns the entries from the tail until the first invalid one, at most as many as the ring
    /// holds.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read.
    pub fn entries(&self) -> xfskit_block::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut position, mut walked) = (self.tail, Sectors(0));
        while walked < self.area.sectors {
            let block = self.page(position)?;
            let seq = entries.last().map(|last| last.seq.wrapping_add(1));
            let Some(entry) = self.entry(&block, position, seq)? else { break };
            position = self.area.after(position, entry.length());
            walked = walked.plus(entry.length());
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Reads the page at a sector.
    ///
    /// # Errors
    /// Returns an error if the device cannot be read.
    pub fn page(&self, position: JournalSector) -> xfskit_block::Result<Vec<u8>> {
        let mut page = vec![0; BLOCK_BYTES];
        let at = self.area.daddr(self.area.after(position, Sectors(0)));
        self.device.read_at(at.byte_offset(), &mut page)?;
        Ok(page)
    }

    /// Decodes the meta block at `position` with its payloads. Returns `None` if it or one of its
    /// pages is invalid, or if its sequence number does not follow.
    fn entry(
        &self,
        block: &[u8],
        position: JournalSector,
        seq: Option<u64>,
    ) -> xfskit_block::Result<Option<Entry>> {
        let Ok((head, _)) = MetaBlock::read_from_prefix(block) else { return Ok(None) };
        let follows = seq.is_none_or(|seq| seq == head.seq.get());
        let matches = head.magic.get() == MAGIC && head.version == 1;
        let here = head.position.get() == position.0;
        let mut zeroed = block.to_vec();
        zeroed[CHECKSUM..CHECKSUM + 4].fill(0);
        if !(matches && here && follows && self.area.checksum(&zeroed) == head.checksum.get()) {
            return Ok(None);
        }
        let size = usize::try_from(head.meta_size.get()).unwrap_or(usize::MAX);
        let Some(mut rest) = block.get(META..size) else { return Ok(None) };
        let mut payloads = Vec::new();
        let mut next = position.plus(BLOCK_SECTORS);
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
        next: &mut JournalSector,
    ) -> xfskit_block::Result<Option<(Payload, &'b [u8])>> {
        let Ok((head, rest)) = PayloadHead::read_from_prefix(bytes) else { return Ok(None) };
        let kind = match head.kind.get() {
            0 => Kind::Data(ArraySector(head.location.get())),
            1 => Kind::Parity(MemberSector(head.location.get())),
            2 => {
                let kind = Kind::Flush(MemberSector(head.location.get()));
                return Ok(Some((Payload { kind, pages: Vec::new() }, &[])));
            }
            _ => return Ok(None),
        };
        let count = index(Sectors(head.size.get().into()).whole(BLOCK_SECTORS));
        let Some((sums, behind)) = rest.split_at_checked(4 * count) else { return Ok(None) };
        let mut pages = Vec::with_capacity(count);
        for sum in sums.as_chunks::<4>().0 {
            let page = self.page(*next)?;
            if self.area.checksum(&page) != u32::from_le_bytes(*sum) {
                return Ok(None);
            }
            pages.push(self.area.after(*next, Sectors(0)));
            *next = next.plus(BLOCK_SECTORS);
        }
        Ok(Some((Payload { kind, pages }, behind)))
    }
}

/// Data to be written to one page of the members of a stripe.
#[derive(Clone, Debug)]
pub struct StripePage<'a> {
    /// Sectors of the array, and their pages.
    pub data: Vec<(ArraySector, &'a [u8])>,
    /// The page's first sector on every member.
    pub member_sector: MemberSector,
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
/// The most that is appended at once.
const AT_ONCE: Sectors = Sectors(16_384);

/// A journal, opened for appending.
#[derive(Clone, Debug)]
pub struct JournalWriter {
    device: Arc<dyn BlockDevice>,
    area: Area,
    /// Where the next meta block goes.
    head: JournalSector,
    /// Sequence number of the next meta block.
    seq: u64,
    /// From the tail to the head.
    used: Sectors,
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
        let used = entries.iter().map(Entry::length).fold(Sectors(0), Sectors::plus);
        let seq = entries.last().map_or(now << 20, |last| last.seq.wrapping_add(1));
        Ok(Some(Self {
            device: Arc::clone(device),
            area: journal.area,
            head: journal.area.after(journal.tail, used),
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
        let most = Sectors(self.area.sectors.0 / 4).min(AT_ONCE);
        index(most.whole(blocks_long(pages + 1))).max(1)
    }

    /// Returns true if there is space for these pages and an empty block behind them.
    pub fn has_space_for(&self, columns: &[StripePage<'_>]) -> bool {
        let pages: usize = columns.iter().map(StripePage::pages).sum();
        let blocks = blocks(columns).count();
        let needed = blocks_long(pages + blocks + 1);
        self.used.saturating_plus(needed) <= self.area.sectors
    }

    /// Advances as [`append`](Self::append) would, without writing. Returns whether there was
    /// space.
    pub fn simulate_append(&mut self, columns: &[StripePage<'_>]) -> bool {
        let pages: usize = columns.iter().map(StripePage::pages).sum();
        let fits = self.has_space_for(columns);
        self.advance(blocks_long(pages + blocks(columns).count()));
        fits
    }

    fn advance(&mut self, len: Sectors) {
        self.head = self.area.after(self.head, len);
        self.used = self.used.plus(len);
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
            let position = self.area.after(self.head, ByteLen::of(&bytes).sectors());
            let mut heads = Vec::new();
            for column in columns {
                for (sector, page) in &column.data {
                    self.put_head(&mut heads, 0, sector.0, &[page]);
                }
                if !column.parity.is_empty() {
                    self.put_head(&mut heads, 1, column.member_sector.0, &column.parity);
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
        self.advance(ByteLen::of(&bytes).sectors());
        self.seq = seq;
        self.has_entries |= !columns.is_empty();
        Ok(true)
    }

    /// Appends an empty block and returns where it lies. The caller writes that sector to the
    /// superblock as the tail, which empties the journal, and then calls
    /// [`mark_empty`](Self::mark_empty). The block's sequence number is far ahead, so that no older
    /// block can be taken for its successor.
    ///
    /// # Errors
    /// Returns an error if the device cannot be written.
    pub fn append_empty_block(&mut self) -> xfskit_block::Result<JournalSector> {
        let (tail, seq) = (self.head, self.seq.wrapping_add(10_000));
        self.write(&self.area.block(seq, tail, &[]))?;
        self.device.flush()?;
        self.advance(BLOCK_SECTORS);
        self.seq = seq.wrapping_add(1);
        self.has_entries = false;
        Ok(tail)
    }

    /// Frees everything before `tail`, which the superblock names as the tail.
    pub fn advance_tail(&mut self, tail: JournalSector) {
        let left = self.area.distance(tail, self.head);
        // A full ring ends where it begins.
        self.used = if left.is_zero() { self.used } else { left };
    }

    /// Returns where the tail is.
    pub fn tail(&self) -> JournalSector {
        let used = JournalSector(self.used.0);
        JournalSector(self.area.distance(used, self.head).0)
    }

    /// Marks the journal as empty: the superblock names the last empty block as the tail.
    pub fn mark_empty(&mut self) {
        self.used = BLOCK_SECTORS;
    }

    fn put_head(&self, heads: &mut Vec<u8>, kind: u16, location: u64, pages: &[&[u8]]) {
        let sectors = u32::try_from(blocks_long(pages.len()).0).unwrap_or(u32::MAX);
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
        let left = JournalSector(self.area.sectors.0).distance_from(self.head).byte_len();
        let (here, around) = bytes.split_at(bytes.len().min(left.index()));
        self.device.write_at(self.area.daddr(self.head).byte_offset(), here)?;
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
