//! Partition tables: GPT, and MBR with its chain of logical partitions.
//!
//! *MBR*: sector 0 ends in 55 AA and holds four entries of 16 bytes at byte 446: status (0x80 or
//! 0), type at +4, first sector at +8 and sector count at +12 (32 bits each). Types 05, 0F and 85
//! are extended: they point to another such sector. Its first entry is a logical partition (counted
//! from that sector), and its second entry is the link to the next such sector (counted from the
//! start of the extended partition). Logical partitions are numbered from 5.
//!
//! *GPT*: sector 1 holds the header ("EFI PART"; its own CRC at 16, sector of the entries at 72,
//! their count, size and CRC at 80, 84, 88). The last sector holds a backup of it.
//!
//! Sectors are the device's logical sectors. An image of a disk with 4096-byte sectors is
//! recognized by the location of its GPT.

use uuid::Uuid;
use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset};

use crate::bytes::{bytes_of, le32, le64, read};

/// Most entries of a GPT that are read; Linux's own limit is 256 partitions.
const GPT_ENTRIES_MAX: u32 = 1024;
/// Largest entry of a GPT, in bytes; all known tables have 128.
const GPT_ENTRY_BYTES_MAX: u32 = 4096;
/// Most logical partitions that are followed, because a chain may be a loop.
const LOGICAL_MAX: u32 = 128;

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts, from 1.
    pub number: u32,
    /// Where it begins, in bytes from the start of the disk. Not checked against the disk's size.
    pub offset: ByteOffset,
    /// How long it is, in bytes.
    pub len: ByteLen,
    /// Its kind according to its entry: "MBR type 83 (Linux)".
    pub kind: String,
}

/// Returns the partitions of a disk, in the order of its table; none if it has no valid table. As
/// in Linux, a GPT counts only if the MBR refers to it, or if there is no MBR: a disk that was
/// repartitioned with an MBR may still carry an old GPT.
pub fn partitions(disk: &dyn BlockDevice) -> Vec<Partition> {
    let logical = u64::from(disk.logical_block_size());
    let mbr = mbr(disk, logical).filter(|found| !found.is_empty());
    if let Some(found) = &mbr
        && !found.iter().any(|partition| partition.kind.starts_with(PROTECTIVE))
    {
        return found.clone();
    }
    let mut sectors = vec![logical, 512, 4096];
    sectors.dedup();
    sectors.iter().find_map(|&sector| gpt(disk, sector)).or(mbr).unwrap_or_default()
}

/// The kind of the MBR partition that protects a GPT.
const PROTECTIVE: &str = "MBR type ee";

/// Reads the GPT of a disk with `sector` bytes in a sector, from its first or its last sector.
fn gpt(disk: &dyn BlockDevice, sector: u64) -> Option<Vec<Partition>> {
    let last = (disk.size().0 / sector).checked_sub(1)?;
    [1, last].into_iter().find_map(|lba| gpt_at(disk, sector, lba))
}

fn gpt_at(disk: &dyn BlockDevice, sector: u64, lba: u64) -> Option<Vec<Partition>> {
    let at = |lba: u64| bytes_of(lba, sector).map(|len| ByteOffset(len.0));
    let header = read(disk, at(lba)?, 512)?;
    if !header.starts_with(b"EFI PART") {
        return None;
    }
    let mut summed = header.get(..usize::try_from(le32(&header, 12)?).ok()?)?.to_vec();
    summed.get_mut(16..20)?.fill(0);
    let (count, entry_bytes) = (le32(&header, 80)?, le32(&header, 84)?);
    let sane = crc32fast::hash(&summed) == le32(&header, 16)?
        && le64(&header, 24)? == lba
        && count <= GPT_ENTRIES_MAX
        && (128..=GPT_ENTRY_BYTES_MAX).contains(&entry_bytes);
    if !sane {
        return None;
    }
    let table_len = usize::try_from(count.checked_mul(entry_bytes)?).ok()?;
    let table = read(disk, at(le64(&header, 72)?)?, table_len)?;
    if crc32fast::hash(&table) != le32(&header, 88)? {
        return None;
    }
    let entries = table.chunks_exact(usize::try_from(entry_bytes).ok()?);
    let partition = |(number, entry): (u32, &[u8])| {
        let (first, last) = (le64(entry, 32)?, le64(entry, 40)?);
        let used = entry.get(..16)?.iter().any(|&b| b != 0);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        used.then_some(Partition {
            number,
            offset: at(first)?,
            len: bytes_of(sectors, sector)?,
            kind: gpt_kind(entry)?,
        })
    };
    Some((1..).zip(entries).filter_map(partition).collect())
}

