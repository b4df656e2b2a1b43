//! Archives that request more than the limits allow.

use ::tar::{Builder, EntryType, Header};

use super::*;

/// Returns a kept archive.
fn kept(name: &str) -> Source {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/images/archives");
    Source::Tar(images.join(format!("{name}.tar.zst")))
}

/// Returns the error that refuses `source`.
fn refused(source: Source, options: &SourceOptions) -> SourceError {
    read_tree(&[source], options, PROGRESS).map(|_| ()).unwrap_err()
}

fn limit(error: &SourceError) -> Limit {
    match error {
        SourceError::Limit { limit, .. } => *limit,
        other => panic!("{other}"),
    }
}

/// Packs members: type, name, target of a link, content.
fn packed<'m>(
    path: &Path,
    members: impl IntoIterator<Item = (EntryType, &'m str, &'m str, &'m [u8])>,
) -> Source {
    let packer = zstd::Encoder::new(File::create(path).unwrap(), 1).unwrap();
    let mut builder = Builder::new(packer.auto_finish());
    for (kind, name, target, content) in members {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(7);
        header.set_size(content.len() as u64);
        header.set_link_name_literal(target).unwrap();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.finish().unwrap();
    drop(builder);
    Source::Tar(path.into())
}

/// Makes a record of an extended header.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while rest + len.to_string().len() != len {
        len = rest + len.to_string().len();
    }
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}

#[test]
fn archives_that_unpack_to_more_than_their_limit_are_refused() {
    let options = SourceOptions::default();
    let path = refused(kept("path"), &options).to_string();
    assert!(path.contains("a path of 10000"), "{path}");
    for name in ["glob", "xattr"] {
        assert!(matches!(limit(&refused(kept(name), &options)), Limit::Memory(_)), "{name}");
    }
    // 59 MB of attributes of one member, compressed to a few kilobytes.
    let dir = tempfile::tempdir().unwrap();
    let attributes: Vec<u8> = (0..900)
        .flat_map(|n| record(&format!("SCHILY.xattr.user.{n}"), &vec![b'v'; 65_000]))
        .collect();
    let members =
        [(EntryType::XHeader, "pax", "", &attributes[..]), (EntryType::Regular, "file", "", b"")];
    let source = packed(&dir.path().join("xattr"), members);
    let error = refused(source.clone(), &options);
    assert!(matches!(limit(&error), Limit::Memory(_)), "{error}");
    assert!(error.to_string().contains("at byte "), "{error}");
    let more = SourceOptions { memory_limit: Some(1 << 30), ..options };
    let tree = read_tree(&[source], &more, PROGRESS).unwrap();
    assert_eq!(tree.xattrs(at(&tree, b"file")).len(), 900);
}

#[test]
fn endless_names_are_refused_and_the_member_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("{n}/{}", "a/".repeat(30_000))).collect();
    let records: Vec<Vec<u8>> = names.iter().map(|n| record("path", n.as_bytes())).collect();
    let members = records.iter().flat_map(|path| {
        [(EntryType::XHeader, "pax", "", &path[..]), (EntryType::Directory, "x", "", &b""[..])]
    });
    let error = refused(packed(&dir.path().join("deep"), members), &SourceOptions::default());
    let SourceError::Limit { path, limit: Limit::Memory(_), .. } = &error else {
        panic!("{error}")
    };
    assert!(path.ends_with(b"/a/a"), "{}", path.len());
}

#[test]
fn symbolic_links_of_one_path_are_counted_together() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..21).map(|n| format!("s{n}")).collect();
    let chain = (0..21).map(|n| {
        let target = if n == 0 { "." } else { &*names[n - 1] };
        (EntryType::Symlink, &*names[n], target, &b""[..])
    });
    // 39 links, and 42.
    for (path, reached) in [("s20/s17/x", true), ("s20/s20/x", false)] {
        let members = chain.clone().chain([(EntryType::Regular, path, "", &b""[..])]);
        let tree = read_tree(
            &[packed(&dir.path().join("links"), members)],
            &SourceOptions::default(),
            PROGRESS,
        );
        assert_eq!(tree.is_ok(), reached, "{path}");
        if let Err(error) = tree {
            assert!(error.to_string().contains("too many symbolic links"), "{error}");
        }
    }
    refused(kept("sym"), &SourceOptions::default());
}

#[test]
fn looking_up_names_is_bounded_by_the_limit_on_work() {
    let dir = tempfile::tempdir().unwrap();
    // 40 links, of 500 names each, to a directory beside the one that was looked up last.
    let up = ["d/../"; 200].concat() + "d";
    let mut members = vec![(EntryType::Directory, "d", "", &b""[..])];
    let names: Vec<String> = (0..40).map(|n| format!("l{n}")).collect();
    let targets: Vec<String> =
        (0..40).map(|n| if n == 0 { up.clone() } else { format!("{up}/../l{}", n - 1) }).collect();
    for (name, target) in names.iter().zip(&targets).take(9) {
        // A header holds 100 bytes of a target; a longer one has a header of its own.
        members.push((EntryType::GNULongLink, "long", "", target.as_bytes()));
        members.push((EntryType::Symlink, name, "", b""));
    }
    for _ in 0..20_000 {
        members.push((EntryType::Regular, "l8/file", "", b""));
        members.push((EntryType::Regular, "d/file", "", b""));
    }
    let error = refused(packed(&dir.path().join("work"), members), &SourceOptions::default());
    assert!(matches!(limit(&error), Limit::Work(_)), "{error}");
}

