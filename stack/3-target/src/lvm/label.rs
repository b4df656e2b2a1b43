//! From the bytes of a physical volume to its id and its metadata text.
//!
//! Label, 32 bytes: "LABELONE", its sector (64 bits), CRC of the sector from byte 20 on, offset of
//! the header (32), "LVM2 001". Header: id (32 characters), device size, then two lists of (offset,
//! size), each ended by a zero offset: data areas, metadata areas. Metadata area: CRC of the other
//! 508 bytes, magic, version, start, size, then (offset, size, CRC, flags) of the text. All numbers
//! are little-endian.

use xfskit_block::BlockDevice;
use xfskit_units::ByteOffset;

use crate::bytes::{le32, le64, read};

/// Most bytes of metadata text that are read. LVM's own areas are 1 MiB by default.
const TEXT_MAX: u64 = 64 << 20;
/// Most areas in one of a header's lists. They end with the sector anyway.
const AREAS_MAX: usize = 32;
/// Bytes of a metadata area's header. The text's ring buffer begins behind it.
const AREA_HEADER: u64 = 512;
const AREA_MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";
/// Flag of a metadata text that must not be used.
const IGNORED: u32 = 1;

/// A physical volume that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalVolume {
    /// Where it begins, in bytes from the start of the disk.
    pub offset: ByteOffset,
    /// Its id, 32 characters, without the hyphens of the text.
    pub id: String,
    /// The metadata texts with a valid checksum; often one, possibly none.
    pub texts: Vec<String>,
}

/// Computes LVM's CRC: that of Ethernet with another initial value and without the final
/// complement.
fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xf597_a6cf);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Reads the physical volume that begins at byte `offset` of `disk`, if there is one.
pub fn physical_volume(disk: &dyn BlockDevice, offset: ByteOffset) -> Option<PhysicalVolume> {
    (0..4u64).find_map(|sector| {
        let block = read(disk, offset.checked_add(sector * 512)?, 512)?;
        let at = header_at(&block).filter(|_| le64(&block, 8) == Some(sector))?;
        header(disk, offset, block.get(at..)?)
    })
}

/// Returns where in a sector with a valid label the header of the physical volume begins.
fn header_at(sector: &[u8]) -> Option<usize> {
    let good = sector.starts_with(b"LABELONE")
        && sector.get(24..32)? == b"LVM2 001"
        && le32(sector, 16)? == crc(sector.get(20..)?);
    usize::try_from(le32(sector, 20)?).ok().filter(|_| good)
}

/// Returns the id of the physical volume whose label this sector is, and the sector of the volume
/// that the label records as its own.
pub fn label_at(sector: &[u8]) -> Option<([u8; 32], u64)> {
    let at = header_at(sector)?;
    let id = sector.get(at..at.checked_add(32)?)?.try_into().ok()?;
    Some((id, le64(sector, 8)?)).filter(|(_, own)| *own < 4)
}

/// Decodes the header of the physical volume at `offset`, at the start of `bytes`.
fn header(disk: &dyn BlockDevice, offset: ByteOffset, bytes: &[u8]) -> Option<PhysicalVolume> {
    let id = str::from_utf8(bytes.get(..32)?).ok()?.to_owned();
    let (data, metadata_at) = areas(bytes, 40)?;
    let (metadata, _) = areas(bytes, metadata_at)?;
    let size = disk.size();
    if data.is_empty() && metadata.is_empty() {
        return None;
    }
    let texts = metadata
        .iter()
        .filter_map(|&start| offset.checked_add(start))
        .filter(|start| start.0 < size.0)
        .filter_map(|start| metadata_text(disk, start))
        .collect();
    Some(PhysicalVolume { offset, id, texts })
}

/// Returns the offsets in the list of areas at byte `at`, and where the list ends.
fn areas(bytes: &[u8], mut at: usize) -> Option<(Vec<u64>, usize)> {
    let mut offsets = Vec::new();
    while offsets.len() < AREAS_MAX {
        let offset = le64(bytes, at)?;
        at = at.checked_add(16)?;
        if offset == 0 {
            return Some((offsets, at));
        }
        offsets.push(offset);
    }
    None
}

/// Reads the text of the metadata area that begins at byte `start` of the disk.
fn metadata_text(disk: &dyn BlockDevice, start: ByteOffset) -> Option<String> {
    let header = read(disk, start, 512)?;
    let (area_size, text_at) = (le64(&header, 32)?, le64(&header, 40)?);
    let (text_size, text_crc) = (le64(&header, 48)?, le32(&header, 56)?);
    let good = header.get(4..20)? == AREA_MAGIC
        && le32(&header, 0)? == crc(header.get(4..)?)
        && le32(&header, 20)? == 1
        && le32(&header, 60)? & IGNORED == 0
        && (AREA_HEADER..area_size).contains(&text_at)
        && text_size <= TEXT_MAX.min(area_size - AREA_HEADER);
    if !good {
        return None;
    }
    // The text lies in a ring: it continues behind the area's header when it reaches the area's
    // end.
    let before = text_size.min(area_size - text_at);
    let piece = |at: u64, len: u64| read(disk, start.checked_add(at)?, usize::try_from(len).ok()?);
    let mut text = piece(text_at, before)?;
    text.extend(piece(AREA_HEADER, text_size - before)?);
    if crc(&text) != text_crc {
        return None;
    }
    String::from_utf8(text).ok().map(|text| text.trim_end_matches('\0').to_owned())
}
