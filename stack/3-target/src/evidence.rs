//! Evidence of arrays without superblocks: where the volume lies in the array.
//!
//! A volume need not begin where its array does. GPT headers and entries, MBRs and LVM's metadata
//! text are found on the raw members, wherever their chunks lie, and tell where partitions and
//! logical volumes are. A GPT header records its own sector, as does the backup header at the
//! array's end; an MBR is the array's first sector; LVM's label records its sector in its physical
//! volume. All are evidence like the volume's own blocks ([`xfskit_md::guess::evidence`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_md::guess::evidence::{
    Address, FoundBlock, FoundBlocks, Placement, PvId, ScanProgress, Volumes, scan,
};
use xfskit_md::guess::{Evidence, MemberDevices};
use xfskit_units::{ArraySector, ByteLen, ByteOffset, Daddr};

use crate::bytes::{le32, le64, read};
use crate::lvm::text::{Section, parse};
use crate::lvm::{PhysicalVolume, groups, label_at};
use crate::name::Part;
use crate::partition::is_extended;

/// Possible locations of the volume that are tried, and partition tables that are read.
const PLACEMENTS_MAX: usize = 64;
/// Entries of a GPT that are read.
const ENTRIES: usize = 128;
/// Bytes of an entry.
const ENTRY: usize = 128;
/// Longest metadata text of LVM that is read, in bytes.
const TEXT_MAX: u64 = 64 << 10;

/// The partitions and logical volumes found on the members.
#[derive(Default)]
struct Tables {
    headers: FoundBlocks,
    /// Sectors that are MBRs, or links in a chain of logical partitions, and where they were found.
    mbrs: Vec<(Table, FoundBlock)>,
    /// Partitions: number, first sector, sectors.
    partitions: Vec<Numbered>,
    /// The newest text of each volume group, and its number.
    texts: BTreeMap<String, (u64, String)>,
}

/// Scans at most `limit` bytes of each member. Returns `None` if there is no volume.
pub fn find_evidence(
    members: &MemberDevices,
    limit: u64,
    progress: &ScanProgress<'_>,
) -> ControlFlow<(), Option<Evidence>> {
    let (mut volumes, mut tables) = (Volumes::default(), Tables::default());
    let half = |done: u64, total: u64| progress(done / 2, total);
    scan(members, limit, &half, &mut |member, at, bytes| {
        volumes.visit(bytes);
        if let Some(device) = &members[member] {
            tables.visit(member, device, at, bytes);
        }
    })?;
    let Some(volume) = volumes.best() else { return ControlFlow::Continue(None) };
    let mut found = FoundBlocks::default();
    let half = |done: u64, total: u64| progress(done / 2 + total / 2, total);
    scan(members, limit, &half, &mut |member, at, bytes| {
        if let Some(address) = volume.address(bytes).map(Address::Volume) {
            found.push(FoundBlock { address, member, at }, bytes);
        }
    })?;
    tables.add_mbrs();
    let placements = tables.placements();
    let mut found = found.into_kept();
    found.extend(tables.headers.into_kept());
    ControlFlow::Continue(Some(Evidence { volume, found, placements }))
}

impl Tables {
    fn visit(&mut self, member: usize, device: &Arc<dyn BlockDevice>, at: Daddr, bytes: &[u8]) {
        if bytes.starts_with(b"EFI PART") {
            if let Some((sector, partitions)) = gpt(device, at, bytes) {
                let address = Address::Array(sector);
                self.headers.push(FoundBlock { address, member, at }, bytes);
                self.add(&partitions);
            }
        } else if bytes.ends_with(&[0x55, 0xaa]) {
            if let Some(table) = mbr(bytes).filter(|_| self.mbrs.len() < PLACEMENTS_MAX) {
                let address = Address::Array(ArraySector(0));
                self.mbrs.push((table, FoundBlock { address, member, at }));
            }
        } else if let Some((id, sector)) = label_at(bytes) {
            let address = Address::PhysicalVolume(id, ArraySector(sector));
            self.headers.push(FoundBlock { address, member, at }, bytes);
        } else if is_text(bytes) {
            self.add_text(device, at);
        }
    }

    fn add(&mut self, partitions: &[(u32, u64, u64)]) {
        for partition in partitions {
            if self.partitions.len() < PLACEMENTS_MAX && !self.partitions.contains(partition) {
                self.partitions.push(*partition);
            }
        }
    }

