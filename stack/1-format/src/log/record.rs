//! The record header: 512 bytes, big-endian except for the checksum.
//!
//! A record is one header block, more header blocks if records may be longer than 32 KiB, then the
//! payload. So that torn writes can be detected, every block of the record begins with the number
//! of the current cycle. The four bytes that it replaces are kept in the header ([`pack`] and
//! [`unpack`]). If a record continues over the end of the journal, its blocks at the start carry
//! the next cycle.

use xfskit_units::{LogBlock, Lsn, Uuid};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// First word of a record. No cycle ever has this number.
pub const MAGIC: u32 = 0xfeed_babe;
/// Bytes of one block of the journal.
pub const BLOCK: usize = 512;
/// Payload whose first words one header block can keep, in bytes; also the default record size.
pub const HEADER_COVERS: usize = 32 * 1024;
/// Largest record buffer that any writer uses, in bytes.
pub const SIZE_MAX: u32 = 256 * 1024;
/// Payload blocks whose first words one header block keeps.
const SLOTS: usize = HEADER_COVERS / BLOCK;
/// `fmt`: items are little-endian.
pub const FMT_LINUX_LE: u32 = 1;

/// The header, as it is on disk. `xfs_logprint` prints the names with `h_` before them.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// [`MAGIC`].
    pub magicno: U32,
    /// Cycle of this block: the high half of `lsn`.
    pub cycle: U32,
    /// 1, or 2 on a volume with LOGV2.
    pub version: U32,
    /// Payload in bytes. Version 2 rounds it up to the log stripe unit, version 1 does not.
    pub len: U32,
    /// Position of this header.
    pub lsn: U64,
    /// Oldest position that recovery must start from.
    pub tail_lsn: U64,
    /// CRC32c of the record, little-endian; 0 if the writer computed none.
    pub crc: [u8; 4],
    /// Block of the record before this one; all ones for the first. Informational.
    pub prev_block: U32,
    /// Operations in the payload.
    pub num_logops: U32,
    /// The displaced first words of the first 64 payload blocks.
    pub cycle_data: [[u8; 4]; SLOTS],
    /// [`FMT_LINUX_LE`].
    pub fmt: U32,
    /// UUID of the volume, the user-visible one.
    pub fs_uuid: [u8; 16],
    /// Size of the writer's record buffer, in bytes, which gives the number of header blocks.
    pub size: U32,
    /// Zero.
    pub pad0: [u8; 4],
    /// Zero.
    pub reserved: [u8; 184],
}

const CRC_OFFSET: usize = std::mem::offset_of!(RecordHeader, crc);
const CYCLE_DATA_OFFSET: usize = std::mem::offset_of!(RecordHeader, cycle_data);
const _: () = assert!(size_of::<RecordHeader>() == BLOCK && CRC_OFFSET == 32);
const _: () = assert!(std::mem::offset_of!(RecordHeader, fmt) == 300);

/// Bytes of the first header block that the checksum covers; 32-bit x86 writers stop before
/// `pad0`.
const CRC_HEADER_LENS: [usize; 2] = [328, 324];
/// Bytes of each further header block that the checksum covers.
const CRC_EXTENDED_LEN: usize = 260;
/// Offset of the displaced words in a further header block; the word before is its cycle.
const EXTENDED_DATA_OFFSET: usize = 4;

impl RecordHeader {
    /// Returns the header at the start of `block`, if its magic is there.
    pub fn parse(block: &[u8]) -> Option<&Self> {
        let (header, _) = Self::ref_from_prefix(block).ok()?;
        (header.magicno.get() == MAGIC).then_some(header)
    }

