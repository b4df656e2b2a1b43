//! Maps under random changes, against a plain table.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::Format;
use xfskit_test_support::{Image, Need, Random, Scratch, Xfsprogs, needs};
use xfskit_units::{FilBlks, FileOff, FsBlock, Ino};

use crate::icore::NewInode;
use crate::options::OpenOptions;
use crate::volume::Volume;

/// A volume with blocks of 1 KiB that mkfs.xfs made, open for writing, and a new file on it.
fn volume(scratch: &Scratch) -> Option<(Volume, Ino)> {
    if !needs(&[Need::Xfsprogs]) {
        return None;
    }
    let image = Image::sparse(scratch, "volume.img", 64 << 20);
    let options = "-b size=1024 -m rmapbt=1 -d agcount=2 -l size=8m";
    let options: Vec<_> = options.split_whitespace().collect();
    Xfsprogs::installed()?.mkfs(&image, &options).unwrap();
    let dev = Arc::new(FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap());
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let vol = Volume::open(dev, &options).unwrap();
    let new = NewInode { mode: 0o100_644, nlink: 1, ..NewInode::default() };
    let ino = vol.transact(|tx| Ok(tx.ialloc(tx.volume().geo().rootino, &new)?.ino)).unwrap();
    Some((vol, ino))
}

/// What a fork maps, block by block.
type Model = BTreeMap<u64, (u64, bool)>;

fn extent(startoff: u64, startblock: u64, blockcount: u64, unwritten: bool) -> Extent {
    let (startoff, startblock) = (FileOff(startoff), FsBlock(startblock));
    Extent { startoff, startblock, blockcount: FilBlks(blockcount), unwritten }
}

fn blocks_of(extents: &[Extent]) -> Model {
    let each = |extent: &Extent| {
        let (start, block, state) = (extent.startoff.0, extent.startblock.0, extent.unwritten);
        (0..extent.blockcount.0).map(move |n| (start + n, (block + n, state)))
    };
    extents.iter().flat_map(each).collect()
}

fn no_two_join(extents: &[Extent]) {
    for pair in extents.windows(2) {
        let joins = pair[0].end() == pair[1].startoff
            && pair[0].startblock.0 + pair[0].blockcount.0 == pair[1].startblock.0
            && pair[0].unwritten == pair[1].unwritten;
        assert!(!joins, "{pair:?} are one");
    }
}

#[test]
fn random_changes_match_a_table_and_blocks_are_counted() {
    let scratch = Scratch::new("bmap");
    let Some((vol, ino)) = volume(&scratch) else { return };
    let mut random = Random::of_test(1);
    let mut model = Model::new();
    let first = vol.geo().agb_to_fsb(xfskit_units::AgNumber(1), xfskit_units::AgBlock(300)).0;
    let free = || vol.engine().unwrap().counters().get().fdblocks;
    let before = free();
    let (mut deepest, mut forms) = (0, [0; 2]);
    for round in 0..6000_u64 {
        // Fragmenting, then clearing, over and over.
        let grows = round / 1500 % 2 == 0;
        let (at, len) = (random.below(6000), 1 + random.below(if grows { 3 } else { 40 }));
        let maps = random.below(10) < if grows { 9 } else { 2 };
        let (unwritten, near) = (random.below(2) == 0, random.below(4));
        vol.transact(|tx| {
            let inode = tx.iget(ino)?;
            let removed = tx.bmap_remove(inode, Fork::Data, FileOff(at), FileOff(at + len))?;
            assert_eq!(
                blocks_of(&removed),
                model.range(at..at + len).map(|(k, v)| (*k, *v)).collect()
            );
            if maps {
                // Half of them continue a neighbour.
                let block = if near < 2 { first + at % 2000 } else { first + at * 7 % 2000 };
                tx.bmap_insert(inode, Fork::Data, &extent(at, block, len, unwritten))?;
            }
            let core = tx.core(inode);
            forms[usize::from(core.format() == Some(Format::Btree))] += 1;
            if core.format() == Some(Format::Btree) {
                deepest = deepest.max(core.data_fork()[1]);
            }
            let taken = u64::try_from(before - free() - tx.delta.fdblocks).unwrap();
            let nodes = taken - tx.deferred().len() as u64;
            let mapped: u64 = model.len() as u64
                - removed.iter().map(|e| e.blockcount.0).sum::<u64>()
                + if maps { len } else { 0 };
            assert_eq!(core.nblocks().0, mapped + nodes, "round {round}");
            Ok(())
        })
        .unwrap();
        let block = if near < 2 { first + at % 2000 } else { first + at * 7 % 2000 };
        for n in 0..len {
            model.remove(&(at + n));
            if maps {
                model.insert(at + n, (block + n, unwritten));
            }
        }
        if round % 100 == 0 {
            let list = vol.extents(&vol.iget(ino).unwrap(), Fork::Data).unwrap();
            assert_eq!(blocks_of(list.as_slice()), model, "round {round}");
            no_two_join(list.as_slice());
            vol.transact(|tx| {
                let inode = tx.iget(ino)?;
                assert_eq!(tx.fork_extents(inode, Fork::Data)?, list);
                for at in [0, random.below(6000), 7000] {
                    let due = list.as_slice().iter().find(|e| e.end().0 > at).copied();
                    assert_eq!(tx.bmap_next(inode, Fork::Data, FileOff(at))?, due);
                }
                assert_eq!(tx.bmap_end(inode, Fork::Data)?, list.end());
                Ok(())
            })
            .unwrap();
        }
    }
    assert!(deepest >= 2 && forms[0] > 0 && forms[1] > 0, "depth {deepest}, forms {forms:?}");
    vol.transact(|tx| {
        let inode = tx.iget(ino)?;
        tx.bmap_remove(inode, Fork::Data, FileOff(0), FileOff(u64::MAX)).map(drop)
    })
    .unwrap();
    let inode = vol.iget(ino).unwrap();
    assert_eq!((inode.core().nblocks().0, inode.core().nextents()), (0, 0));
    assert_eq!(free(), before, "all blocks of the tree came back");
}