/// Returns the kind of a GPT entry: the type's name or its GUID, and the partition's own name.
fn gpt_kind(entry: &[u8]) -> Option<String> {
    // The first three fields of a GUID are little-endian.
    let guid = Uuid::from_bytes_le(entry.get(..16)?.try_into().ok()?).to_string();
    let known = match guid.as_str() {
        "0fc63daf-8483-4772-8e79-3d69d8477de4" => "Linux filesystem",
        "e6d6d379-f507-44c2-a23c-238f2a3df928" => "Linux LVM",
        "a19d880f-05fc-4d3b-a006-743f0f84911e" => "Linux RAID",
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f" => "Linux swap",
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709" => "Linux root (x86-64)",
        "b921b045-1df0-41c3-af44-4c6f280d3fae" => "Linux root (ARM-64)",
        "933ac7e1-2eb4-4f13-b844-0e14e2aef915" => "Linux home",
        "bc13c2ff-59e6-4262-a352-b275fd6f7172" => "Linux extended boot",
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" => "EFI system",
        "21686148-6449-6e6f-744e-656564454649" => "BIOS boot",
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7" => "Microsoft basic data",
        other => other,
    };
    let units = entry.get(56..128)?.as_chunks::<2>().0.iter().map(|&pair| u16::from_le_bytes(pair));
    let name: String = char::decode_utf16(units.take_while(|&u| u != 0))
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .filter(|c| !c.is_control())
        .collect();
    Some(if name.is_empty() { format!("GPT {known}") } else { format!("GPT {known} \"{name}\"") })
}

/// One entry of an MBR that is in use.
struct MbrEntry {
    kind: u8,
    first: u64,
    sectors: u64,
}

/// Reads the four entries of an MBR, or of a link in the chain of logical partitions; `None` for
/// unused ones.
fn mbr_entries(disk: &dyn BlockDevice, sector: u64, lba: u64) -> Option<[Option<MbrEntry>; 4]> {
    let block = read(disk, ByteOffset(bytes_of(lba, sector)?.0), 512)?;
    let entry = |i: usize| block.get(446 + 16 * i..462 + 16 * i);
    let plausible = block.get(510..512)? == [0x55, 0xaa]
        && (0..4).all(|i| entry(i).is_some_and(|e| matches!(e.first(), Some(0 | 0x80))));
    let used = |i: usize| {
        let (raw, kind) = (entry(i)?, *entry(i)?.get(4)?);
        let (first, sectors) = (le32(raw, 8)?, le32(raw, 12)?);
        (kind != 0 && sectors != 0).then(|| MbrEntry {
            kind,
            first: first.into(),
            sectors: sectors.into(),
        })
    };
    plausible.then(|| [used(0), used(1), used(2), used(3)])
}

/// Returns true if an MBR's entry of this kind is an extended partition.
pub(crate) fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn mbr(disk: &dyn BlockDevice, sector: u64) -> Option<Vec<Partition>> {
    let mut found = Vec::new();
    for (number, entry) in (1..).zip(mbr_entries(disk, sector, 0)?) {
        let Some(entry) = entry else { continue };
        if is_extended(entry.kind) {
            found.extend(logical(disk, sector, entry.first));
        } else {
            found.extend(mbr_partition(number, &entry, 0, sector));
        }
    }
    found.sort_by_key(|partition| partition.number);
    Some(found)
}

/// Returns the logical partitions of the extended one that begins at sector `start`.
fn logical(disk: &dyn BlockDevice, sector: u64, start: u64) -> Vec<Partition> {
    let mut found = Vec::new();
    let mut link = start;
    for number in 5..5 + LOGICAL_MAX {
        let Some([entry, next, ..]) = mbr_entries(disk, sector, link) else { break };
        found.extend(entry.and_then(|entry| mbr_partition(number, &entry, link, sector)));
        match next {
            Some(next) if is_extended(next.kind) => link = start.saturating_add(next.first),
            _ => break,
        }
    }
    found
}

fn mbr_partition(number: u32, entry: &MbrEntry, base: u64, sector: u64) -> Option<Partition> {
    let kind = match entry.kind {
        0x07 => " (NTFS, exFAT)",
        0x0b | 0x0c => " (FAT32)",
        0x82 => " (Linux swap)",
        0x83 => " (Linux)",
        0x8e => " (Linux LVM)",
        0xee => " (GPT, damaged)",
        0xef => " (EFI system)",
        0xfd => " (Linux RAID)",
        _ => "",
    };
    let first = base.checked_add(entry.first)?;
    Some(Partition {
        number,
        offset: ByteOffset(bytes_of(first, sector)?.0),
        len: bytes_of(entry.sectors, sector)?,
        kind: format!("MBR type {:02x}{kind}", entry.kind),
    })
}

/// Returns true if the sector at `offset` has the magic of an XFS superblock.
pub(crate) fn has_xfs_magic(disk: &dyn BlockDevice, offset: ByteOffset) -> bool {
    read(disk, offset, 4).is_some_and(|bytes| bytes == *b"XFSB")
}
