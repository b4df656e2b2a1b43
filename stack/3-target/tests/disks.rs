//! Tests with disks made by sfdisk, sgdisk and LVM itself (`tests/images/target/make.sh`), and with
//! random bytes.

use std::path::PathBuf;
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, MemDevice, OpenMode};
use xfskit_target::lvm::{groups, physical_volume};
use xfskit_target::{Error, Found, Target, discover, open, open_unchecked};
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset};

/// Returns the sectors of a fixture that are not zero, with their offsets.
fn sectors(name: &str) -> (u64, Vec<(u64, Vec<u8>)>) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/images/target").join(name);
    let bytes = std::fs::read(path).unwrap();
    let size = name.split(['-', '.']).nth(1).unwrap().parse().unwrap();
    let sectors = bytes
        .chunks(520)
        .map(|c| (u64::from_le_bytes(c[..8].try_into().unwrap()), c[8..].to_vec()));
    (size, sectors.collect())
}

fn fill(device: &dyn BlockDevice, sectors: &[(u64, Vec<u8>)]) {
    for (offset, bytes) in sectors {
        device.write_at(ByteOffset(*offset), bytes).unwrap();
    }
}

fn disk(name: &str) -> MemDevice {
    let (size, sectors) = sectors(name);
    let disk = MemDevice::new(ByteLen(size));
    fill(&disk, &sectors);
    disk
}

/// Returns a fixture as a file, and its path.
fn image(name: &str) -> (tempfile::TempDir, String) {
    let (size, sectors) = sectors(name);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    fill(&FileDevice::create(&path, ByteLen(size)).unwrap(), &sectors);
    (dir, path.to_str().unwrap().to_owned())
}