#[test]
fn the_border_between_forks_moves_and_both_keep_what_they_hold() {
    let scratch = Scratch::new("bmap");
    let Some((vol, ino)) = volume(&scratch) else { return };
    let mut random = Random::of_test(2);
    let first = vol.geo().agb_to_fsb(xfskit_units::AgNumber(1), xfskit_units::AgBlock(300)).0;
    let mut counts = [0; 2];
    for round in 0..300_u64 {
        vol.transact(|tx| {
            let inode = tx.iget(ino)?;
            let forkoff = 7 + random.below(30);
            if tx.core(inode).forkoff() == 0 || random.below(2) == 0 {
                tx.set_forkoff(inode, forkoff)?;
            }
            let fork = if random.below(2) == 0 { Fork::Data } else { Fork::Attr };
            let at = random.below(1000) * 2;
            let removed = tx.bmap_remove(inode, fork, FileOff(at), FileOff(at + 2))?;
            counts[fork as usize] -= removed.len();
            if round % 200 < 120 {
                tx.bmap_insert(inode, fork, &extent(at, first + random.below(2000), 1, false))?;
                counts[fork as usize] += 1;
            } else if random.below(3) > 0 {
                let upto = at + 60;
                let gone = tx.bmap_remove(inode, fork, FileOff(at), FileOff(upto))?;
                counts[fork as usize] -= gone.len();
            }
            let core = tx.core(inode);
            let counted = [core.nextents(), core.anextents().into()];
            assert_eq!(counted, counts.map(|count| count as u64), "round {round}");
            Ok(())
        })
        .unwrap();
        let inode = vol.iget(ino).unwrap();
        for fork in [Fork::Data, Fork::Attr] {
            assert_eq!(vol.extents(&inode, fork).unwrap().len(), counts[fork as usize]);
        }
        let ctx = vol.ctx(xfskit_format::inode::location(vol.geo(), ino)).crc_known();
        xfskit_format::inode::Dinode::verify(inode.bytes(), &ctx, ino).unwrap();
    }
}

#[test]
fn the_small_counter_of_attribute_extents_ends_in_an_error_and_the_large_one_does_not() {
    let scratch = Scratch::new("counter");
    let Some((vol, ino)) = volume(&scratch) else { return };
    let first = vol.geo().agb_to_fsb(xfskit_units::AgNumber(1), xfskit_units::AgBlock(300)).0;
    vol.transact(|tx| tx.iget(ino).and_then(|inode| tx.set_forkoff(inode, 24))).unwrap();
    let fill = |upto: u64| -> crate::Result<()> {
        for from in (0..upto).step_by(500) {
            vol.transact(|tx| {
                let inode = tx.iget(ino)?;
                let have = u64::from(tx.core(inode).anextents());
                for n in have..(from + 500).min(upto) {
                    tx.bmap_insert(
                        inode,
                        Fork::Attr,
                        &extent(n * 2, first + n * 7 % 5000, 1, false),
                    )?;
                }
                Ok(())
            })?;
        }
        Ok(())
    };
    fill(32_767).unwrap();
    let before = vol.iget(ino).unwrap();
    let refusal = fill(32_768);
    if vol.geo().features.nrext64() {
        refusal.unwrap();
    } else {
        assert!(matches!(refusal, Err(crate::Error::FileTooLarge(_))), "{refusal:?}");
        assert_eq!(vol.iget(ino).unwrap().bytes(), before.bytes(), "nothing has changed");
    }
}

#[test]
fn targets_lie_in_the_inode_or_in_blocks_and_move_out_for_attributes() {
    let scratch = Scratch::new("targets");
    let Some((vol, _)) = volume(&scratch) else { return };
    let new = NewInode { mode: 0o120_777, nlink: 1, ..NewInode::default() };
    for len in [1, 192, 193, 336, 337, 968, 969, 1023] {
        let target: Vec<u8> = (0..len).map(|n: u32| b'a' + u8::try_from(n % 26).unwrap()).collect();
        let ino = vol
            .transact(|tx| {
                let inode = tx.ialloc(tx.volume().geo().rootino, &new)?;
                tx.write_symlink(inode, &target)?;
                Ok(inode.ino)
            })
            .unwrap();
        assert_eq!(vol.readlink(&vol.iget(ino).unwrap()).unwrap(), target);
        vol.transact(|tx| tx.iget(ino).and_then(|inode| tx.set_forkoff(inode, 24))).unwrap();
        let inode = vol.iget(ino).unwrap();
        assert_eq!(vol.readlink(&inode).unwrap(), target);
        assert_eq!(inode.core().format() == Some(Format::Local), len <= 192);
        vol.transact(|tx| tx.iget(ino).and_then(|inode| tx.drop_target(inode))).unwrap();
        assert_eq!(vol.iget(ino).unwrap().core().nblocks().0, 0);
    }
    let refuse = |target: &[u8]| {
        vol.transact(|tx| {
            let inode = tx.ialloc(tx.volume().geo().rootino, &new)?;
            tx.write_symlink(inode, target)
        })
        .unwrap_err()
    };
    for target in [&b""[..], b"a\0b"] {
        assert!(matches!(refuse(target), crate::Error::Limit(_)));
    }
    assert!(matches!(refuse(&[b'x'; 1024]), crate::Error::NameTooLong(_)));
}