    /// Verifies the header at the start of `block`, which was read at block `at` of the journal of
    /// the volume `ctx.geo`. The checksum covers the payload too: see [`checksums`].
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(block: &'a [u8], ctx: &Ctx<'_>, at: LogBlock) -> VerifyResult<&'a Self> {
        let Ok((header, _)) = Self::ref_from_prefix(block) else {
            return Err(ctx.short("log.record.magicno", block.len()));
        };
        ctx.eq_hex("log.record.magicno", MAGIC, header.magicno.get())?;
        ctx.within("log.record.version", 1..=3, header.version.get())?;
        ctx.eq("log.record.fmt", FMT_LINUX_LE, header.fmt.get())?;
        // Old writers left the UUID out, and Linux still accepts that.
        if !header.fs_uuid().is_nil() {
            ctx.eq("log.record.fs_uuid", ctx.geo.uuid, header.fs_uuid())?;
        }
        if header.v2() {
            ctx.at_most("log.record.size", SIZE_MAX, header.size.get())?;
        }
        ctx.within("log.record.len", 1..=header.len_max(ctx), header.len.get())?;
        ctx.eq("log.record.lsn", at.0, header.lsn().block().0)?;
        ctx.eq("log.record.cycle", header.lsn().cycle(), header.cycle.get())?;
        Ok(header)
    }

    /// Returns the longest payload that this record may have. An old mkfs wrote a seed record as
    /// long as the log stripe unit without recording that in `size`.
    fn len_max(&self, ctx: &Ctx<'_>) -> u32 {
        let forgotten = if self.num_logops.get() == 1 { ctx.geo.logsunit } else { 0 };
        let size = if self.v2() { self.size.get() } else { 0 };
        size.max(forgotten.min(SIZE_MAX)).max(if self.v2() { 0 } else { 32 * 1024 })
    }

    /// Returns the LSN of this record.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn.get())
    }

    /// Returns the LSN from which recovery must start.
    pub fn tail_lsn(&self) -> Lsn {
        Lsn(self.tail_lsn.get())
    }

    /// Returns the UUID of the volume that the record was written for.
    pub fn fs_uuid(&self) -> Uuid {
        Uuid::from_bytes(self.fs_uuid)
    }

    /// Returns true if the record has the second version's layout.
    pub fn v2(&self) -> bool {
        self.version.get() & 2 != 0
    }

    /// Returns the number of header blocks: 1 on version 1, else one per started 32 KiB of `size`.
    pub fn header_blocks(&self) -> usize {
        if self.v2() { header_blocks(self.size.get().max(self.len.get())) } else { 1 }
    }

    /// Returns the number of payload blocks.
    pub fn payload_blocks(&self) -> usize {
        (self.len.get() as usize).div_ceil(BLOCK)
    }

    /// Returns the number of blocks of the whole record.
    pub fn blocks(&self) -> usize {
        self.header_blocks().saturating_add(self.payload_blocks())
    }

    /// Returns the stored checksum; 0 if the writer computed none.
    pub fn crc(&self) -> u32 {
        u32::from_le_bytes(self.crc)
    }
}

/// Returns the number of header blocks of a version 2 record whose writer used buffers of `size`
/// bytes.
pub fn header_blocks(size: u32) -> usize {
    (size as usize).div_ceil(HEADER_COVERS).max(1)
}

/// Returns the cycle that `block` of the journal carries: its first word, or its second where the
/// first is a record's magic.
pub fn cycle_of(block: &[u8]) -> u32 {
    match bytes::be32(block, 0) {
        Some(MAGIC) => bytes::be32(block, 4).unwrap_or(0),
        cycle => cycle.unwrap_or(0),
    }
}

/// Returns the cycle that follows `cycle`, which is never [`MAGIC`].
pub fn next_cycle(cycle: u32) -> u32 {
    match cycle.wrapping_add(1) {
        MAGIC => MAGIC.wrapping_add(1),
        next => next,
    }
}

/// Returns the cycle before `cycle`, which is never [`MAGIC`]; 0 before the first.
pub fn previous_cycle(cycle: u32) -> u32 {
    match cycle.saturating_sub(1) {
        MAGIC => MAGIC.wrapping_sub(1),
        previous => previous,
    }
}