fn lines(found: &[Found]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

const MBR: &str = "mbr-67108864.sectors";
const GPT: &str = "gpt-67108864.sectors";
const GPT4K: &str = "gpt4k-67108864.sectors";
const LVM: &str = "lvm-100663296.sectors";

#[test]
fn mbr_partitions_are_found_with_the_logical_ones_from_five() {
    let found = discover(&disk(MBR));
    assert_eq!(
        lines(&found),
        [
            "p1: XFS, 2 MiB",
            "p2: MBR type 82 (Linux swap), 2 MiB",
            "p5: MBR type 83 (Linux), 2 MiB",
            "p6: XFS, 4 MiB",
            "p7: MBR type 8e (Linux LVM), 1 MiB",
        ]
    );
    let starts: Vec<u64> = found.iter().map(|f| f.offset.0 / 512).collect();
    assert_eq!(starts, [2048, 8192, 18_432, 24_576, 34_816]);
}

#[test]
fn gpt_partitions_are_found_with_their_types_and_names() {
    let found = discover(&disk(GPT));
    assert_eq!(lines(&found), ["p1: GPT EFI system \"EFI system\", 1 MiB", "p3: XFS, 20 MiB"]);
    assert_eq!(found[1].kind, "GPT Linux filesystem \"root\"");
}

#[test]
fn a_gpt_on_sectors_of_4096_bytes_is_found_in_an_image() {
    let found = discover(&disk(GPT4K));
    assert_eq!(lines(&found), ["p1: XFS, 4 MiB"]);
    assert_eq!(found[0].offset, ByteOffset(512 * 4096));
}

#[test]
fn a_damaged_gpt_is_read_from_its_copy_at_the_end() {
    for damaged in [512 + 20, 1024 + 32] {
        let disk = disk(GPT);
        disk.write_at(ByteOffset(damaged), &[0xff; 4]).unwrap();
        assert_eq!(lines(&discover(&disk)).len(), 2);
    }
}

#[test]
fn an_old_gpt_under_a_new_mbr_does_not_count() {
    let disk = disk(GPT);
    fill(&disk, &sectors(MBR).1[..1]);
    assert!(lines(&discover(&disk))[0].starts_with("p1: MBR type 83"));
}

#[test]
fn logical_volumes_are_found_over_the_physical_volumes_of_one_image() {
    let found = discover(&disk(LVM));
    assert_eq!(
        lines(&found),
        [
            "p1: GPT Linux filesystem, 4 MiB",
            "p2: GPT Linux LVM, 40 MiB",
            "p3: GPT Linux LVM, 40 MiB",
            "lv:vg0/root: XFS, 28 MiB",
            "lv:vg0/swap-a: LVM volume, 8 MiB",
            "lv:vg0/striped: LVM volume (segments over 2 stripes are not supported), 8 MiB",
        ]
    );
}

#[test]
fn a_volume_of_several_segments_reads_in_its_own_order() {
    let (_dir, path) = image(LVM);
    let file = FileDevice::open(&path, OpenMode::ReadWrite).unwrap();
    let extent = 4u64 << 20;
    let (pv0, pv1) = (16_384 * 512 + (1 << 20), 102_400 * 512 + (1 << 20));
    // root: extents 2 to 4 of pv1, then 0 to 3 of pv0.
    file.write_at(ByteOffset(pv1 + 5 * extent - 3), b"end").unwrap();
    file.write_at(ByteOffset(pv0), b"begin").unwrap();
    drop(file);
    let target = Target::parse(&format!("{path}#lv:vg0/root")).unwrap();
    let root = open(&target, OpenMode::ReadOnly).unwrap();
    assert_eq!(root.size(), ByteLen(7 * extent));
    let mut buf = [0; 8];
    root.read_at(ByteOffset(3 * extent - 3), &mut buf).unwrap();
    assert_eq!(&buf, b"endbegin");
    let mut magic = [0; 4];
    root.read_at(ByteOffset(0), &mut magic).unwrap();
    assert_eq!(&magic, b"XFSB");
}

#[test]
fn a_volume_that_is_not_linear_is_refused_by_the_name_of_its_kind() {
    let (_dir, path) = image(LVM);
    let target = Target::parse(&format!("{path}#lv:vg0/striped")).unwrap();
    let error = open(&target, OpenMode::ReadOnly).unwrap_err();
    assert!(error.to_string().ends_with("segments over 2 stripes are not supported"), "{error}");
}

#[test]
fn a_volume_with_a_missing_physical_volume_names_it() {
    let disk = disk(LVM);
    disk.write_zeroes(ByteOffset(16_384 * 512), ByteLen(4096)).unwrap();
    let found = lines(&discover(&disk));
    assert!(found[3].contains("root"), "{found:?}");
    assert!(found[3].contains("its physical volume pv0 is missing"), "{found:?}");
}

#[test]
fn a_partition_opens_as_a_device_of_its_own() {
    let (_dir, path) = image(GPT);
    let target = Target::parse(&format!("{path}#p3")).unwrap();
    let device = open(&target, OpenMode::ReadWrite).unwrap();
    assert_eq!(device.size(), ByteLen(20 << 20));
    device.write_at(ByteOffset(4), b"mine").unwrap();
    drop(device);
    let whole = FileDevice::open(&path, OpenMode::ReadOnly).unwrap();
    let mut buf = [0; 8];
    whole.read_at(ByteOffset(8192 * 512), &mut buf).unwrap();
    assert_eq!(&buf, b"XFSBmine");
}

#[test]
fn a_disk_with_parts_is_refused_with_the_names_to_use() {
    let (_dir, path) = image(GPT);
    let whole = Target::parse(&path).unwrap();
    let error = open(&whole, OpenMode::ReadOnly).unwrap_err();
    assert!(matches!(error, Error::WhichPart { .. }));
    let text = error.to_string();
    assert!(text.contains(&format!("\n  {path}#p3: XFS, 20 MiB")), "{text}");
    assert!(open_unchecked(&whole, OpenMode::ReadOnly).is_ok(), "mkfs may have it");
    for part in ["p2", "lv:vg0/root"] {
        let target = Target::parse(&format!("{path}#{part}")).unwrap();
        let text = open(&target, OpenMode::ReadOnly).unwrap_err().to_string();
        assert!(text.starts_with(&format!("{path} has no part {part}; its parts are:")), "{text}");
    }
}

#[test]
fn a_volume_that_looks_like_a_disk_is_a_volume() {
    let disk = disk(MBR);
    disk.write_at(ByteOffset(0), b"XFSB").unwrap();
    assert!(discover(&disk).is_empty());
}

#[test]
fn memory_of_any_size_opens() {
    let target = Target::parse("mem:500T").unwrap();
    let device = open(&target, OpenMode::ReadWrite).unwrap();
    assert_eq!(device.size(), ByteLen(500 << 40));
}

#[test]
fn a_partition_beyond_the_end_of_a_cut_image_is_an_error() {
    let (_dir, path) = image(GPT);
    FileDevice::open(&path, OpenMode::ReadWrite).unwrap().resize(ByteLen(10 << 20)).unwrap();
    let target = Target::parse(&format!("{path}#p3")).unwrap();
    assert!(matches!(open(&target, OpenMode::ReadOnly), Err(Error::Device(_))));
}

/// Recomputes the checksums of a GPT header, an LVM label or a metadata header, so that the
/// mutation is not rejected by its checksum.
fn seal(sector: &mut [u8]) {
    let lvm_crc = |bytes: &[u8]| {
        let mut hasher = crc32fast::Hasher::new_with_initial(!0xf597_a6cf);
        hasher.update(bytes);
        !hasher.finalize()
    };
    if sector.starts_with(b"EFI PART") {
        sector[16..20].fill(0);
        let crc = crc32fast::hash(&sector[..92]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
    } else if sector.starts_with(b"LABELONE") {
        let crc = lvm_crc(&sector[20..]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
    } else if sector[4..].starts_with(b" LVM2 x[5A%r0N*>") {
        let crc = lvm_crc(&sector[4..]);
        sector[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn mutated_disks_are_read_or_refused_and_never_panic() {
    for (name, seed) in [(MBR, 1), (GPT, 2), (GPT4K, 3), (LVM, 4)] {
        let (size, sectors) = sectors(name);
        let mut random = Random::of_test(seed);
        for round in 0..3000 {
            let mut mutated = sectors.clone();
            for _ in 0..=random.below(4) {
                let sector = random.below(mutated.len());
                let sector = &mut mutated[sector].1;
                for _ in 0..=random.below(8) {
                    // Mutates where the fields are: the first bytes, or the end of an MBR.
                    let limit = random.pick(&[128, 512]);
                    let at = if random.below(4) == 0 {
                        440 + random.below(72)
                    } else {
                        random.below(limit)
                    };
                    sector[at] = {
                        let any = random.byte();
                        random.pick(&[0, 0xff, any])
                    };
                }
                if random.below(4) != 0 {
                    seal(sector);
                }
            }
            let disk: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(size)));
            fill(&disk, &mutated);
            let found = discover(&disk);
            assert!(found.len() < 2000, "{name} round {round}");
            drop(lines(&found));
        }
    }
}

#[test]
fn random_bytes_are_no_disk_and_never_panic() {
    let mut random = Random::of_test(5);
    for size in [0usize, 1, 511, 512, 513, 4096, 70_000] {
        let bytes: Vec<u8> = random.bytes(size);
        let disk = MemDevice::new(ByteLen(size as u64));
        disk.write_at(ByteOffset(0), &bytes).unwrap();
        assert!(discover(&disk).is_empty());
    }
}

#[test]
fn mutated_metadata_text_never_panics() {
    let disk = disk(LVM);
    let good: Vec<_> = [16_384u64, 102_400]
        .iter()
        .map(|sector| physical_volume(&disk, ByteOffset(sector * 512)).unwrap())
        .collect();
    assert_eq!(groups(&good)[0].seqno, 8, "vgcfgrestore counted one on");
    let mut random = Random::of_test(6);
    let tokens = ["{", "}", "[", "\"", "18446744073709551615", "0", "=", "#", " ", "1"];
    for _ in 0..3000 {
        let mut mutated = good.clone();
        for text in mutated.iter_mut().flat_map(|pv| &mut pv.texts) {
            for _ in 0..=random.below(6) {
                let at = random.below(text.len());
                let end = (at + random.below(8)).min(text.len());
                text.replace_range(at..end, random.pick(&tokens));
            }
        }
        for volume in groups(&mutated).iter().flat_map(|group| &group.volumes) {
            assert!(volume.pieces.as_ref().is_ok_and(|p| p.len() <= 2) || volume.pieces.is_err());
        }
    }
}
