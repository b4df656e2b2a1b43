//! Blocks that several owners claim: the right one keeps them, and no other file changes.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_check::fork_map;
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{CRC_OFFSET, Dinode, Format};
use xfskit_repair::{AcceptLoss, Prepared, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{kept, verify};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, FilBlks, FsBlock, Ino};
use zerocopy::IntoBytes;

use crate::common::{Block, Image, check_all};

/// Byte of the data fork in an inode.
pub(crate) const FORK: usize = 176;
/// Kept images: with a rmapbt and shared blocks, without a rmapbt, with small blocks.
pub(crate) const IMAGES: [&str; 3] = ["v5", "v5-plain", "v5-1k"];

/// An inode with its map.
pub(crate) struct Found {
    pub ino: Ino,
    /// Its byte on the volume.
    pub at: usize,
    pub is_regular: bool,
    pub is_dir: bool,
    /// It has the flag reflink.
    pub has_flag: bool,
    /// Its map is in the inode.
    pub is_inline: bool,
    pub map: Vec<Extent>,
}

/// Returns the inodes in use that map blocks.
pub(crate) fn found(image: &Image, dev: &dyn BlockDevice) -> Vec<Found> {
    let blocks =
        image.metadata().into_iter().filter(|b| image.bytes[b.offset..].starts_with(b"IN"));
    let mut found = Vec::new();
    for block in blocks {
        let mut bytes = vec![0; block.len];
        dev.read_at(ByteOffset(block.offset as u64), &mut bytes).unwrap();
        let inode = Dinode::parse(&bytes, &image.geo).unwrap();
        let ino = Ino(inode.v3.unwrap().inumber.get());
        let map = fork_map(dev, &image.geo, &inode, ino, Fork::Data).extents;
        if !inode.is_free() && !map.is_empty() {
            let is_inline = inode.format() == Some(Format::Extents);
            let (is_regular, is_dir) = (inode.is_regular(), inode.is_dir());
            let has_flag = inode.is_reflink();
            let at = block.offset;
            found.push(Found { ino, at, is_regular, is_dir, has_flag, is_inline, map });
        }
    }
    found
}

/// Returns the content of all regular files but one, by inode.
fn contents(image: &Image, dev: &dyn BlockDevice, but: Ino) -> Vec<(Ino, Vec<u8>)> {
    let files = found(image, dev).into_iter().filter(|f| f.is_regular && f.ino != but);
    let content = |file: &Found| {
        let mut content = Vec::new();
        for extent in &file.map {
            let len = usize::try_from(extent.blockcount.0).unwrap() << image.geo.blocklog;
            let mut bytes = vec![0; len];
            dev.read_at(image.geo.fsb_to_byte(extent.startblock).unwrap(), &mut bytes).unwrap();
            content.extend_from_slice(&extent.startoff.0.to_be_bytes());
            content.extend(bytes);
        }
        content
    };
    files.map(|file| (file.ino, content(&file))).collect()
}

/// Returns the bytes of an image with a map in the inode of a file.
pub(crate) fn with_map(image: &Image, file: &Found, map: &[Extent]) -> Vec<u8> {
    let mut bytes = image.bytes.clone();
    let inode = &mut bytes[file.at..file.at + image.geo.inodesize()];
    for (at, extent) in map.iter().enumerate() {
        let at = FORK + at * 16;
        inode[at..at + 16].copy_from_slice(extent.encode().as_bytes());
    }
    xfskit_crc::update(inode, CRC_OFFSET);
    bytes
}

/// Repairs the volume in `bytes`, of which the map of a file is damaged, verifies it and that no
/// other file changed, and takes the repair back. Returns the plan, and the file's map after it.
pub(crate) fn repaired(
    image: &Image,
    name: &str,
    file: &Found,
    bytes: &[u8],
) -> (Prepared, Vec<Extent>) {
    let dev: Arc<MemDevice> = Arc::new(kept::memory(bytes));
    let repair = Repair::new().accept_loss(AcceptLoss::ALL);
    let prepared = repair.prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{name}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    let scratch = Scratch::new("repair-claims");
    let path = scratch.path().join("undo");
    let mut undo_file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
    prepared.commit(&*dev, Some(&mut undo_file)).unwrap();
    verify::device(&*dev).unwrap_or_else(|why| panic!("{name}: {why}"));
    let whole = kept::memory(&image.bytes);
    let (before, after) = (contents(image, &whole, file.ino), contents(image, &*dev, file.ino));
    assert_eq!(before.len(), after.len(), "{name}");
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after, "{name}: content of inode {}", before.0);
    }
    let map = found(image, &*dev).into_iter().find(|found| found.ino == file.ino);
    undo(&path, &*dev).unwrap();
    let mut restored = vec![0; bytes.len()];
    dev.read_at(ByteOffset(0), &mut restored).unwrap();
    assert!(restored == bytes, "{name}: undone");
    (prepared, map.map_or(Vec::new(), |found| found.map))
}

