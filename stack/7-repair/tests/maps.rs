//! Maps that other structures contradict: the right one comes back where the evidence has one.

use xfskit_block::BlockDevice;
use xfskit_check::{Options, fork_map, survey};
use xfskit_format::Fork;
use xfskit_format::bmbt::{self, Extent};
use xfskit_format::bytes::be16;
use xfskit_format::inode::{CRC_OFFSET, Dinode};
use xfskit_test_support::kept;
use xfskit_units::{AgBlock, ByteOffset, FilBlks, FileOff, FsBlock};
use zerocopy::IntoBytes;

use crate::claims::{FORK, Found, IMAGES, file, found, repaired, with_map};
use crate::common::{Block, Image, check_all};

/// Returns where each block of a file is.
fn blocks(map: &[Extent]) -> Vec<(u64, u64, bool)> {
    let each = |e: &Extent| {
        let (off, block, unwritten) = (e.startoff.0, e.startblock.0, e.unwritten);
        (0..e.blockcount.0).map(move |n| (off + n, block + n, unwritten))
    };
    map.iter().flat_map(each).collect()
}

/// Repairs a volume with a damaged map: the map is as it was, and nothing is lost.
fn comes_back(image: &Image, what: &str, victim: &Found, bytes: &[u8]) {
    assert!(!check_all(&kept::memory(bytes)).0.clean(), "{what}: not found");
    let (prepared, after) = repaired(image, what, victim, bytes);
    let lost: Vec<_> = prepared.plan().losses().collect();
    assert!(lost.is_empty(), "{what}: {lost:?}");
    assert_eq!(blocks(&after), blocks(&victim.map), "{what}: {:#?}", prepared.plan());
}

/// Returns an image with its files.
fn image(name: &str) -> (Image, Vec<Found>) {
    let image = Image::kept(name);
    let found = found(&image, &kept::memory(&image.bytes));
    (image, found)
}

/// Returns whether a volume has blocks as free.
fn free(image: &Image) -> impl Fn(FsBlock, u64) -> bool {
    let dev = kept::memory(&image.bytes);
    let (_, survey) = survey(&dev, None, &Options::default(), &mut |_| ()).unwrap();
    let geo = image.geo.clone();
    move |start, len| {
        let Some((agno, agbno)) = geo.fsb_split(start) else { return false };
        let group = survey.groups.iter().find(|group| group.agno == agno).unwrap();
        let inside = |run: &xfskit_check::Run| {
            run.start <= agbno.0 && u64::from(agbno.0) + len <= u64::from(run.end())
        };
        group.recorded_free.iter().flatten().any(inside)
    }
}

#[test]
fn an_extent_that_moved_to_free_space_comes_back() {
    for name in IMAGES {
        let (image, found) = image(name);
        let victim = file(&found, |file| file.is_regular && file.map.len() == 1);
        let is_free = free(&image);
        let len = victim.map[0].blockcount.0;
        let places = image.geo.ags().flat_map(|agno| {
            let length = image.geo.ag_length(agno);
            (0..length).map(move |agbno| (agno, AgBlock(agbno)))
        });
        let places = places.map(|(agno, agbno)| image.geo.agb_to_fsb(agno, agbno));
        let mut map = victim.map.clone();
        // Neither at the start of a free extent, nor one bit away.
        map[0].startblock = places.skip(70).find(|at| is_free(FsBlock(at.0 - 3), len + 3)).unwrap();
        comes_back(&image, name, victim, &with_map(&image, victim, &map));
    }
}

#[test]
fn a_length_is_what_the_counter_of_blocks_says() {
    for name in IMAGES {
        let (image, found) = image(name);
        let long = |file: &Found| file.is_regular && file.map[0].blockcount.0 > 1;
        let victim = file(&found, long);
        for len in [1, victim.map[0].blockcount.0 - 1, victim.map[0].blockcount.0 + 1] {
            let mut map = victim.map.clone();
            map[0].blockcount = FilBlks(len);
            let what = format!("{name}: {len} blocks");
            if len != victim.map[0].blockcount.0 {
                comes_back(&image, &what, victim, &with_map(&image, victim, &map));
            }
        }
    }
}

#[test]
fn an_extent_of_a_directory_at_an_impossible_place_costs_no_name() {
    for name in IMAGES {
        let (image, found) = image(name);
        let victim = file(&found, |file| file.is_dir && file.map.len() > 2);
        let entries = check_all(&kept::memory(&image.bytes)).0.entries;
        let moves = [(0, 1 << 27), (0, 1 << 50), (1, 1 << 20), (2, 1), (2, u64::MAX >> 10)];
        for (at, startoff) in moves {
            let mut map = victim.map.clone();
            map[at].startoff = FileOff(map[at].startoff.0 ^ startoff);
            let what = format!("{name}: record {at} at {}", map[at].startoff);
            let bytes = with_map(&image, victim, &map);
            assert!(!check_all(&kept::memory(&bytes)).0.clean(), "{what}: not found");
            let (prepared, _) = repaired(&image, &what, victim, &bytes);
            let lost: Vec<_> = prepared.plan().losses().collect();
            assert!(lost.is_empty(), "{what}: {lost:?}");
            assert_eq!(prepared.after().entries, entries, "{what}: {:#?}", prepared.plan());
        }
    }
}

