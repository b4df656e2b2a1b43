//! Journals that xfskit wrote, recovered by the kernel.
//!
//! The kernel makes a volume and leaves it clean. The test edits copies of its structures by hand
//! to make a small change with items of all kinds, and writes it only to the journal. The kernel
//! recovers it, xfskit's recovery gives the same tree, and `xfs_repair -n` finds nothing.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use xfskit_format::inode::Dinode;
use xfskit_log::{FlushBefore, Payload};
use xfskit_recovery::open_log;
use xfskit_test_recovery::{JournalOnly, compare, shown};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs};
use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, Ino, LogBlock, Sectors, index};

/// Number of files whose modes change.
const FILES: usize = 1200;

/// Takes a free inode from the root directory's group, as creating a file does.
fn take_inode(volume: &JournalOnly, out: &mut Payload) -> Ino {
    let geo = &volume.geo;
    let agno = AgNumber(0);
    let sector = u64::try_from(geo.sectsize() / 512).unwrap();
    let agi_place = (Daddr(2 * sector), Sectors(sector));
    let mut agi = volume.read(agi_place);
    let mut taken = None;
    for root in [20, 328] {
        let agbno = AgBlock(be32(&agi, root));
        assert_eq!(be32(&agi, root + 4), 1, "a tree of one block");
        let place = (geo.agb_to_daddr(agno, agbno), geo.block_sectors());
        let mut block = volume.read(place);
        let (rec, bit) = free_slot(&block);
        let agino = AgIno(be32(&block, rec) + bit);
        assert_eq!(*taken.get_or_insert(agino), agino);
        block[rec + 7] -= 1;
        let free = u64::from_be_bytes(block[rec + 8..rec + 16].try_into().unwrap());
        block[rec + 8..rec + 16].copy_from_slice(&(free & !(1 << bit)).to_be_bytes());
        volume.log_chunk(out, place, &block, rec);
    }
    let freecount = be32(&agi, 28) - 1;
    agi[28..32].copy_from_slice(&freecount.to_be_bytes());
    volume.log_chunk(out, agi_place, &agi, 0);
    geo.agino_to_ino(agno, taken.unwrap())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the first record of an inode btree leaf with several free inodes, and the first of
/// these.
fn free_slot(block: &[u8]) -> (usize, u32) {
    let numrecs = usize::from(u16::from_be_bytes([block[6], block[7]]));
    let rec = (0..numrecs).map(|n| 56 + 16 * n).find(|&at| block[at + 7] > 1).expect("free inodes");
    let free = u64::from_be_bytes(block[rec + 8..rec + 16].try_into().unwrap());
    (rec, free.trailing_zeros())
}

/// Adds a name to a short-form directory.
fn add_name(dir: &mut [u8], fork: usize, name: &[u8], ino: Ino) {
    let size = index(u64::from_be_bytes(dir[56..64].try_into().unwrap()));
    let mut entry = vec![u8::try_from(name.len()).unwrap()];
    // An offset far beyond all others.
    entry.extend(0x300u16.to_be_bytes());
    entry.extend(name);
    entry.push(1);
    entry.extend(u32::try_from(ino.0).unwrap().to_be_bytes());
    dir[fork] += 1;
    dir[fork + size..fork + size + entry.len()].copy_from_slice(&entry);
    dir[56..64].copy_from_slice(&((size + entry.len()) as u64).to_be_bytes());
}

/// The files and directories that the test changes, as the mounted volume shows them.
struct Known {
    root: Ino,
    files: Vec<Ino>,
}

fn populate(root: &Path) -> Known {
    fs::create_dir(root.join("pool")).unwrap();
    let ino = |path: &Path| Ino(fs::symlink_metadata(path).unwrap().ino());
    let files = (0..FILES).map(|n| {
        let path = root.join(format!("pool/{n}"));
        File::create(&path).unwrap();
        ino(&path)
    });
    Known { files: files.collect(), root: ino(root) }
}

/// Writes `touch /created; chmod 0606 /pool/*` to the journal only.
fn change(volume: &mut JournalOnly, known: &Known) {
    let mut out = Payload::new();
    let new_ino = take_inode(volume, &mut out);
    let mut file = volume.inode(known.files[0]);
    file[152..160].copy_from_slice(&new_ino.0.to_be_bytes());
    file[92..96].copy_from_slice(&77u32.to_be_bytes());
    volume.log_inode(&mut out, new_ino, &file, true);
    let mut root = volume.inode(known.root);
    add_name(&mut root, 176, b"created", new_ino);
    volume.log_inode(&mut out, known.root, &root, true);
    for &ino in &known.files {
        let mut file = volume.inode(ino);
        assert!(Dinode::parse(&file, &volume.geo).unwrap().is_regular());
        file[2..4].copy_from_slice(&0o100_606_u16.to_be_bytes());
        volume.log_inode(&mut out, ino, &file, false);
    }
    let tail = volume.writer.next_lsn();
    volume.writer.append(&out, tail, FlushBefore::Data).unwrap();
}

#[test]
fn the_kernel_recovers_journals_that_xfskit_wrote() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let tools = Xfsprogs::installed().expect("xfsprogs");
    for (name, options, record_size, external) in [
        ("plain", &[][..], 32 * 1024, false),
        ("large-records", &[], 256 * 1024, false),
        ("small-records", &[], 16 * 1024, false),
        ("stripe-unit", &["-l", "su=65536"], 32 * 1024, false),
        ("sector-4k", &["-s", "size=4096"], 32 * 1024, false),
        ("block-1k", &["-b", "size=1024"], 32 * 1024, false),
        ("external", &[], 64 * 1024, true),
    ] {
        let scratch = Scratch::new(name);
        let mut image = Image::sparse(&scratch, "image", 400 << 20);
        let mut options = options.to_vec();
        let log_option;
        if external {
            image = image.with_external_log(64 << 20);
            log_option = format!("logdev={}", image.log().expect("a log").display());
            options.extend(["-l", &log_option]);
        }
        tools.mkfs(&image, &options).expect("mkfs");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        let known = populate(mount.path());
        mount.unmount().expect("unmount");
        let before = shown(&image, &scratch);

        let mut volume = JournalOnly::open(&image, record_size);
        change(&mut volume, &known);
        let stats = volume.writer.stats();
        eprintln!("{name}: {stats:?}");
        assert!(stats.records > 1);
        drop(volume);

        let replay = compare(name, &image, &scratch);
        assert_eq!(replay.transactions, 1, "{name}");
        let theirs = Image::copy(&image, "again.img");
        Mount::recover(&theirs, &scratch).expect("recovered");
        let mount = Mount::read_only(&theirs, &scratch).expect("mount");
        let created = fs::metadata(mount.path().join("created")).expect("it was created");
        assert_eq!(created.mode(), 0o100_644, "{name}");
        for n in 0..FILES {
            let file = fs::metadata(mount.path().join(format!("pool/{n}"))).expect("a file");
            assert_eq!(file.mode(), 0o100_606, "{name}: {n}");
        }
        mount.unmount().expect("unmount");
        assert!(!before.differences(&shown(&theirs, &scratch), 1).is_empty());
    }
}