/// Stamps `cycle` over the first word of every payload block of `record`, keeping the words in its
/// first `headers` blocks, and over the further header blocks. [`wrap`] and [`sum`] follow.
pub fn pack(record: &mut [u8], headers: usize, cycle: u32) {
    let (head, payload) = record.split_at_mut(headers.saturating_mul(BLOCK).min(record.len()));
    for block in head.chunks_exact_mut(BLOCK).skip(1) {
        if let Some(word) = block.first_chunk_mut::<4>() {
            *word = cycle.to_be_bytes();
        }
    }
    for (i, block) in payload.chunks_exact_mut(BLOCK).enumerate() {
        let slot = head.get_mut(slot_range(i));
        if let (Some(slot), Some(word)) = (slot, block.first_chunk_mut::<4>()) {
            slot.copy_from_slice(word);
            *word = cycle.to_be_bytes();
        }
    }
}

/// Advances the cycle of the blocks after the first `to_end`, which continue at the start of the
/// journal.
pub fn wrap(record: &mut [u8], to_end: usize) {
    for block in record.chunks_exact_mut(BLOCK).skip(to_end) {
        if let Some(word) = block.first_chunk_mut::<4>() {
            *word = next_cycle(u32::from_be_bytes(*word)).to_be_bytes();
        }
    }
}

/// Stores the checksum of a record that is stamped completely. The old content of the field is
/// ignored.
pub fn sum(record: &mut [u8], headers: usize) {
    let (head, payload) = record.split_at_mut(headers.saturating_mul(BLOCK).min(record.len()));
    let crc = checksum(CRC_HEADER_LENS[0], head, payload);
    if let Some(field) = head.get_mut(CRC_OFFSET..CRC_OFFSET.saturating_add(4)) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Returns the range of the headers that keeps the first word of payload block `i`.
fn slot_range(i: usize) -> std::ops::Range<usize> {
    let (header, slot) = (i / SLOTS, i % SLOTS);
    let data = if header == 0 { CYCLE_DATA_OFFSET } else { EXTENDED_DATA_OFFSET };
    let start =
        header.saturating_mul(BLOCK).saturating_add(data).saturating_add(slot.saturating_mul(4));
    start..start.saturating_add(4)
}

/// Restores the first words of `payload`'s blocks, which the writer displaced. `headers` are the
/// record's header blocks.
pub fn unpack(headers: &[u8], payload: &mut [u8]) {
    for (i, block) in payload.chunks_mut(BLOCK).enumerate() {
        if let (Some(slot), Some(word)) = (headers.get(slot_range(i)), block.first_chunk_mut::<4>())
        {
            word.copy_from_slice(slot);
        }
    }
}

/// Returns the checksums that a record of these header blocks and this payload may carry on disk:
/// of 64-bit writers first, then of 32-bit x86.
///
/// `payload` is exactly `len` bytes. The number of header blocks that count follows from `len`, not
/// from the length of `headers`.
pub fn checksums(headers: &[u8], payload: &[u8]) -> [u32; 2] {
    CRC_HEADER_LENS.map(|len| checksum(len, headers, payload))
}

/// Returns the checksum of a writer that covers `len` bytes of the first header block.
fn checksum(len: usize, headers: &[u8], payload: &[u8]) -> u32 {
    let before = headers.get(..CRC_OFFSET).unwrap_or(&[]);
    let behind = headers.get(CRC_OFFSET.saturating_add(4)..len).unwrap_or(&[]);
    let mut crc = xfskit_crc::crc32c(before);
    crc = xfskit_crc::append(crc, &[0; 4]);
    crc = xfskit_crc::append(crc, behind);
    let covering = payload.len().div_ceil(HEADER_COVERS).max(1);
    for extended in headers.chunks_exact(BLOCK).take(covering).skip(1) {
        crc = xfskit_crc::append(crc, extended.get(..CRC_EXTENDED_LEN).unwrap_or(&[]));
    }
    xfskit_crc::append(crc, payload)
}

#[cfg(test)]
mod tests;