/// Returns the first file that `fits` accepts, with its map in the inode.
pub(crate) fn file(found: &[Found], fits: impl Fn(&Found) -> bool) -> &Found {
    found.iter().find(|file| file.is_inline && fits(file)).expect("such a file")
}

/// Damages one file of each image so that its first extent is at the block that `place` returns.
fn with_extent_at(place: impl Fn(&Image, &[Found], &Found) -> FsBlock) {
    for name in IMAGES {
        let image = Image::kept(name);
        let found = found(&image, &kept::memory(&image.bytes));
        let victim = file(&found, |file| file.is_regular && file.map.len() == 1);
        let block = place(&image, &found, victim);
        let mut map = victim.map.clone();
        map[0].startblock = block;
        let (prepared, after) = repaired(&image, name, victim, &with_map(&image, victim, &map));
        let lost: Vec<_> = prepared.plan().losses().collect();
        let has_rmapbt = image.geo.features.rmapbt();
        assert!(lost.is_empty() || !has_rmapbt, "{name}: {lost:?}");
        assert_eq!(after, victim.map, "{name}: {:#?}", prepared.plan());
    }
}

#[test]
fn of_two_files_the_right_one_keeps_its_blocks() {
    let other = |_: &Image, found: &[Found], victim: &Found| {
        let blocks = victim.map[0].blockcount.0;
        let larger = |f: &Found| f.is_regular && f.ino != victim.ino && blocks < total(&f.map);
        found.iter().find(|file| larger(file)).expect("a larger file").map[0].startblock
    };
    with_extent_at(other);
}

fn total(map: &[Extent]) -> u64 {
    map.iter().map(|extent| extent.blockcount.0).sum()
}

#[test]
fn directories_inodes_and_the_journal_keep_their_blocks() {
    let dir = |_: &Image, found: &[Found], _: &Found| {
        found.iter().find(|file| file.is_dir).expect("a directory").map[0].startblock
    };
    with_extent_at(dir);
    let chunk = |image: &Image, _: &[Found], _: &Found| {
        let (agno, agino) = image.geo.ino_split(image.geo.rootino).unwrap();
        image.geo.agb_to_fsb(agno, image.geo.agino_to_agb(agino))
    };
    with_extent_at(chunk);
    with_extent_at(|image, _, _| FsBlock(image.geo.logstart.unwrap().0 + 3));
    with_extent_at(|image, _, _| image.geo.agb_to_fsb(AgNumber(1), AgBlock(0)));
}

#[test]
fn a_map_of_garbage_takes_nothing_from_other_files() {
    for name in IMAGES {
        let image = Image::kept(name);
        let found = found(&image, &kept::memory(&image.bytes));
        let victim = file(&found, |file| file.is_regular);
        let others = found.iter().filter(|file| file.ino != victim.ino);
        let starts: Vec<_> = others.map(|file| file.map[0].startblock).collect();
        let mut map = victim.map.clone();
        for (extent, n) in map.iter_mut().zip(0..) {
            let start = starts[n * starts.len() / victim.map.len()];
            let (agno, agbno) = image.geo.fsb_split(start).unwrap();
            let room = u64::from(image.geo.ag_length(agno) - agbno.0);
            let next = victim.map.get(n + 1).map_or(u64::MAX, |next| next.startoff.0);
            let len = 400.min(room).min(next - extent.startoff.0);
            (extent.startblock, extent.blockcount) = (start, FilBlks(len));
        }
        let (prepared, _) = repaired(&image, name, victim, &with_map(&image, victim, &map));
        assert!(!prepared.plan().steps.is_empty(), "{name}");
    }
}

