//! Partition tables and LVM metadata: the layout of a disk.
//!
//! sfdisk, sgdisk and LVM made the disks (`tests/images/target`). An input is a choice of disk and
//! a list of [changes](crate::change) of its sectors, with recomputed checksums. If the choice is
//! one above the last disk, the input is LVM's metadata text itself.

use std::sync::{Arc, OnceLock};

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_format::bytes::le64;
use xfskit_target::{Target, discover, lvm, part_of};
use xfskit_units::{ByteLen, ByteOffset};

use crate::change;

/// Kept disks: name and size.
const DISKS: [(&str, u64); 4] = [
    ("mbr-67108864", 64 << 20),
    ("gpt-67108864", 64 << 20),
    ("gpt4k-67108864", 64 << 20),
    ("lvm-100663296", 96 << 20),
];
/// Most changes of one input.
const CHANGES_MAX: usize = 24;
/// Bytes read of each partition or logical volume.
const SAMPLE_LEN: usize = 4096;

/// A disk and its non-zero sectors.
#[derive(Debug)]
struct Disk {
    base: Arc<dyn BlockDevice>,
    sectors: Vec<ByteOffset>,
}

impl Disk {
    fn load(name: &str, size: u64) -> Self {
        let path = format!("{}/../images/target/{name}.sectors", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("a kept disk");
        let base = MemDevice::new(ByteLen(size));
        let mut sectors = Vec::new();
        for sector in bytes.chunks_exact(520) {
            let offset = ByteOffset(le64(sector, 0).expect("an offset"));
            base.write_at(offset, &sector[8..]).expect("memory");
            sectors.push(offset);
        }
        Self { base: Arc::new(base), sectors }
    }
}

fn disks() -> &'static [Disk] {
    static DISKS_LOADED: OnceLock<Vec<Disk>> = OnceLock::new();
    DISKS_LOADED.get_or_init(|| DISKS.iter().map(|(name, size)| Disk::load(name, *size)).collect())
}

/// Returns LVM's checksum.
fn lvm_crc(bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xf597_a6cf);
    hasher.update(bytes);
    (!hasher.finalize()).to_le_bytes()
}

/// Recomputes the checksum of a GPT header, an LVM label or a metadata area's header.
fn seal(sector: &mut [u8]) {
    if sector.starts_with(b"EFI PART") {
        sector[16..20].fill(0);
        let crc = crc32fast::hash(&sector[..92]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
    } else if sector.starts_with(b"LABELONE") {
        let crc = lvm_crc(&sector[20..]);
        sector[16..20].copy_from_slice(&crc);
    } else if sector[4..].starts_with(b" LVM2 x[5A%r0N*>") {
        let crc = lvm_crc(&sector[4..]);
        sector[..4].copy_from_slice(&crc);
    }
}

/// Recomputes the checksum of a GPT's entries, at the location that the header names, and stores it
/// in that header.
fn seal_table(disk: &dyn BlockDevice, sector: u64) {
    let mut header = vec![0; 512];
    disk.read_at(ByteOffset(sector), &mut header).expect("memory");
    let place = |at| xfskit_format::bytes::le32(&header, at).map(u64::from);
    let (Some(lba), Some(count), Some(len)) = (le64(&header, 72), place(80), place(84)) else {
        return;
    };
    let bytes = count * len;
    let fits = lba.checked_mul(sector).and_then(|at| at.checked_add(bytes));
    if bytes > 1 << 20 || fits.is_none_or(|end| end > disk.size().0) {
        return;
    }
    let mut table = vec![0; usize::try_from(bytes).expect("a megabyte")];
    disk.read_at(ByteOffset(lba * sector), &mut table).expect("memory");
    header[88..92].copy_from_slice(&crc32fast::hash(&table).to_le_bytes());
    seal(&mut header);
    disk.write_at(ByteOffset(sector), &header).expect("memory");
}

/// Finds the parts of a damaged disk and opens each.
pub fn parts(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let Some(disk) = disks().get(usize::from(choice & 7) % (DISKS.len() + 1)) else {
        return text(rest);
    };
    let copy: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(&disk.base)));
    for change in change::changes(rest, CHANGES_MAX) {
        let at = disk.sectors[change.which % disk.sectors.len()];
        let mut sector = [0; 512];
        copy.read_at(at, &mut sector).expect("memory");
        change.apply(&mut sector);
        if change.fixes_checksum() {
            seal(&mut sector);
        }
        copy.write_at(at, &sector).expect("memory");
    }
    if choice & 0x80 == 0 {
        for sector in [512, 4096] {
            seal_table(&copy, sector);
        }
    }
    sample(&copy);
}

/// Opens every part of a disk and reads its first bytes.
fn sample(disk: &Arc<dyn BlockDevice>) {
    let mut start = [0; SAMPLE_LEN];
    for found in discover(disk) {
        let Ok(target) = Target::parse(&format!("disk#{}", found.part)) else { continue };
        if let Ok(part) = part_of(&target, Arc::clone(disk)) {
            let _ = part.read_at(ByteOffset(0), &mut start);
            let _ = part.read_at(ByteOffset(part.size().0.saturating_sub(512)), &mut [0; 512]);
        }
    }
}

/// Parses LVM's metadata, as the text of the two physical volumes of the kept disk.
fn text(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    std::hint::black_box(lvm::text::parse(text));
    let disk = &disks()[3].base;
    let starts = [16_384u64, 102_400].map(|sector| ByteOffset(sector * 512));
    let volumes = starts.iter().filter_map(|&start| lvm::physical_volume(disk, start));
    let volumes: Vec<_> = volumes
        .map(|volume| lvm::PhysicalVolume { texts: vec![text.to_owned()], ..volume })
        .collect();
    std::hint::black_box(lvm::groups(&volumes));
}

/// Returns the seeds: each disk as it is, a change of each of its sectors, and its own text.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, disk) in (0u8..).zip(disks()) {
        seeds.push(vec![choice]);
        for which in 0..disk.sectors.len().min(80) {
            seeds.push(vec![choice, 0, u8::try_from(which).unwrap_or(0), 0, 8, 1, 0, 0]);
        }
    }
    let volume = lvm::physical_volume(&disks()[3].base, ByteOffset(16_384 * 512));
    for text in volume.into_iter().flat_map(|volume| volume.texts) {
        seeds.push([&[4], text.as_bytes()].concat());
    }
    seeds
}
