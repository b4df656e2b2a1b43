//! Trees listed in every way, copied in and within; and what the facade says about a whole volume.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::common::{kept, made, reopened, unpacked};
use xfskit::{
    Bulkstat, CopyTree, ErrorKind, Journal, NewFile, Notice, ProblemKind, Put, Superblock, Volume,
    WalkParallel, compat,
};

/// The paths below `/` of a sorted walk.
fn walked(volume: &Volume) -> BTreeSet<PathBuf> {
    let files = volume.walk_dir("/").unwrap().min_depth(1);
    files.map(|file| file.unwrap().into_path()).collect()
}

#[test]
fn every_way_to_list_a_tree_lists_the_same() {
    let (_dir, volume) = kept();
    let walked = walked(&volume);
    assert!(walked.len() > 50);
    let mut by_dir = BTreeSet::new();
    for dir in volume.walk_dirs("/").unwrap().with_metadata(true) {
        let dir = dir.unwrap();
        assert!(dir.errors().is_empty());
        for entry in dir {
            let metadata = entry.metadata().unwrap();
            assert_eq!(metadata, volume.symlink_metadata(entry.path()).unwrap());
            if metadata.is_symlink() {
                assert_eq!(entry.read_link().unwrap(), volume.read_link(entry.path()).unwrap());
            }
            by_dir.insert(entry.path());
        }
    }
    assert_eq!(by_dir, walked);
    let found = Mutex::new(BTreeSet::new());
    let parallel = WalkParallel::new(&volume, "/").with_metadata(true);
    parallel
        .run(|files| {
            for file in files.unwrap() {
                let path = file.path();
                assert_eq!(file.metadata(), volume.symlink_metadata(&path).ok());
                assert_eq!(
                    file.list_xattrs().map(Result::unwrap).collect::<Vec<_>>(),
                    volume
                        .list_xattrs_nofollow(&path)
                        .unwrap()
                        .map(Result::unwrap)
                        .collect::<Vec<_>>(),
                );
                found.lock().unwrap().insert(path);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found.into_inner().unwrap(), walked);
}

#[test]
fn a_listing_by_directories_is_sorted_and_leaves_out_what_it_is_told_to() {
    let (_device, volume) = made();
    for dir in ["/b/.hidden/deep", "/b/seen", "/a"] {
        volume.create_dir_all(dir).unwrap();
    }
    let listed = |walk: xfskit::WalkDirs| {
        walk.map(|dir| {
            let dir = dir.unwrap();
            let path = dir.path().to_owned();
            (path, dir.map(|entry| entry.file_name()).collect::<Vec<_>>())
        })
        .collect::<Vec<_>>()
    };
    let names = |path: &str, names: &[&str]| {
        (PathBuf::from(path), names.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>())
    };
    assert_eq!(
        listed(volume.walk_dirs("/").unwrap().skip_hidden(true)),
        [names("/", &["a", "b"]), names("/a", &[]), names("/b", &["seen"]), names("/b/seen", &[])]
    );
    let flat = listed(volume.walk_dirs("/b").unwrap().max_depth(0));
    assert_eq!(flat, [names("/b", &[".hidden", "seen"])]);
    assert_eq!(volume.walk_dirs("/none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn bulkstat_has_the_metadata_of_every_inode_and_a_scan_the_paths() {
    let (_dir, volume) = kept();
    let inodes = Mutex::new(Vec::new());
    Bulkstat::new(&volume)
        .run(|batch| {
            let known = batch.iter().map(|inode| inode.metadata.as_ref().unwrap().clone());
            inodes.lock().unwrap().extend(known);
            ControlFlow::Continue(())
        })
        .unwrap();
    let inodes = inodes.into_inner().unwrap();
    let paths = volume.paths_of(inodes.iter().map(xfskit::Metadata::ino)).unwrap();
    let named = inodes.iter().filter(|inode| inode.nlink() > 0);
    for inode in named {
        let path = &paths[&inode.ino()];
        assert_eq!(volume.symlink_metadata(path).unwrap(), *inode, "{}", path.display());
    }
}

#[test]
fn files_of_every_type_are_created_with_their_owner() {
    let (device, volume) = made();
    volume.create_node("/d", &NewFile::dir().mode(0o2750).owner(7, 8)).unwrap();
    volume.create_node("/d/null", &NewFile::char_device(1, 3).mode(0o666)).unwrap();
    volume.create_node("/d/link", &NewFile::symlink("null").owner(9, 9)).unwrap();
    let file = volume.create_unnamed("/d", &NewFile::file()).unwrap();
    file.write_at(b"content", 0).unwrap();
    file.link("/d/file").unwrap();
    assert_eq!(file.link("/d/file").unwrap_err().kind(), ErrorKind::AlreadyExists);
    drop(file);
    drop(volume.create_unnamed("/d", &NewFile::file()).unwrap());
    volume.close().unwrap();
    let volume = reopened(&device);
    let dir = volume.metadata("/d").unwrap();
    assert_eq!((dir.permissions().mode(), dir.uid(), dir.gid()), (0o2750, 7, 8));
    let null = volume.metadata("/d/link").unwrap();
    assert_eq!((null.rdev(), null.gid(), null.permissions().mode()), (Some((1, 3)), 8, 0o666));
    assert_eq!(volume.symlink_metadata("/d/link").unwrap().uid(), 9);
    assert_eq!(volume.read("/d/file").unwrap(), b"content");
    assert_eq!(volume.walk_dir("/").unwrap().count(), 5);
}

#[test]
fn chown_takes_setuid_and_capabilities_as_linux_does() {
    let (_device, volume) = made();
    volume.create_node("/f", &NewFile::file().mode(0o6755)).unwrap();
    volume.create_node("/g", &NewFile::file().mode(0o2644)).unwrap();
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    volume.set_xattr("/f", "security.capability", capability).unwrap();
    for path in ["/f", "/g"] {
        volume.chown(path, Some(1), None).unwrap();
    }
    assert_eq!(volume.metadata("/f").unwrap().permissions().mode(), 0o755);
    assert_eq!(volume.metadata("/g").unwrap().permissions().mode(), 0o2644);
    assert_eq!(volume.get_xattr("/f", "security.capability").unwrap(), None);
    let missing = volume.remove_xattr("/f", "user.none").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoAttribute);
}

#[test]
fn trees_are_put_into_a_volume_and_copied_within_it() {
    let (device, volume) = made();
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("html");
    std::fs::create_dir_all(html.join("deep")).unwrap();
    std::fs::write(html.join("deep/page"), "<p>").unwrap();
    volume.create_dir("/srv").unwrap();
    let copied = Put::new(&volume).entry(&html).owner(3, 4).to("/srv").unwrap();
    assert_eq!((copied.names, copied.bytes, copied.problems.len()), (3, 3, 0));
    // A name that is not there becomes that of the copy, or the directory that receives it.
    Put::new(&volume).entry(html.join("deep/page")).to("/srv/index").unwrap();
    Put::new(&volume).dir(&html).to("/srv/contents").unwrap();
    let clash = Put::new(&volume).entry(html.join("deep")).to("/srv/index").unwrap_err();
    assert_eq!(clash.kind(), ErrorKind::NotADirectory);
    Put::new(&volume).stream_to(&mut &b"stream"[..], "/srv/index").unwrap();
    CopyTree::new(&volume, "/srv/html").reflink(true).to("/srv/html.old").unwrap();
    let below = CopyTree::new(&volume, "/srv").to("/srv/html/srv").unwrap_err();
    assert_eq!(below.kind(), ErrorKind::InvalidInput);
    volume.close().unwrap();
    let volume = reopened(&device);
    assert_eq!(volume.read("/srv/html.old/deep/page").unwrap(), b"<p>");
    assert_eq!(volume.read("/srv/contents/deep/page").unwrap(), b"<p>");
    assert_eq!(volume.read("/srv/index").unwrap(), b"stream");
    assert_eq!(volume.metadata("/srv/html/deep").unwrap().gid(), 4);
}

#[test]
fn what_a_source_does_not_give_is_a_problem_with_its_path_and_kind() {
    let (_device, volume) = made();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shrinks");
    std::fs::write(&file, vec![1; 64 << 20]).unwrap();
    // It shrinks after the tree was read, and is more than what is read ahead.
    let shrink = |at: xfskit::Progress| {
        if at.total > 0 {
            std::fs::write(&file, "").unwrap();
        }
    };
    let seen = Mutex::new(Vec::new());
    let notice = |notice: Notice<'_>| {
        if let Notice::Problem(problem) = notice {
            seen.lock().unwrap().push(problem);
        }
    };
    std::fs::write(dir.path().join("a"), "first").unwrap();
    let put = Put::new(&volume).dir(dir.path()).progress(shrink).notices(notice);
    let copied = put.to("/").unwrap();
    drop(put);
    assert!(copied.problems.is_empty(), "a callback received them");
    let seen = seen.into_inner().unwrap();
    let [problem] = &seen[..] else { panic!("{seen:?}") };
    assert!(problem.path.ends_with("shrinks"), "{problem}");
    assert!(matches!(problem.kind, ProblemKind::Unread(_)), "{problem:?}");
    assert!(copied.skipped.iter().any(|skipped| skipped.count == 1 && !skipped.usual));
}

#[test]
fn a_volume_its_superblock_and_its_journal_describe_themselves() {
    let (_dir, volume) = kept();
    assert_eq!(volume.uuid(), volume.geometry().uuid);
    assert!(volume.features().contains(&"crc"), "{:?}", volume.features());
    let blocks: u64 = volume.groups().unwrap().iter().map(|group| u64::from(group.blocks)).sum();
    assert_eq!(blocks, volume.geometry().dblocks.0);
    let dump = volume.inspect("agf 0").unwrap();
    assert!(dump.to_string().contains("seqno = 0") && dump.to_json()["seqno"] == 0, "{dump}");
    assert_eq!(volume.inspect("agf 99").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(volume.inspect("nothing").unwrap_err().kind(), ErrorKind::InvalidInput);
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5-dirty", dir.path());
    let journal = Journal::open(&image).unwrap();
    assert!(!journal.state().unwrap().clean);
    let mut printed = Vec::new();
    let options = xfskit::inspect::JournalPrint {
        show: xfskit::inspect::Show::Records,
        span: xfskit::inspect::Span::Active,
        data: false,
        json: false,
    };
    journal.print(options, &mut printed).unwrap();
    assert!(String::from_utf8(printed).unwrap().contains("dirty"));
    let superblock = Superblock::read(&image).unwrap();
    assert!(superblock.secondary().is_none());
    let newest = compat::Target::ALL.last().unwrap();
    assert!(!superblock.compatibility(*newest).access.to_string().is_empty());
    assert!(Superblock::read("/dev/null").is_err());
}
