//! Paths of inodes and owners of blocks.

use xfskit::{
    BlockOwner, BlockRange, CancelToken, ErrorKind, FileFork, FindOwners, FindPaths, InodeState,
    Volume,
};

/// Opens a volume that the kernel filled.
fn kept(name: &str) -> (tempfile::TempDir, Volume) {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open(xfskit_test_support::kept::file(name, dir.path())).unwrap();
    (dir, volume)
}

#[test]
fn an_inode_leads_to_its_paths() {
    let (_dir, volume) = kept("v5");
    let (hole, linked) = (volume.metadata("/hole").unwrap(), volume.metadata("/sf/a").unwrap());
    let found = FindPaths::new(&volume).run([linked.ino(), 1, hole.ino(), linked.ino()]).unwrap();
    assert!(found.warnings.is_empty() && found.warnings_more == 0);
    let numbers: Vec<u64> = found.inodes.iter().map(|inode| inode.ino).collect();
    assert_eq!(numbers, [linked.ino(), 1, hole.ino()]);
    let [linked_paths, none, hole_paths] = &found.inodes[..] else { panic!() };
    assert_eq!(linked_paths.names, Some(linked.nlink().into()));
    assert_eq!(linked_paths.paths.len() as u64, u64::from(linked.nlink()));
    assert!(linked_paths.paths.iter().any(|path| path.as_os_str() == "/sf/a"));
    assert_eq!((none.state, none.paths.len()), (InodeState::OutOfRange, 0));
    assert_eq!(hole_paths.paths[0].as_os_str(), "/hole");
    let one = FindPaths::new(&volume).limit(1).run([linked.ino()]).unwrap();
    assert_eq!(one.inodes[0].paths.len(), 1);
}

#[test]
fn a_block_leads_to_its_file() {
    let (_dir, volume) = kept("v5");
    let extents = volume.extents("/fragmented").unwrap();
    let extent = &extents[7];
    let (block, byte) = (extent.startblock, extent.device_offset);
    for scan in [false, true] {
        let found = FindOwners::new(&volume).scan(scan).threads(1).run(&[
            BlockRange::FsBlocks(block..=block),
            BlockRange::Bytes(byte + 5..=byte + 9),
            BlockRange::Daddrs(byte / 512..=byte / 512),
            BlockRange::AgBlocks(9999, 0..=0),
            BlockRange::AgBlocks(0, 0..=1),
        ]);
        let found = found.unwrap();
        assert!(found.warnings.is_empty());
        let [one, same, again, missing, headers] = &found.ranges[..] else { panic!() };
        let run = &one.as_ref().unwrap()[0];
        assert_eq!((run.fsblock, run.device_offset, run.blockcount), (block, byte, 1));
        assert_eq!(run.path.as_deref().unwrap().as_os_str(), "/fragmented");
        assert_eq!(run.state, Some(InodeState::Used));
        let BlockOwner::Extent { ino, fork, startoff, .. } = run.owner else { panic!("{run:?}") };
        assert_eq!((ino, fork), (volume.metadata("/fragmented").unwrap().ino(), FileFork::Data));
        assert_eq!(startoff, extent.range.start / 4096);
        assert_eq!((run, run), (&same.as_ref().unwrap()[0], &again.as_ref().unwrap()[0]));
        assert_eq!(missing.as_ref().unwrap_err().kind(), ErrorKind::NotFound);
        let owners: Vec<_> = headers.as_ref().unwrap().iter().map(|run| &run.owner).collect();
        assert_eq!(owners, [&BlockOwner::Headers, &BlockOwner::Btree("bnobt")]);
    }
    let bare = FindOwners::new(&volume).paths(false).run(&[BlockRange::FsBlocks(block..=block)]);
    assert_eq!(bare.unwrap().ranges[0].as_ref().unwrap()[0].path, None);
}

#[test]
fn a_search_can_be_watched_and_cancelled() {
    let (_dir, volume) = kept("v4");
    let seen = std::sync::atomic::AtomicU64::new(0);
    let search = FindOwners::new(&volume).progress(|at| {
        seen.fetch_max(at.done, std::sync::atomic::Ordering::Relaxed);
    });
    search.run(&[BlockRange::AgBlocks(0, 0..=9)]).unwrap();
    drop(search);
    assert!(seen.into_inner() >= 61, "inodes in use");
    let token = CancelToken::new();
    token.cancel();
    let block = [BlockRange::AgBlocks(0, 0..=9)];
    let error = FindOwners::new(&volume).cancel(&token).run(&block).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let ino = volume.metadata("/hole").unwrap().ino();
    let error = FindPaths::new(&volume).cancel(&token).run([ino]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_map_has_what_a_listing_of_extents_needs() {
    let (_dir, volume) = kept("v5");
    let map = volume.extent_map("/hole", FileFork::Data).unwrap();
    assert_eq!(map.extents, volume.extents("/hole").unwrap());
    assert_eq!((map.size, map.preallocated), ((1 << 20) + 4, false));
    assert!(volume.extent_map("/unwritten", FileFork::Data).unwrap().preallocated);
    assert!(volume.extent_map("/hole", FileFork::Attr).unwrap().extents.is_empty());
    assert!(!volume.extent_map("/attr-node", FileFork::Attr).unwrap().extents.is_empty());
}