/// A volume without a rmapbt, a file with a map in a btree of two leaves, and the first of these.
fn tall() -> (Image, Found, Block) {
    let (image, found) = image("v5-plain");
    let victim = found.into_iter().find(|file| file.is_regular && !file.is_inline).unwrap();
    let inode = Dinode::parse(&image.bytes[victim.at..], &image.geo).unwrap();
    let dev = kept::memory(&image.bytes);
    let btree = fork_map(&dev, &image.geo, &inode, victim.ino, Fork::Data).btree;
    assert_eq!(btree.len(), 2);
    let offset = usize::try_from(image.geo.fsb_to_byte(btree[0]).unwrap().0).unwrap();
    let leaf = Block { offset, len: image.geo.blocksize(), crc: Some(bmbt::CRC_OFFSET) };
    (image, victim, leaf)
}

/// Returns the bytes of an image with one structure changed.
fn changed(image: &Image, block: Block, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let dev = image.damaged(block, change);
    let mut bytes = vec![0; image.bytes.len()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

/// Returns the bytes of the data fork in the inode of a file.
fn fork_len(image: &Image, file: &Found) -> usize {
    Dinode::parse(&image.bytes[file.at..], &image.geo).unwrap().data_fork().len()
}

#[test]
fn a_damaged_header_of_a_btree_block_hides_no_records() {
    let (image, victim, leaf) = tall();
    let count = be16(&image.bytes, leaf.offset + 6).unwrap();
    let header: [(&str, usize, &[u8]); 10] = [
        ("magic", 0, b"XMA3"),
        ("level", 4, &[0, 1]),
        ("fewer records", 6, &(count - 1).to_be_bytes()),
        ("more records", 6, &(count + 7).to_be_bytes()),
        ("no records", 6, &[0, 0]),
        ("left sibling", 8, &[0; 8]),
        ("right sibling", 16, &[0; 8]),
        ("address", 24, &[1; 8]),
        ("uuid", 40, &[7; 16]),
        ("owner", 56, &[7; 8]),
    ];
    for (what, at, new) in header {
        let bytes = changed(&image, leaf, |block| block[at..at + new.len()].copy_from_slice(new));
        comes_back(&image, what, &victim, &bytes);
    }
}

#[test]
fn a_damaged_root_of_a_btree_hides_no_records() {
    let (image, victim, _) = tall();
    let inode = Block { offset: victim.at, len: image.geo.inodesize(), crc: Some(CRC_OFFSET) };
    let ptrs = 4 + 8 * bmbt::root_maxrecs(fork_len(&image, &victim));
    let root: [(&str, usize, &[u8]); 7] = [
        ("level", 0, &[0, 3]),
        ("records", 2, &[0, 9]),
        ("no records", 2, &[0, 0]),
        ("one record", 2, &[0, 1]),
        ("key", 4, &[0, 0, 0, 0, 0, 0, 9, 9]),
        ("first pointer", ptrs, &[0xff; 8]),
        ("second pointer", ptrs + 8, &[0, 0, 0, 0, 0, 0, 9, 9]),
    ];
    for (what, at, new) in root {
        let at = FORK + at;
        let bytes = changed(&image, inode, |bytes| bytes[at..at + new.len()].copy_from_slice(new));
        comes_back(&image, what, &victim, &bytes);
    }
}

#[test]
fn one_record_of_a_btree_with_one_field_changed_comes_back() {
    let (image, victim, leaf) = tall();
    let is_free = free(&image);
    let count = usize::from(be16(&image.bytes, leaf.offset + 6).unwrap());
    for at in [0, count / 2, count - 1] {
        let old = victim.map[at];
        let bits = (4..30).find(|bit| is_free(FsBlock(old.startblock.0 ^ (1 << bit)), 1));
        let block = FsBlock(old.startblock.0 ^ (1 << bits.unwrap()));
        let news = [
            Extent { startblock: block, ..old },
            Extent { startblock: FsBlock(1 << 40), ..old },
            Extent { startoff: FileOff(old.startoff.0 ^ (1 << 30)), ..old },
            Extent { blockcount: FilBlks(0), ..old },
            Extent { blockcount: FilBlks(1 << 20), ..old },
        ];
        for new in news {
            let bytes = changed(&image, leaf, |block| {
                let record = 72 + at * bmbt::REC_LEN;
                block[record..record + bmbt::REC_LEN].copy_from_slice(new.encode().as_bytes());
            });
            comes_back(&image, &format!("record {at}: {new:?}"), &victim, &bytes);
        }
    }
}
