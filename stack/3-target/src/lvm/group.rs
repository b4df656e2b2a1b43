//! Volume groups, logical volumes and their extents.

use std::collections::BTreeMap;

use xfskit_units::{ByteLen, ByteOffset};

use super::label::PhysicalVolume;
use super::text::{Section, Value, parse};

/// Most segments of one volume that are read.
const SEGMENTS_MAX: u64 = 1 << 20;
/// The unit of all sizes in the text, in bytes.
const SECTOR: u64 = 512;

/// A volume group, some of whose physical volumes were found.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Sequence number of the text.
    pub seqno: u64,
    /// Its logical volumes in the order of the text, without those for LVM's own use.
    pub volumes: Vec<Volume>,
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its length in bytes, by its segments.
    pub len: ByteLen,
    /// The pieces of the disk that hold its bytes, or why they are unknown: an unsupported segment
    /// type, or a missing physical volume.
    pub pieces: Result<Vec<(ByteOffset, ByteLen)>, String>,
}

/// Returns the volume groups whose physical volumes are among `found`, by name.
pub fn groups(found: &[PhysicalVolume]) -> Vec<Group> {
    let mut newest: BTreeMap<String, (u64, Section)> = BTreeMap::new();
    for text in found.iter().flat_map(|pv| &pv.texts).filter_map(|text| parse(text)) {
        for (name, section) in text.sections() {
            let Some(seqno) = section.number("seqno") else { continue };
            if newest.get(name).is_none_or(|(known, _)| *known < seqno) {
                newest.insert(name.to_owned(), (seqno, section.clone()));
            }
        }
    }
    newest
        .into_iter()
        .map(|(name, (seqno, section))| Group {
            name,
            seqno,
            volumes: volumes(&section, found).unwrap_or_default(),
        })
        .collect()
}

/// Where the extents of one physical volume begin on the disk.
type ExtentStarts = BTreeMap<String, Option<ByteOffset>>;

fn volumes(group: &Section, found: &[PhysicalVolume]) -> Option<Vec<Volume>> {
    let extent = group.number("extent_size")?.checked_mul(SECTOR)?;
    let starts: ExtentStarts = group
        .section("physical_volumes")?
        .sections()
        .map(|(name, pv)| (name.to_owned(), extents_start(pv, found)))
        .collect();
    let Some(volumes) = group.section("logical_volumes") else { return Some(Vec::new()) };
    let visible = volumes.sections().filter(|(_, lv)| {
        let status = lv.list("status").unwrap_or_default();
        status.contains(&Value::Text("VISIBLE".into()))
    });
    Some(visible.map(|(name, lv)| volume(name, lv, extent, &starts)).collect())
}

/// Returns where the first extent of a physical volume lies on the disk; `None` if the physical
/// volume was not found.
fn extents_start(pv: &Section, found: &[PhysicalVolume]) -> Option<ByteOffset> {
    let id = pv.text("id")?.replace('-', "");
    let here = found.iter().find(|pv| pv.id == id)?;
    here.offset.checked_add(pv.number("pe_start")?.checked_mul(SECTOR)?)
}

fn volume(name: &str, lv: &Section, extent: u64, starts: &ExtentStarts) -> Volume {
    let count = lv.number("segment_count").unwrap_or(0).min(SEGMENTS_MAX);
    let segments: Vec<&Section> =
        (1..=count).map_while(|i| lv.section(&format!("segment{i}"))).collect();
    let extents = segments
        .iter()
        .fold(0u64, |sum, s| sum.saturating_add(s.number("extent_count").unwrap_or(0)));
    let pieces = if segments.is_empty() || segments.len() as u64 != count {
        Err("some of its segments are missing".into())
    } else {
        let mut next = 0;
        segments.iter().map(|segment| piece(segment, &mut next, extent, starts)).collect()
    };
    Volume { name: name.to_owned(), len: ByteLen(extents.saturating_mul(extent)), pieces }
}

/// Returns where one segment lies on the disk. `next` is the extent at which it must begin.
fn piece(
    segment: &Section,
    next: &mut u64,
    extent: u64,
    starts: &ExtentStarts,
) -> Result<(ByteOffset, ByteLen), String> {
    let kind = segment.text("type").unwrap_or("of no type");
    let stripes = segment.number("stripe_count").unwrap_or(0);
    match (kind, stripes) {
        ("striped", 1) => {}
        ("striped", n) => return Err(format!("segments over {n} stripes are not supported")),
        (kind, _) => return Err(format!("segments of type {kind} are not supported")),
    }
    let malformed = || "its metadata are invalid".to_owned();
    let count = segment.number("extent_count").ok_or_else(malformed)?;
    if segment.number("start_extent") != Some(*next) {
        return Err(malformed());
    }
    *next = next.checked_add(count).ok_or_else(malformed)?;
    let Some([Value::Text(pv), Value::Number(first)]) = segment.list("stripes") else {
        return Err(malformed());
    };
    let start = starts
        .get(pv)
        .ok_or_else(malformed)?
        .ok_or_else(|| format!("its physical volume {pv} is missing"))?;
    let offset = first.checked_mul(extent).and_then(|within| start.checked_add(within));
    let len = count.checked_mul(extent).map(ByteLen);
    offset.zip(len).ok_or_else(malformed)
}
