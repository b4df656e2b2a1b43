//! An `xfs_growfs` that was interrupted. Linux writes the headers of new groups first, with copies
//! of the old superblock that are marked as unfinished; then one transaction with the larger
//! superblock; then all copies.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_format::sb::{CRC_OFFSET, Superblock};
use xfskit_repair::Repair;
use xfskit_test_support::image::Image as LinuxImage;
use xfskit_test_support::{Mount, Need, Scratch, Xfsprogs, kept, needs, tools, verify, volumes};
use xfskit_units::{AgNumber, ByteOffset};
use zerocopy::IntoBytes;

use crate::common::check_all;
use crate::survivors::content;

/// Bytes of a group.
const GROUP: u64 = 40 << 20;
/// Groups before and after.
const GROUPS: [u64; 2] = [3, 5];

/// A volume before and after it was grown, on devices of the larger size.
struct Grown {
    small: Vec<u8>,
    large: Vec<u8>,
}

fn superblock(bytes: &[u8], agno: u64) -> &Superblock {
    let at = usize::try_from(agno * GROUP).unwrap();
    Superblock::parse(&bytes[at..at + 512]).unwrap()
}

fn group(agno: u64) -> Range<usize> {
    let start = usize::try_from(agno * GROUP).unwrap();
    start..start + usize::try_from(GROUP).unwrap()
}

/// Writes a superblock to a group.
fn put(bytes: &mut [u8], agno: u64, sb: &Superblock) {
    let at = usize::try_from(agno * GROUP).unwrap();
    let sector = &mut bytes[at..at + 512];
    let len = sb.as_bytes().len();
    sector[..len].copy_from_slice(sb.as_bytes());
    xfskit_crc::update(sector, CRC_OFFSET);
}

impl Grown {
    fn new() -> Self {
        let [before, after] = GROUPS;
        let options = |groups: u64| format!("agsize=40m,size={}m", groups * 40);
        let make = |groups| {
            let options = options(groups);
            let dev = volumes::make(
                groups * GROUP,
                &[("-d", &options), ("-l", "size=16m"), ("-m", "rmapbt=1")],
            );
            content(&*dev)
        };
        let (mut small, other) = (make(before), make(after));
        small.resize(other.len(), 0);
        let mut large = small.clone();
        // New groups are empty, as mkfs makes them.
        large[group(before).start..].copy_from_slice(&other[group(before).start..]);
        let mut sb = superblock(&small, 0).clone();
        let free = |bytes: &[u8]| superblock(bytes, 0).fdblocks.get();
        sb.dblocks = (sb.dblocks.get() / before * after).into();
        sb.agcount = u32::try_from(after).unwrap().into();
        let same_log = superblock(&other, 0).logblocks == sb.logblocks;
        assert!(same_log, "journals of both sizes: the free space differs by the new groups");
        sb.fdblocks = free(&other).into();
        (0..after).for_each(|agno| put(&mut large, agno, &sb));
        let dev = kept::memory(&large);
        let (report, findings) = check_all(&dev);
        assert!(report.clean(), "{findings:#?}");
        Self { small, large }
    }
}

/// Repairs without loss, and verifies. Returns the superblock then.
fn repaired(bytes: &[u8], what: &str) -> (Superblock, usize) {
    let dev = Arc::new(kept::memory(bytes));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    prepared.commit(&*dev, None).unwrap();
    verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
    let after = content(&*dev);
    let sector = &after[..512];
    let sb = Superblock::verify(sector, AgNumber(0)).unwrap().clone();
    (sb, prepared.plan().steps.len())
}

#[test]
fn an_interrupted_growth_leaves_a_volume_of_the_old_or_the_new_size() {
    let Grown { small, large } = Grown::new();
    let [before, after] = GROUPS;
    let old = superblock(&small, 0).clone();
    let new = superblock(&large, 0).clone();
    // The headers of new groups are there, and the superblock is the old one.
    let mut started = small.clone();
    started[group(before).start..].copy_from_slice(&large[group(before).start..]);
    let (sb, steps) = repaired(&started, "only headers");
    assert_eq!((sb.dblocks, sb.agcount, steps), (old.dblocks, old.agcount, 0));
    // The superblock is the new one, and all copies are old; those of new groups are unfinished.
    let mut unfinished = old.clone();
    unfinished.inprogress = 1;
    let mut committed = large.clone();
    (1..before).for_each(|agno| put(&mut committed, agno, &old));
    (before..after).for_each(|agno| put(&mut committed, agno, &unfinished));
    let (sb, steps) = repaired(&committed, "old copies");
    assert_eq!((sb.dblocks, sb.agcount), (new.dblocks, new.agcount));
    assert!(steps > 0);
    // Some copies are new.
    for done in 1..after {
        let mut some = committed.clone();
        (1..=done).for_each(|agno| put(&mut some, agno, &new));
        let (sb, _) = repaired(&some, "some copies");
        assert_eq!((sb.dblocks, sb.agcount), (new.dblocks, new.agcount), "{done} copies");
    }
}

/// Linux itself, stopped behind the transaction, with copies that it had not written yet.
#[test]
fn a_growth_in_which_linux_was_stopped_is_finished() {
    let (true, Some(tools)) = (needs(&[Need::Xfsprogs, Need::Mount]), Xfsprogs::installed()) else {
        return;
    };
    let scratch = Scratch::new("repair-grow");
    let image = LinuxImage::sparse(&scratch, "volume.img", 512 << 20);
    tools.mkfs(&image, &["-d", "size=300m,agcount=4"]).unwrap();
    let mount = Mount::read_write(&image, &scratch).unwrap();
    for n in 0..50 {
        std::fs::write(mount.path().join(format!("file-{n}")), vec![7; n * 100]).unwrap();
    }
    tools::run(Command::new("sync").arg("-f").arg(mount.path())).unwrap();
    let place = |agno: u64| ByteOffset(agno * (75 << 20));
    let mut copies = [[0; 512]; 4];
    let file = File::open(image.path()).unwrap();
    for (agno, copy) in (0..).zip(&mut copies) {
        file.read_exact_at(copy, place(agno).0).unwrap();
    }
    tools::run(Command::new("xfs_growfs").arg(mount.path())).unwrap();
    mount.shutdown(true).unwrap();
    mount.unmount().unwrap();
    let dev: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap());
    for (agno, copy) in (0..).zip(&copies).skip(1) {
        dev.write_at(place(agno), copy).unwrap();
    }
    let prepared = Repair::new().prepare(Arc::clone(&dev)).unwrap();
    assert!(prepared.is_clean(), "{:#?}\n{:#?}", prepared.left(), prepared.plan());
    for agno in 1..4 {
        assert!(prepared.plan().step(&format!("superblock.{agno}")).is_some(), "{agno}");
    }
    prepared.commit(&*dev, None).unwrap();
    drop((prepared, dev));
    verify::volume(&image, &scratch).unwrap();
    let mut sector = [0; 512];
    file.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(Superblock::verify(&sector, AgNumber(0)).unwrap().agcount.get(), 7);
}

/// Not by Linux, but by a device that lost writes: the superblock is the new one, and the headers
/// of new groups are not there. The groups are empty then.
#[test]
fn new_groups_without_headers_are_made() {
    let Grown { large, .. } = Grown::new();
    let mut lost = large.clone();
    lost[group(GROUPS[0]).start..].fill(0);
    let (sb, steps) = repaired(&lost, "no headers");
    assert_eq!(sb.fdblocks, superblock(&large, 0).fdblocks);
    assert!(steps >= 2);
}