#[test]
fn content_is_compared_with_the_volume_as_it_is_read() {
    let options = SourceOptions { content_limit: Some(1 << 30), ..SourceOptions::default() };
    let error = refused(kept("zero6g"), &options);
    let SourceError::Limit { path, at, limit, .. } = &error else { panic!("{error}") };
    assert_eq!((*limit, path.is_empty()), (Limit::Content(1 << 30), false));
    assert!(*at <= 2 << 30, "{at}");
    // Content that a later layer replaces does not count.
    let dir = tempfile::tempdir().unwrap();
    let layer = |n: u8, name| {
        let bytes = [n; 6000];
        let path = dir.path().join(n.to_string());
        packed(&path, [(EntryType::Regular, name, "", &bytes[..])])
    };
    let options = SourceOptions { content_limit: Some(10_000), ..options };
    let same = [layer(1, "a"), layer(2, "a"), layer(3, "a")];
    let tree = read_tree(&same[..2], &options, PROGRESS).unwrap();
    assert_eq!(content(&tree, b"a"), [2; 6000]);
    assert!(read_tree(&[layer(4, "a"), layer(5, "b")], &options, PROGRESS).is_err());
}

#[test]
fn zeroes_take_no_space_in_the_spool_and_stay_content() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 5 << 20];
    bytes[3_000_000..3_000_100].fill(7);
    let members = [
        (EntryType::Regular, "a", "", &bytes[..]),
        (EntryType::Regular, "b", "", &bytes[3_000_000..]),
    ];
    let tree = read(&[packed(&dir.path().join("zeroes"), members)]);
    assert!(content(&tree, b"a") == bytes && content(&tree, b"b") == bytes[3_000_000..]);
    assert_eq!(tree.segments(at(&tree, b"a")).unwrap(), Segment::whole(5 << 20));
    let taken = tree.stores.files[0].metadata().unwrap();
    assert!(taken.len() > 7 << 20 && taken.blocks() * 512 < 1 << 20, "{}", taken.blocks());
}

#[test]
fn reading_can_be_stopped_within_a_member_and_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = vec![0; 64 << 20];
    let source = packed(&dir.path().join("long"), [(EntryType::Regular, "a", "", &bytes[..])]);
    let Source::Tar(path) = &source else { unreachable!() };
    let tail = zstd::encode_all(&bytes[..], 1).unwrap();
    let mut file = File::options().append(true).open(path).unwrap();
    io::Write::write_all(&mut file, &tail).unwrap();
    for after in [10, 100] {
        let calls = std::sync::atomic::AtomicU32::new(0);
        let stop = |_| {
            let calls = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if calls == after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = read_tree(std::slice::from_ref(&source), &SourceOptions::default(), &stop);
        assert!(matches!(stopped, Err(SourceError::Stopped)), "{after}");
    }
}

#[test]
fn a_named_pipe_is_read_to_its_end_and_waiting_for_its_writer_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let source = packed(&dir.path().join("packed"), [(EntryType::Regular, "a", "", &b"12345"[..])]);
    let Source::Tar(archive) = &source else { unreachable!() };
    let bytes = fs::read(archive).unwrap();
    let pipe = dir.path().join("pipe");
    sys::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let source = [Source::Tar(pipe.clone())];
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let options = SourceOptions {
        stdin: crate::stdin::Stdin::until(flag.clone()),
        ..SourceOptions::default()
    };
    let tree = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            fs::write(&pipe, &bytes).unwrap();
        });
        read_tree(&source, &options, PROGRESS).unwrap()
    });
    assert_eq!(content(&tree, b"a"), b"12345");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(read_tree(&source, &options, PROGRESS).is_err());
    });
}

#[test]
fn a_directory_that_no_archive_lists_is_as_new_as_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let members =
        [(EntryType::Regular, "a/b/c", "", &b""[..]), (EntryType::Regular, "a/.wh.d", "", b"")];
    let tree = read(&[packed(&dir.path().join("implied"), members)]);
    let seven = Timestamp { sec: 7, nsec: 0 };
    for path in [&b""[..], b"a", b"a/b"] {
        assert_eq!(tree.node(at(&tree, path)).meta.mtime, seven, "{}", path.escape_ascii());
    }
    let epoch = Timestamp { sec: 5, nsec: 0 };
    let options = SourceOptions { epoch: Some(epoch), ..SourceOptions::default() };
    let tree = read_tree(&[Source::Tar(dir.path().join("implied"))], &options, PROGRESS).unwrap();
    assert_eq!(tree.node(at(&tree, b"a")).meta.mtime, epoch);
}