    /// Adds the partitions of all MBRs. If one of them has an extended partition, any may be a link
    /// in the chain of logical partitions, too: these have no address of their own.
    fn add_mbrs(&mut self) {
        let mbrs = std::mem::take(&mut self.mbrs);
        let entries = |is: fn(u8) -> bool| {
            let all = mbrs.iter().flat_map(|(table, _)| (1..).zip(table));
            all.filter_map(|(number, entry)| Some((number, (*entry)?)))
                .filter(move |(_, entry)| is(entry.kind))
        };
        let extended: Vec<u64> = entries(is_extended).map(|(_, entry)| entry.first).collect();
        let primary: Vec<Numbered> = entries(|kind| !is_extended(kind))
            .map(|(number, entry)| (number, entry.first, entry.sectors))
            .collect();
        self.add(&primary);
        if extended.is_empty() {
            for (table, block) in mbrs {
                self.headers.push(block, format!("{table:?}").as_bytes());
            }
            return;
        }
        for start in &extended {
            // The chain begins at the extended partition, and links count from there.
            let mut links: Vec<u64> =
                extended.iter().map(|link| start.saturating_add(*link)).collect();
            links.push(*start);
            links.sort_unstable();
            links.dedup();
            for (number, link) in (FIRST_LOGICAL..).zip(links) {
                let logical = primary.iter().filter(|(entry, ..)| *entry == 1);
                let logical = logical
                    .map(|(_, first, sectors)| (number, link.saturating_add(*first), *sectors));
                self.add(&logical.collect::<Vec<_>>());
            }
        }
    }

    /// Adds a text of LVM if it is complete here and newer than the known one.
    fn add_text(&mut self, device: &Arc<dyn BlockDevice>, at: Daddr) {
        let start = at.byte_offset();
        let len = device.size().0.saturating_sub(start.0).min(TEXT_MAX);
        let Some(bytes) = usize::try_from(len).ok().and_then(|len| read(&**device, start, len))
        else {
            return;
        };
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let Ok(text) = str::from_utf8(text) else { return };
        let Some(parsed) = parse(text) else { return };
        for (name, section) in parsed.sections() {
            let Some(seqno) = section.number("seqno") else { continue };
            if self.texts.get(name).is_none_or(|(known, _)| *known < seqno) {
                self.texts.insert(name.to_owned(), (seqno, text.to_owned()));
            }
        }
    }

    /// Returns where physical volumes of these sizes may begin: a single one at the array's start
    /// or at any partition's, several at partitions of the same size, in order.
    fn starts(&self, volumes: Vec<(String, u64)>) -> Vec<Vec<(String, u64)>> {
        if let [(id, _)] = volumes.as_slice() {
            let partitions = self.partitions.iter().map(|(_, first, _)| *first);
            return [0]
                .into_iter()
                .chain(partitions)
                .map(|first| vec![(id.clone(), first)])
                .collect();
        }
        let mut left: Vec<_> = self.partitions.clone();
        let mut begins = Vec::new();
        for (id, size) in volumes {
            let fits = left.iter().position(|(_, _, sectors)| *sectors == size);
            begins.extend(fits.map(|i| (id, left.remove(i).1)));
        }
        vec![begins]
    }

    /// Returns where the volume may lie: at the array's start, in a partition, or in a logical
    /// volume of either.
    fn placements(&self) -> Vec<Placement> {
        let mut placements = vec![Placement::whole()];
        for (number, first, sectors) in &self.partitions {
            let pieces = vec![(*sectors, ArraySector(*first))];
            placements.push(Placement::of(Part::Partition(*number).to_string(), pieces));
        }
        for (_, text) in self.texts.values() {
            for starts in self.starts(physical_volumes(text)) {
                placements.extend(logical_volumes(text, starts));
            }
        }
        placements.truncate(PLACEMENTS_MAX);
        placements
    }
}

/// A partition: its number, its first sector, and how many it has.
type Numbered = (u32, u64, u64);

