//! Directories as sources.

use super::*;

#[test]
fn a_directory_is_read_with_everything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    if !populate(dir.path()) {
        return;
    }
    let tree = read(&[Source::Dir(dir.path().into())]);
    assert_same(&tree, dir.path(), EVERYTHING);
    let plain = at(&tree, b"zz-link"); // the root is numbered first
    assert_eq!(tree.node(at(&tree, b"sub/plain")).kind, Kind::HardLink(plain));
    assert_eq!(tree.node(plain).nlink, 3);
    assert_eq!(tree.segments(at(&tree, b"hole")).unwrap(), []);
    assert_eq!(tree.segments(at(&tree, b"sparse")).unwrap().len(), 2);
    assert!(tree.xattrs(plain).iter().any(|x| x.namespace == Namespace::Trusted));
}

#[test]
fn reading_twice_gives_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3000 {
        fs::create_dir_all(dir.path().join(format!("{}", i % 7))).unwrap();
        fs::write(dir.path().join(format!("{}/{i}", i % 7)), b"").unwrap();
        if i % 5 == 0 {
            let (old, new) = (format!("{}/{i}", i % 7), format!("{}/link{i}", (i + 1) % 2));
            fs::create_dir_all(dir.path().join(format!("{}", (i + 1) % 2))).unwrap();
            fs::hard_link(dir.path().join(old), dir.path().join(new)).unwrap();
        }
    }
    let shape = |tree: &Tree| -> Vec<(Vec<u8>, NodeId)> {
        tree.ids().map(|id| (tree.path(id), tree.inode(id))).collect()
    };
    let once = shape(&read(&[Source::Dir(dir.path().into())]));
    for _ in 0..5 {
        assert_eq!(shape(&read(&[Source::Dir(dir.path().into())])), once);
    }
}

#[test]
fn paths_longer_than_a_call_takes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    let mut at = sys::open(dir.path(), sys::OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..50 {
        sys::mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
        at = sys::openat(&at, &name, sys::OFlags::PATH, Mode::empty()).unwrap();
    }
    let flags = sys::OFlags::CREATE | sys::OFlags::WRONLY;
    let file = sys::openat(&at, "file", flags, Mode::from_raw_mode(0o644)).unwrap();
    rustix::io::write(&file, b"far below").unwrap();
    let attr = rustix::fs::fsetxattr(&file, "user.deep", b"1", XattrFlags::empty());
    let tree = read(&[Source::Dir(dir.path().into())]);
    let path = format!("{}/file", vec![name; 50].join("/"));
    assert_eq!(content(&tree, path.as_bytes()), b"far below");
    if attr.is_ok() {
        assert_eq!(tree.xattrs(super::at(&tree, path.as_bytes())).len(), 1);
    }
}

/// A tree with one file of five bytes.
fn one_file(strict: bool) -> (tempfile::TempDir, Tree) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"12345").unwrap();
    let options = SourceOptions { strict, ..SourceOptions::default() };
    let tree = read_tree(&[Source::Dir(dir.path().into())], &options, PROGRESS).unwrap();
    (dir, tree)
}

/// Returns the file's content as it is copied, and why it differs from what was found.
fn copied(tree: &Tree) -> (Vec<u8>, Vec<String>) {
    let id = at(tree, b"file");
    let mut bytes = vec![9; 5];
    tree.open(id).unwrap().read_at(0, &mut bytes).unwrap();
    bytes.truncate(usize::try_from(tree.copied_size(id)).unwrap());
    (bytes, tree.take_unread().iter().map(ToString::to_string).collect())
}

#[test]
fn a_file_that_shrank_grew_or_is_gone_is_copied_as_far_as_it_is_there_and_named() {
    let (dir, tree) = one_file(false);
    let path = dir.path().join("file");
    assert_eq!(copied(&tree), (b"12345".to_vec(), vec![]));
    for (now, wanted, words) in [
        (Some("123"), "123", "file: changed while it was read; 3 of 5 bytes are copied"),
        (Some("1234567"), "12345", "file: changed while it was read; 5 of 5 bytes are copied"),
        (None, "", "file: changed while it was read; nothing of its content is copied"),
    ] {
        match now {
            Some(now) => fs::write(&path, now).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let (bytes, names) = copied(&tree);
        assert_eq!(bytes, wanted.as_bytes());
        assert!(names.len() == 1 && names[0].ends_with(words), "{names:?}");
    }
}

#[test]
fn a_file_that_is_being_rewritten_is_tried_again() {
    let (dir, tree) = one_file(true);
    let path = dir.path().join("file");
    fs::write(&path, b"").unwrap();
    let rewrite = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(2));
        fs::write(&path, b"54321").unwrap();
    });
    assert!(tree.open(at(&tree, b"file")).is_ok());
    rewrite.join().unwrap();
}

