//! Compares the bytes of new volumes with checksums of mkfs.xfs, and verifies them.

use std::time::{Duration, Instant};

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::Ctx;
use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::agf::{self, Agf};
use xfskit_format::agfl::{self, Agfl};
use xfskit_format::agi::{self, Agi};
use xfskit_format::sb::Superblock;
use xfskit_mkfs::layout::AgLayout;
use xfskit_mkfs::{DeviceFacts, Error, Options, Plan, Stamp, make, plan};
use xfskit_test_support::verify;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Daddr, Sectors, Uuid, index};

const UUID: &str = "11111111-2222-3333-4444-555555555555";

fn planned(size: u64, words: &str) -> Plan {
    let mut options = Options::default();
    for pair in words.split_whitespace().collect::<Vec<_>>().chunks(2) {
        options.sub(pair[0], pair[1]).unwrap();
    }
    let uuid = Uuid::parse_str(UUID).unwrap();
    let stamp = Stamp { uuid, seconds: 1_000_000_000, nanoseconds: 0, generation: 7 };
    plan(&options, &DeviceFacts::file(ByteLen(size)), stamp).unwrap()
}

fn made(size: u64, words: &str) -> (Plan, MemDevice) {
    let plan = planned(size, words);
    let device = MemDevice::new(ByteLen(size));
    make(&device, None, &plan).unwrap();
    (plan, device)
}

fn read(device: &MemDevice, daddr: Daddr, len: Sectors) -> Vec<u8> {
    let mut bytes = vec![0; index(len.byte_len().0)];
    device.read_at(daddr.byte_offset(), &mut bytes).unwrap();
    bytes
}

/// Returns the four bytes at `at`, as `xfs_db` prints a checksum.
fn word(device: &MemDevice, at: u64) -> u32 {
    let mut bytes = [0; 4];
    device.read_at(ByteOffset(at), &mut bytes).unwrap();
    u32::from_be_bytes(bytes)
}

/// Runs every verifier for headers and roots.
fn verify(plan: &Plan, device: &MemDevice) {
    let geo = &plan.geometry;
    for agno in geo.ags() {
        let sector = |n| read(device, geo.ag_header_daddr(agno, n), geo.sect_sectors());
        let sb = sector(0);
        let sb = Superblock::verify(&sb, agno).unwrap();
        assert_eq!(sb.inprogress, u8::from(agno != AgNumber(0)));
        let ctx = |at| Ctx::new(geo, at);
        let agf_bytes = sector(1);
        let agf = Agf::verify(&agf_bytes, &ctx(agf::location(geo, agno)), agno).unwrap();
        Agi::verify(&sector(2), &ctx(agi::location(geo, agno)), agno).unwrap();
        let agfl_bytes = sector(3);
        let agfl = Agfl::verify(&agfl_bytes, &ctx(agfl::location(geo, agno)), agno).unwrap();
        let layout = AgLayout::of(geo, agno);
        assert_eq!(agfl.active(agf).count(), layout.agfl_len() as usize);
        for &(tree, agbno) in &layout.roots {
            let block = read(device, geo.agb_to_daddr(agno, agbno), geo.block_sectors());
            let ctx = ctx(tree.location(geo, agno, agbno));
            let block = Block::verify(&block, &ctx, tree, agno).unwrap();
            if tree == Tree::Bno {
                assert_eq!(block.numrecs, layout.free.len());
            }
        }
    }
}

#[test]
fn checksums_are_those_of_mkfs_xfs() {
    // 300 MiB as mkfs.xfs 6.1 makes it.
    let (_, device) = made(300 << 20, "-m rmapbt=0 -i nrext64=0");
    assert_eq!(word(&device, 224), 0x1cfe_77b7, "superblock");
    assert_eq!(word(&device, 512 + 216), 0x04dd_aad3, "AGF 0");
    assert_eq!(word(&device, 1536 + 32), 0xdc45_93ba, "AGFL 0");
    assert_eq!(word(&device, 4096 + 52), 0x8327_856d, "bnobt 0");
    assert_eq!(word(&device, 2 * 4096 + 52), 0x6b60_3098, "cntbt 0");
    assert_eq!(word(&device, 3 * 4096 + 52), 0x2b44_f92d, "inobt 0");
    assert_eq!(word(&device, 4 * 4096 + 52), 0x111a_7446, "finobt 0");
    assert_eq!(word(&device, 5 * 4096 + 52), 0xab8d_5bd5, "refcountbt 0");
    let ag2 = 2 * 19200 * 4096;
    assert_eq!(word(&device, ag2 + 4096 + 52), 0x7521_bf69, "bnobt of the log's group");
    // 1 GiB as mkfs.xfs 6.13 makes it.
    let (_, device) = made(1 << 30, "");
    let ag = 65536 * 4096;
    assert_eq!(word(&device, 224), 0x3c32_328c, "superblock");
    assert_eq!(word(&device, ag + 224), 0x331a_6996, "superblock 1, which names the root");
    assert_eq!(word(&device, 2 * ag + 224), 0x0277_7b8a, "superblock 2, which does not");
    assert_eq!(word(&device, 512 + 216), 0x6817_0a6a, "AGF 0");
    assert_eq!(word(&device, 1024 + 312), 0xecfa_8df4, "AGI 0");
    assert_eq!(word(&device, 5 * 4096 + 52), 0x7506_a9cd, "rmapbt 0");
    // 10 GiB as mkfs.xfs 7.2 makes it.
    let (_, device) = made(10 << 30, "-n parent=1 -m autofsck=1");
    assert_eq!(word(&device, 224), 0x4f06_2086, "superblock");
}

