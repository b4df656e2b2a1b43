//! md superblocks and the structures that belong to them: bitmaps, bad block logs, partial parity
//! logs, journals. Each is decoded alone, and as a set that is assembled.
//!
//! Linux made the arrays (`tests/images/md`). Checksums are recomputed after changes.

use std::sync::{Arc, OnceLock};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_md::bitmap::{self, Bitmap};
use xfskit_md::journal;
use xfskit_md::superblock::{self, SUPERBLOCK_BYTES, Superblock, Version};
use xfskit_md::{Assembly, Member, assemble, assemble_by_force, bad_blocks, ppl};
use xfskit_test_arrays::Fixture;
use xfskit_units::{ByteOffset, Daddr};

use crate::change::{self, Change};

/// Kept arrays to damage.
const SETS: [&str; 19] = [
    "linear",
    "raid0-zones-original",
    "raid1-0.90",
    "raid1-1.0-bitmap",
    "raid1-1.1-bitmap",
    "raid1-1.2",
    "raid1-badblocks",
    "raid10-f2-3",
    "raid10-n2-bitmap",
    "raid10-o2-4",
    "raid4",
    "raid5-0.90",
    "raid5-journal",
    "raid5-ppl",
    "raid5-rebuilding",
    "raid5-reshape",
    "raid5-degraded",
    "raid6-dirty-bitmap-torn",
    "raid6-ddf-N-restart",
];
/// Most changes of one input.
const CHANGES_MAX: usize = 16;
/// The first bytes of a structure, which changes reach.
const REACH: usize = 4096;
/// Largest device that is read and written, in bytes: members of kept arrays have a few MiB.
const LARGEST: u64 = 256 << 20;

/// Decodes a superblock of the version that the first byte selects, or a bitmap, a bad block log,
/// or a log.
pub fn superblocks(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    let mends = choice & 0x80 == 0;
    match choice & 7 {
        kind @ 0..4 => {
            let version = Version::ALL[usize::from(kind) % Version::ALL.len()];
            bytes.resize(SUPERBLOCK_BYTES, 0);
            let Some(superblock) = Superblock::decode(version, &bytes, Daddr(8)) else { return };
            let bytes = if mends { superblock.encode() } else { bytes };
            let Some(superblock) = Superblock::decode(version, &bytes, Daddr(8)) else { return };
            if superblock.verify().is_ok() {
                call_accessors(&superblock);
                assert_eq!(superblock.encode(), bytes, "a sound superblock encodes as it was");
            }
        }
        4 | 5 => {
            if let Ok(bitmap) = Bitmap::decode(&bytes) {
                touch((bitmap.dirty(), bitmap.sectors_per_bit(), bitmap.covers(bitmap.count())));
                let again = Bitmap::decode(&bitmap.encode()).expect("what was encoded");
                assert_eq!(again.encode(), bitmap.encode());
            }
        }
        6 => {
            let Some((&shift, bytes)) = bytes.split_first() else { return };
            let ranges = bad_blocks::decode(bytes, shift);
            assert!(ranges.iter().all(|range| range.start < range.end));
            touch(bad_blocks::encode(&ranges, shift & 31, bytes.len() & !7));
        }
        _ => {
            bytes.resize(ppl::HEADER_BYTES, 0);
            if mends {
                seal_ppl(&mut bytes, [7; 16]);
            }
            touch(ppl::PplHeader::decode(&bytes, [7; 16]).map(|header| header.entries().len()));
        }
    }
}

/// Uses a value, so that the compiler does not remove the read.
fn touch<T>(value: T) {
    std::hint::black_box(value);
}

/// Calls every accessor of a superblock.
fn call_accessors(sb: &Superblock) {
    touch((sb.set_uuid(), sb.bitmap_uuid(), sb.device_uuid(), sb.name(), sb.ctime(), sb.utime()));
    touch((sb.events(), sb.level(), sb.layout(), sb.chunk(), sb.raid_disks(), sb.size()));
    touch((sb.data_offset(), sb.data_size(), sb.dev_number(), sb.role(), sb.max_dev()));
    touch((sb.resync_offset(), sb.recovery_offset(), sb.bitmap(), sb.bad_blocks(), sb.ppl()));
    touch((sb.reshape(), (0..sb.max_dev().min(512)).map(|i| sb.role_of(i)).collect::<Vec<_>>()));
}