/// Two files of one length, of which one is at the place of the other: nothing tells which.
#[test]
fn at_a_tie_each_file_has_the_content_and_that_is_a_loss() {
    let image = Image::kept("v5-plain");
    let found = found(&image, &kept::memory(&image.bytes));
    let single = |file: &&Found| file.is_regular && file.is_inline && file.map.len() == 1;
    let files: Vec<_> = found.iter().filter(single).collect();
    let pair = files.iter().enumerate().find_map(|(at, one)| {
        let alike = |other: &&&Found| {
            let bits = one.map[0].startblock.0 ^ other.map[0].startblock.0;
            other.map[0].blockcount == one.map[0].blockcount && bits.count_ones() > 1
        };
        Some((*one, *files[at + 1..].iter().find(alike)?))
    });
    // The claim of the lower inode holds: the other file has a copy.
    let (right, victim) = pair.expect("two files of one length");
    let mut map = victim.map.clone();
    map[0].startblock = right.map[0].startblock;
    let bytes = with_map(&image, victim, &map);
    let (prepared, after) = repaired(&image, "tie", victim, &bytes);
    let lost: Vec<_> = prepared.plan().losses().collect();
    assert!(matches!(lost[..], [text] if text.contains("may be another file's")), "{lost:?}");
    assert_ne!(after[0].startblock, right.map[0].startblock);
    let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
    prepared.commit(&*dev, None).unwrap();
    let read = |start: FsBlock| {
        let mut block = vec![0; image.geo.blocksize()];
        dev.read_at(image.geo.fsb_to_byte(start).unwrap(), &mut block).unwrap();
        block
    };
    let (copy, original) = (read(after[0].startblock), read(right.map[0].startblock));
    assert!(copy == original, "{after:?} {:?}: {:#?}", right.map, prepared.plan().steps);
}

#[test]
fn a_file_that_shares_blocks_gets_its_flag_back() {
    let image = Image::kept("v5");
    let found = found(&image, &kept::memory(&image.bytes));
    let victim = found.iter().find(|file| file.has_flag).expect("a file that shares blocks");
    let flags = Block { offset: victim.at, len: image.geo.inodesize(), crc: Some(CRC_OFFSET) };
    let dev = image.damaged(flags, |inode| inode[127] &= !2);
    let mut bytes = vec![0; image.bytes.len()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    let (prepared, after) = repaired(&image, "flag", victim, &bytes);
    let step = prepared.plan().step(&format!("inode.{}", victim.ino)).expect("a step");
    assert_eq!(step.what, format!("set the flag reflink of inode {}", victim.ino));
    assert_eq!((prepared.plan().losses().count(), &after), (0, &victim.map));
}

/// Linux leaves the flag where no block is shared any more, and `xfs_repair -n` is silent.
#[test]
fn a_flag_of_a_file_that_shares_nothing_is_no_damage() {
    let image = Image::kept("v5");
    let found = found(&image, &kept::memory(&image.bytes));
    let victim = file(&found, |file| file.is_regular && !file.has_flag);
    let flags = Block { offset: victim.at, len: image.geo.inodesize(), crc: Some(CRC_OFFSET) };
    let dev = image.damaged(flags, |inode| inode[127] |= 2);
    let (report, findings) = check_all(&dev);
    assert!(report.clean(), "{findings:?}");
    let prepared = Repair::new().prepare(Arc::new(dev)).unwrap();
    assert!(prepared.plan().is_empty(), "{:#?}", prepared.plan());
}

/// Without a rmapbt that can be read, a third file claims blocks that two share.
#[test]
fn the_refcountbt_tells_which_files_share_blocks() {
    let image = Image::kept("v5");
    let found = found(&image, &kept::memory(&image.bytes));
    let shared = found.iter().find(|file| file.has_flag && !file.is_inline).expect("a clone");
    let victim = file(&found, |file| file.is_regular && !file.has_flag && file.map.len() == 1);
    let mut map = victim.map.clone();
    map[0] = Extent { startblock: shared.map[5].startblock, blockcount: FilBlks(1), ..map[0] };
    let mut bytes = with_map(&image, victim, &map);
    let trees = image.metadata().into_iter().filter(|b| bytes[b.offset..].starts_with(b"RMB3"));
    for tree in trees.collect::<Vec<_>>() {
        bytes[tree.offset..tree.offset + tree.len].fill(0);
    }
    let (prepared, after) = repaired(&image, "shared", victim, &bytes);
    let step = prepared.plan().step(&format!("claims.{}", victim.ino)).expect("a step");
    assert!(step.evidence.iter().any(|words| words.contains("refcountbt")), "{step:#?}");
    assert!(after.is_empty() && step.lost.len() == 1, "{step:#?}");
}