#[test]
fn names_that_go_away_while_a_directory_is_read_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..3000).map(|n| dir.path().join(format!("{n:04}"))).collect();
    for name in &names {
        fs::write(name, b"").unwrap();
    }
    // Names are listed before the first of them is looked at and the progress is told.
    let remove = |progress: Progress| {
        if progress.names > 0 {
            for name in &names {
                let _ = fs::remove_file(name);
            }
        }
        ControlFlow::Continue(())
    };
    let options = SourceOptions::default();
    let tree = read_tree(&[Source::Dir(dir.path().into())], &options, &remove).unwrap();
    let gone = tree.notes().left_out.len();
    assert!(gone > 0 && tree.len() + gone == 3001, "{gone} {}", tree.len());
    let skipped = tree.notes().skipped();
    assert_eq!((skipped[0].count, skipped[0].usual), (gone as u64, false));
}

#[test]
fn a_file_that_changes_its_size_is_an_error_that_names_it_in_a_strict_tree() {
    let (dir, tree) = one_file(true);
    fs::write(dir.path().join("file"), b"123").unwrap();
    let error = tree.open(at(&tree, b"file")).unwrap_err();
    assert!(matches!(error, SourceError::Changed { .. }), "{error}");
    assert!(error.to_string().contains("/file: changed"), "{error}");
    fs::remove_file(dir.path().join("file")).unwrap();
    symlink("/etc/passwd", dir.path().join("file")).unwrap();
    assert!(matches!(tree.open(at(&tree, b"file")), Err(SourceError::Changed { .. })));
}

#[test]
fn content_of_files_without_a_size_is_counted_as_left_out() {
    let source = [Source::Dir("/proc/sys/kernel/random".into())];
    let skipped = read(&source).notes().skipped();
    assert!(skipped.iter().any(|s| s.what.starts_with("content") && s.count > 1 && !s.usual));
    let strict = SourceOptions { strict: true, ..SourceOptions::default() };
    let error = read_tree(&source, &strict, PROGRESS).unwrap_err().to_string();
    assert!(error.contains("does not tell its size"), "{error}");
}

#[test]
fn the_image_itself_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("image"), b"").unwrap();
    fs::write(dir.path().join("other"), b"").unwrap();
    let options =
        SourceOptions { exclude: vec![dir.path().join("image")], ..SourceOptions::default() };
    let tree = read_tree(&[Source::Dir(dir.path().into())], &options, PROGRESS).unwrap();
    assert_eq!(paths(&tree), ["other"]);
}

#[test]
fn an_epoch_bounds_all_times() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"").unwrap();
    let epoch = Timestamp { sec: 1_000_000, nsec: 0 };
    let options = SourceOptions { epoch: Some(epoch), ..SourceOptions::default() };
    let tree = read_tree(&[Source::Dir(dir.path().into())], &options, PROGRESS).unwrap();
    assert!(tree.ids().all(|id| tree.node(id).meta.mtime == epoch));
    assert!(tree.ids().all(|id| tree.node(id).meta.atime == epoch));
}

#[test]
fn owners_and_labels_are_set_on_every_inode_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/file"), b"").unwrap();
    fs::hard_link(dir.path().join("d/file"), dir.path().join("link")).unwrap();
    let options = SourceOptions {
        owners: Some(Owners::all(7, 8)),
        labels: Some(Labels::parse(b"/.* all\n/link -- file\n").unwrap()),
        ..SourceOptions::default()
    };
    let tree = read_tree(&[Source::Dir(dir.path().into())], &options, PROGRESS).unwrap();
    let link = at(&tree, b"link");
    for id in [NodeId::ROOT, at(&tree, b"d"), link] {
        assert_eq!((tree.node(id).meta.uid, tree.node(id).meta.gid), (7, 8));
        let [label] = tree.xattrs(id) else { panic!("not one attribute") };
        assert_eq!((label.namespace, &*label.name), (Namespace::Secure, &b"selinux"[..]));
        let value: &[u8] = if id == link { b"file\0" } else { b"all\0" };
        assert_eq!(&*label.value, value);
    }
    assert!(tree.xattrs(at(&tree, b"d/file")).is_empty());
}

#[test]
fn files_that_xfs_cannot_hold_are_named() {
    let dir = tempfile::tempdir().unwrap();
    symlink("t".repeat(1024), dir.path().join("long")).unwrap();
    let error = read_tree(&[Source::Dir(dir.path().into())], &SourceOptions::default(), PROGRESS);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("/long: ") && error.contains("1023"), "{error}");
    let gone = read_tree(&[Source::Dir("/no/such".into())], &SourceOptions::default(), PROGRESS);
    assert!(gone.unwrap_err().to_string().contains("/no/such"));
}

#[test]
fn a_reading_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"").unwrap();
    let stop: OnProgress<'_> = &|_| ControlFlow::Break(());
    let sources = [Source::Dir(dir.path().into())];
    let stopped = read_tree(&sources, &SourceOptions::default(), stop);
    assert!(matches!(stopped, Err(SourceError::Stopped)));
}