#[test]
fn every_header_and_root_passes_its_verifier() {
    for (size, words) in [
        (16 << 20, ""),
        (64 << 20, "-m rmapbt=0,reflink=0,finobt=0 -i sparse=0,nrext64=0"),
        (1 << 30, "-b size=1k"),
        (1 << 30, "-s size=4096 -d su=48k,sw=3"),
        (1 << 30, "-d su=64k,sw=4 -i size=2048"),
        (2 << 30, "-b size=64k -n parent=1"),
        (2 << 30, "-b size=64k -m rmapbt=0"),
        (10 << 30, "-l agnum=0 -m autofsck=check -L twelve_bytes"),
        (3 << 40, "-b size=32k -d agcount=7 -n version=ci"),
    ] {
        let (plan, device) = made(size, words);
        verify(&plan, &device);
        // Reading the larger ones takes long.
        if size <= 2 << 30 {
            verify::device(&device).unwrap_or_else(|why| panic!("{words}: {why}"));
        }
    }
}

#[test]
fn a_volume_of_500_tb_takes_a_moment_and_little_space() {
    let begun = Instant::now();
    let (plan, device) = made(500 << 40, "");
    let took = begun.elapsed();
    assert_eq!(plan.geometry.agcount, 500);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(device.resident() < ByteLen(64 << 20), "{}", device.resident());
    verify(&plan, &device);
}

#[test]
fn existing_contents_are_not_overwritten_without_force() {
    let device = MemDevice::new(ByteLen(64 << 20));
    let mut plan = planned(64 << 20, "");
    for (offset, magic, what) in [
        (0, &b"XFSB"[..], "an XFS filesystem"),
        (0x438, &[0x53, 0xef], "an ext2/ext3/ext4 filesystem"),
        (0x10040, b"_BHRfS_M", "a btrfs filesystem"),
        (0xff6, b"SWAPSPACE2", "a swap area"),
        (510, &[0x55, 0xaa], "a partition table"),
        (512, b"EFI PART", "a GPT partition table"),
        (0x218, b"LVM2 001", "an LVM physical volume"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member"),
        ((64 << 20) - 8192, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member"),
        ((64 << 20) - 65536, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member"),
    ] {
        device.write_zeroes(ByteOffset(0), ByteLen(64 << 20)).unwrap();
        device.write_at(ByteOffset(offset), magic).unwrap();
        match make(&device, None, &plan) {
            Err(Error::Occupied { what: found }) => assert_eq!(found, what),
            other => panic!("{what}: {other:?}"),
        }
    }
    plan.force = true;
    make(&device, None, &plan).unwrap();
    verify(&plan, &device);
}

#[test]
fn superblocks_of_an_older_volume_are_erased() {
    let device = MemDevice::new(ByteLen(1 << 30));
    for (words, force) in [("-d agcount=16 -m rmapbt=0", false), ("-d agcount=4", true)] {
        let mut plan = planned(1 << 30, words);
        (plan.force, plan.discard) = (force, false);
        make(&device, None, &plan).unwrap();
    }
    for agno in 1..16 {
        let magic = word(&device, agno * (1 << 26));
        assert_eq!(magic, if agno % 4 == 0 { 0x5846_5342 } else { 0 }, "group {agno}");
    }
}

#[test]
fn the_same_plan_makes_the_same_bytes() {
    let [a, b] = [made(64 << 20, "").1, made(64 << 20, "").1];
    let all = Sectors((64 << 20) / 512);
    assert!(read(&a, Daddr(0), all) == read(&b, Daddr(0), all));
}