/// Returns the sector that a GPT header records as its own, and its partitions, as far as their
/// entries lie beside it.
fn gpt(
    device: &Arc<dyn BlockDevice>,
    at: Daddr,
    header: &[u8],
) -> Option<(ArraySector, Vec<Numbered>)> {
    let mut summed = header.get(..usize::try_from(le32(header, 12)?).ok()?)?.to_vec();
    summed.get_mut(16..20)?.fill(0);
    (crc32fast::hash(&summed) == le32(header, 16)?).then_some(())?;
    let (own, other, entries) = (le64(header, 24)?, le64(header, 32)?, le64(header, 72)?);
    // Entries lie behind the first header, and before the one at the end.
    let first = at.0.checked_add(entries)?.checked_sub(own)?;
    let last = own.max(other);
    let count = ENTRIES.min(usize::try_from(le32(header, 80)?).ok()?);
    let mut found = Vec::new();
    for (number, i) in (1..).zip(0..count as u64) {
        let start = ByteOffset(first.checked_mul(512)?.checked_add(i * ENTRY as u64)?);
        let Some(entry) = read(&**device, start, ENTRY) else { break };
        let (first, end) = (le64(&entry, 32)?, le64(&entry, 40)?);
        let used = entry.iter().take(16).any(|byte| *byte != 0);
        if used && first > 1 && first <= end && end < last {
            found.push((number, first, end - first + 1));
        }
    }
    (own < 1 << 54).then_some((ArraySector(own), found))
}

/// The first logical partition's number.
const FIRST_LOGICAL: u32 = 5;

/// One entry of an MBR: a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MbrEntry {
    kind: u8,
    first: u64,
    sectors: u64,
}

/// The entries of an MBR; `None` for unused ones.
type Table = [Option<MbrEntry>; 4];

/// Returns the entries of an MBR; `None` if it protects a GPT, is empty or invalid.
fn mbr(sector: &[u8]) -> Option<Table> {
    let mut table = [None; 4];
    for (slot, entry) in table.iter_mut().zip(sector.get(446..510)?.chunks_exact(16)) {
        let (first, sectors) = (u64::from(le32(entry, 8)?), u64::from(le32(entry, 12)?));
        match (entry.first()?, entry.get(4)?) {
            (0, 0) => {}
            (0 | 0x80, kind) if *kind != 0xee && first > 0 && sectors > 0 => {
                *slot = Some(MbrEntry { kind: *kind, first, sectors });
            }
            _ => return None,
        }
    }
    table.iter().any(Option::is_some).then_some(table)
}

/// Returns true if a metadata text of LVM may begin here: `name {`, and the group's id on the next
/// line.
fn is_text(sector: &[u8]) -> bool {
    let name =
        sector.iter().take_while(|c| c.is_ascii_alphanumeric() || b"+_.-".contains(c)).count();
    name > 0 && sector.get(name..).is_some_and(|rest| rest.starts_with(b" {\nid = \""))
}

/// Returns the id and the sectors of each physical volume in a text.
fn physical_volumes(text: &str) -> Vec<(String, u64)> {
    let parsed = parse(text).unwrap_or_default();
    let groups = parsed.sections().filter_map(|(_, group)| group.section("physical_volumes"));
    let volume = |(_, pv): (&str, &Section)| {
        Some((pv.text("id")?.replace('-', ""), pv.number("dev_size").unwrap_or(0)))
    };
    let volumes =
        groups.flat_map(|volumes| volumes.sections().filter_map(volume).collect::<Vec<_>>());
    volumes.take(PLACEMENTS_MAX).collect()
}

/// Returns the logical volumes of a text whose physical volumes begin at these sectors.
fn logical_volumes(text: &str, starts: Vec<(String, u64)>) -> Vec<Placement> {
    let here = |(id, start): (String, u64)| {
        let offset = ByteOffset(start.saturating_mul(512));
        PhysicalVolume { offset, id, texts: vec![text.to_owned()] }
    };
    let physical_volumes = starts
        .iter()
        .filter_map(|(id, start)| Some((PvId::try_from(id.as_bytes()).ok()?, ArraySector(*start))));
    let physical_volumes: Vec<_> = physical_volumes.collect();
    let here: Vec<_> = starts.into_iter().map(here).collect();
    let sectors = |(at, len): (ByteOffset, ByteLen)| (len.0 / 512, ArraySector(at.0 / 512));
    let mut placements = Vec::new();
    for group in groups(&here) {
        for volume in group.volumes {
            let Ok(pieces) = volume.pieces else { continue };
            let pieces = pieces.into_iter().map(sectors).collect();
            let part = Part::Volume { group: group.name.clone(), volume: volume.name };
            let physical_volumes = physical_volumes.clone();
            placements.push(Placement { part: part.to_string(), pieces, physical_volumes });
        }
    }
    placements
}