/// Up to 2 MiB may be in flight to the device at once, whatever the number of records. A sector
/// that did not arrive therefore ends the journal, even twenty records behind the head.
#[test]
fn a_sector_that_did_not_arrive_ends_the_journal_for_the_kernel_and_xfskit() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("hole");
    let image = Image::sparse(&scratch, "image", 400 << 20);
    Xfsprogs::installed().expect("xfsprogs").mkfs(&image, &[]).expect("mkfs");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let known = populate(mount.path());
    mount.unmount().expect("unmount");
    let before = shown(&image, &scratch);

    let mut volume = JournalOnly::open(&image, 16 * 1024);
    let head = volume.writer.next_lsn().block();
    change(&mut volume, &known);
    assert!(volume.writer.stats().records > 16);
    let log = open_log(&*volume.dev, None, &volume.geo).expect("a journal");
    log.ring().write(LogBlock(head.0 + 40), &[0; 512]).expect("written");
    drop(log);
    drop(volume);

    let replay = compare("hole", &image, &scratch);
    assert_eq!(replay.transactions, 0);
    let theirs = image.copy("again.img");
    Mount::recover(&theirs, &scratch).expect("recovered");
    assert_eq!(before.differences(&shown(&theirs, &scratch), 20), Vec::<String>::new());
}