/// Restores the identity and the checksum of a partial parity log's header.
fn seal_ppl(bytes: &mut [u8], set_uuid: [u8; 16]) {
    if bytes.len() >= ppl::HEADER_BYTES {
        bytes[512..516].copy_from_slice(&xfskit_crc::crc32c(&set_uuid).to_le_bytes());
        xfskit_crc::update(&mut bytes[..ppl::HEADER_BYTES], 532);
    }
}

/// Recomputes the checksum of a meta block of the journal.
fn seal_meta_block(bytes: &mut [u8], set_uuid: [u8; 16]) {
    if bytes.len() >= journal::BLOCK_BYTES {
        bytes[4..8].fill(0);
        let crc = !xfskit_crc::append(xfskit_crc::crc32c(&set_uuid), bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The area of a member that a change reaches.
#[derive(Clone, Copy, Debug)]
enum Area {
    Superblock,
    Bitmap,
    BadBlocks,
    Ppl,
    Journal,
}

impl Area {
    const ALL: [Self; 8] = [
        Self::Superblock,
        Self::Superblock,
        Self::Superblock,
        Self::Superblock,
        Self::Bitmap,
        Self::BadBlocks,
        Self::Ppl,
        Self::Journal,
    ];

    /// Returns the byte offset of the area on the member with this superblock.
    fn place(self, sb: &Superblock) -> Option<u64> {
        let at = match self {
            Self::Superblock => sb.at(),
            Self::Bitmap => sb.bitmap()?,
            Self::BadBlocks => sb.bad_blocks()?.at,
            Self::Ppl => sb.ppl()?.at,
            Self::Journal => Daddr(sb.data_offset().0),
        };
        Some(at.byte_offset().0)
    }

    fn seal(self, bytes: &mut Vec<u8>, sb: &Superblock, version: Version) {
        match self {
            Self::Superblock => {
                if let Some(changed) = Superblock::decode(version, bytes, sb.at()) {
                    *bytes = changed.encode();
                }
            }
            Self::Ppl => seal_ppl(bytes, sb.set_uuid()),
            Self::Journal => seal_meta_block(bytes, sb.set_uuid()),
            Self::Bitmap | Self::BadBlocks => {}
        }
    }
}

/// Applies one change to a member: two bits of `which` select the area.
fn damage(device: &dyn BlockDevice, change: Change) {
    let Ok(Some(found)) = superblock::read(device) else { return };
    let area = Area::ALL[change.which >> 8 & 7];
    let Some(at) = area.place(&found.superblock) else { return };
    let mut bytes = vec![0; REACH];
    if device.read_at(ByteOffset(at), &mut bytes).is_err() {
        return;
    }
    // The most significant fields of a superblock lie in its first bytes.
    change.apply(if change.which & 0x4000 == 0 { &mut bytes[..320] } else { &mut bytes });
    if change.fixes_checksum() {
        area.seal(&mut bytes, &found.superblock, found.version);
    }
    let _ = device.write_at(ByteOffset(at), &bytes);
}

fn sets() -> &'static [Vec<Arc<dyn BlockDevice>>] {
    static SETS_LOADED: OnceLock<Vec<Vec<Arc<dyn BlockDevice>>>> = OnceLock::new();
    SETS_LOADED.get_or_init(|| SETS.iter().map(|name| Fixture::open(name).devices()).collect())
}

/// Assembles a damaged set, reads from the array, and writes to it.
///
/// An input is a choice of set, a bit for each missing member, and a list of changes.
pub fn assembly(data: &[u8]) {
    let &[choice, missing, ref changes @ ..] = data else { return };
    let set = &sets()[usize::from(choice & 0x3f) % SETS.len()];
    let views: Vec<Arc<dyn BlockDevice>> =
        set.iter().map(|member| Arc::new(OverlayDevice::new(Arc::clone(member))) as _).collect();
    for change in change::changes(changes, CHANGES_MAX) {
        damage(&views[(change.which & 0xff) % views.len()], change);
    }
    let members = || -> Vec<Member> {
        let there = views.iter().enumerate().filter(|(i, _)| missing >> (i % 8) & 1 == 0);
        there.map(|(i, view)| Member { name: format!("m{i}"), device: Arc::clone(view) }).collect()
    };
    for member in members() {
        describe(&member.device);
    }
    if let Ok(found) = assemble(members()) {
        use_array(&found, choice & 0x80 != 0);
    } else if choice & 0x40 != 0
        && let Ok(found) = assemble_by_force(members())
    {
        use_array(&found, choice & 0x80 != 0);
    }
}

/// Reads all metadata of one member.
fn describe(device: &dyn BlockDevice) {
    let Ok(Some(found)) = superblock::read(device) else { return };
    let sb = &found.superblock;
    call_accessors(sb);
    if let Ok(Some(bitmap)) = Bitmap::read(device, sb) {
        touch((bitmap.dirty(), bitmap.superblock.state.get()));
    }
    if let Ok(ranges) = bad_blocks::read(device, sb) {
        touch(ranges.len());
    }
    touch(ppl::read(device, sb).is_ok());
}

/// Reads at several offsets, and writes the first bytes back, which changes only the array's
/// metadata.
fn use_array(found: &Assembly, write: bool) {
    touch((found.missing(), found.is_degraded(), found.is_dirty(), found.write_refusal()));
    touch((found.layout(), found.spares().len(), found.re_add_candidate("m0").is_some()));
    let mut bytes = vec![0; 64 << 10];
    if let Ok(array) = found.open() {
        let size = array.size().0;
        for at in [0, size / 3, size.saturating_sub(bytes.len() as u64)] {
            let _ = array.read_at(ByteOffset(at), &mut bytes);
        }
    }
    let large = found.geometry.array_size().byte_len().0 > LARGEST;
    if !write || large || found.write_refusal().is_some() {
        return;
    }
    if let Ok(array) = found.open_writable(1_700_000_000) {
        if array.read_at(ByteOffset(0), &mut bytes).is_ok() {
            let _ = array.write_at(ByteOffset(0), &bytes[..8192]);
        }
        let _ = array.flush();
    }
}

/// Returns the seeds of [`superblocks`].
pub fn superblock_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for member in sets().iter().flatten() {
        let Ok(Some(found)) = superblock::read(member) else { continue };
        let kind = Version::ALL.iter().position(|version| *version == found.version);
        let kind = u8::try_from(kind.expect("one of all")).expect("few versions");
        let own = found.superblock.own_bytes();
        seeds.push([&[kind], own.as_slice()].concat());
        let mut taken = |kind: u8, at: Option<u64>, len: usize| {
            let mut bytes = vec![0; len];
            if at.is_some_and(|at| member.read_at(ByteOffset(at), &mut bytes).is_ok()) {
                seeds.push([&[kind], bytes.as_slice()].concat());
            }
        };
        taken(4, Area::Bitmap.place(&found.superblock), bitmap::HEAD_BYTES + 64);
        taken(6, Area::BadBlocks.place(&found.superblock), 128);
        taken(7, Area::Ppl.place(&found.superblock), 640);
    }
    seeds.sort();
    seeds.dedup();
    seeds
}

/// Returns the seeds of [`assembly`].
pub fn assembly_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in (0u8..).take(SETS.len()) {
        for how in [0, 0x80] {
            seeds.push(vec![choice | how, 0]);
            seeds.push(vec![choice | how, 2]);
            for area in [0, 4, 5, 6, 7] {
                seeds.push(vec![choice | how, 0, area, 0, 0, 72, 1, 1, 0]);
                seeds.push(vec![choice | how, 0, area, 1, 0, 16, 3, 1, 0]);
            }
        }
    }
    seeds
}
