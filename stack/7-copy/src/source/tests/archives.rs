//! Archives as sources.

use std::io::Write;
use std::process::{Command, Stdio};
use xfskit_test_support::Random;

use ::tar::{Builder, EntryType, Header};

use super::super::tar;
use super::*;

/// Runs GNU tar in `dir` with `args`, to `archive`.
fn gnu_tar(dir: &Path, archive: &Path, args: &[&str]) {
    let mut command = Command::new("tar");
    command.args(args).arg("-C").arg(dir).arg("-cf").arg(archive).arg(".");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn read_archive(path: &Path) -> Tree {
    read(&[Source::Tar(path.into())])
}

fn try_read(path: &Path) -> Result<Tree, SourceError> {
    read_tree(&[Source::Tar(path.into())], &SourceOptions::default(), PROGRESS)
}

/// Writes the output of `command` for the file `from` to `to`.
fn filtered(command: &str, from: &Path, to: &Path) {
    let (input, output) = (File::open(from).unwrap(), File::create(to).unwrap());
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .status();
    assert!(status.unwrap().success(), "{command}");
}

#[test]
fn an_archive_reads_as_the_directory_it_was_made_from() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !populate(dir.path()) {
        return;
    }
    let archive = out.path().join("a.tar");
    let xattrs = ["--acls", "--xattrs", "--xattrs-include=*"];
    for form in ["--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"] {
        let mut args = vec!["--format=posix", "-S", form];
        args.extend(xattrs);
        gnu_tar(dir.path(), &archive, &args);
        let look = CompareOptions { sockets: false, ..EVERYTHING };
        assert_same(&read_archive(&archive), dir.path(), look);
    }
    gnu_tar(dir.path(), &archive, &["--format=gnu", "-S"]);
    let look = CompareOptions { sockets: false, xattrs: false, nanoseconds: false, holes: true };
    assert_same(&read_archive(&archive), dir.path(), look);
    gnu_tar(dir.path(), &archive, &["--format=gnu"]);
    assert_same(&read_archive(&archive), dir.path(), CompareOptions { holes: false, ..look });
}

#[test]
fn old_formats_are_read() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path(&format!("{}/{}", "a".repeat(80), "b".repeat(40)))).unwrap();
    fs::write(path(&format!("{}/{}/file", "a".repeat(80), "b".repeat(40))), b"deep").unwrap();
    let archive = out.path().join("a.tar");
    let look = CompareOptions { sockets: false, xattrs: false, nanoseconds: false, holes: false };
    gnu_tar(dir.path(), &archive, &["--format=ustar"]);
    assert_same(&read_archive(&archive), dir.path(), look);
    fs::remove_dir_all(path(&"a".repeat(80))).unwrap();
    fs::create_dir(path("dir")).unwrap();
    fs::write(path("dir/file"), vec![b'x'; 1000]).unwrap();
    fs::hard_link(path("dir/file"), path("link")).unwrap();
    symlink("dir/file", path("symlink")).unwrap();
    for format in ["--format=v7", "--format=ustar", "--format=oldgnu"] {
        gnu_tar(dir.path(), &archive, &[format]);
        assert_same(&read_archive(&archive), dir.path(), look);
    }
}

#[test]
fn compressed_archives_are_known_by_their_first_bytes() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let noise = |i: u32| i.wrapping_mul(2_654_435_761).to_le_bytes();
    fs::write(dir.path().join("noise"), (0..200_000).flat_map(noise).collect::<Vec<_>>()).unwrap();
    fs::write(dir.path().join("small"), b"small").unwrap();
    File::create(dir.path().join("hole")).unwrap().set_len(10 << 20).unwrap();
    let (plain, packed) = (out.path().join("plain"), out.path().join("packed"));
    gnu_tar(dir.path(), &plain, &["--format=posix", "-S"]);
    let look = CompareOptions { xattrs: false, ..EVERYTHING };
    for command in ["gzip", "zstd", "xz", "zstd --long=27", "xz -9"] {
        filtered(command, &plain, &packed);
        assert_same(&read_archive(&packed), dir.path(), look);
        let whole = fs::read(&packed).unwrap();
        for cut in [7, 100, whole.len() / 2, whole.len() - 1] {
            fs::write(&packed, &whole[..cut]).unwrap();
            let error = try_read(&packed).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("packed"), "{command}: {error}");
        }
    }
    // From standard input, and in two compressed pieces.
    let whole = fs::read(&plain).unwrap();
    let (front, back) = whole.split_at(1000);
    let mut bytes = Vec::new();
    for piece in [front, back] {
        fs::write(&packed, piece).unwrap();
        let piece = out.path().join("piece");
        filtered("gzip", &packed, &piece);
        bytes.extend(fs::read(&piece).unwrap());
    }
    for bytes in [whole, bytes] {
        let input = io::Cursor::new(bytes);
        let options = SourceOptions::default();
        let mut budget = Budget::new(&options, PROGRESS);
        let input = tar::Input::stream("input".into(), input, out.path(), &mut budget).unwrap();
        let mut draft = Draft::new();
        tar::read(&mut draft, input, &options).unwrap();
        assert_same(&draft.finish().unwrap(), dir.path(), look);
    }
}

/// Makes an archive of members: a name with its content, or `/` and a directory's permissions, or
/// `->` and a symbolic link's target, or `=` and a hard link's.
fn archive(dir: &Path, name: &str, members: &[(&str, &str)]) -> Source {
    let path = dir.join(name);
    let mut builder = Builder::new(File::create(&path).unwrap());
    for &(member, content) in members {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(0);
        header.set_uid(1);
        header.set_gid(2);
        header.set_mtime(3);
        let mut data = "";
        if let Some(mode) = content.strip_prefix('/') {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(u32::from_str_radix(mode, 8).unwrap());
        } else if let Some(target) = content.strip_prefix("->") {
            header.set_entry_type(EntryType::Symlink);
            header.set_link_name_literal(target).unwrap();
        } else if let Some(target) = content.strip_prefix('=') {
            header.set_entry_type(EntryType::Link);
            header.set_link_name_literal(target).unwrap();
        } else {
            header.set_size(content.len() as u64);
            data = content;
        }
        header.as_old_mut().name[..member.len()].copy_from_slice(member.as_bytes());
        header.set_cksum();
        builder.append(&header, data.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    Source::Tar(path)
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let base = archive(
        dir.path(),
        "base",
        &[
            ("d/", "/700"),
            ("d/kept", "kept"),
            ("d/old", "old"),
            ("gone/", "/755"),
            ("gone/a/b", "below"),
            ("file", "was a file"),
            ("first", "linked"),
            ("second", "=first"),
            ("usr/lib/", "/755"),
            ("lib", "->usr/lib"),
            ("abs", "->/usr/../usr"),
        ],
    );
    let over = archive(
        dir.path(),
        "over",
        &[
            ("./d/", "/750"),
            ("d/old", "new and longer"),
            ("gone", "is a file now"),
            ("file/", "/755"),
            ("file/inside", "x"),
            ("/first", "another"),
            ("lib/modules/m", "through a link"),
            ("abs/lib/n", "through two"),
            ("third", "=./second"),
        ],
    );
    let tree = read(&[base, over]);
    let expected = [
        "abs",
        "d",
        "d/kept",
        "d/old",
        "file",
        "file/inside",
        "first",
        "gone",
        "lib",
        "second",
        "third",
        "usr",
        "usr/lib",
        "usr/lib/modules",
        "usr/lib/modules/m",
        "usr/lib/n",
    ];
    assert_eq!(paths(&tree), expected);
    assert_eq!(tree.node(at(&tree, b"d")).meta.perm, 0o750);
    assert_eq!(content(&tree, b"d/kept"), b"kept");
    assert_eq!(content(&tree, b"d/old"), b"new and longer");
    assert_eq!(content(&tree, b"first"), b"another");
    assert_eq!(content(&tree, b"second"), b"linked");
    assert_eq!(tree.inode(at(&tree, b"third")), at(&tree, b"second"));
    assert_eq!(tree.node(at(&tree, b"second")).nlink, 2);
    let made = tree.node(at(&tree, b"usr")).meta;
    let three = Timestamp { sec: 3, nsec: 0 };
    assert_eq!(made, Meta { perm: 0o755, mtime: three, atime: three, ..Meta::default() });
    let given = Meta {
        perm: 0o644,
        uid: 1,
        gid: 2,
        mtime: Timestamp { sec: 3, nsec: 0 },
        atime: Timestamp { sec: 3, nsec: 0 },
    };
    assert_eq!(tree.node(at(&tree, b"first")).meta, given);
}

#[test]
fn whiteouts_hide_lower_layers_only() {
    let dir = tempfile::tempdir().unwrap();
    let base = archive(
        dir.path(),
        "base",
        &[("a/x", "1"), ("a/y", "2"), ("b/c/lower", "3"), ("b/lower", "4"), ("e/f", "5")],
    );
    let over = archive(
        dir.path(),
        "over",
        &[
            ("a/.wh.x", ""),
            ("a/.wh.none", ""),
            ("b/c/upper", "6"),
            ("b/.wh..wh..opq", ""),
            ("b/new", "7"),
            ("e/f", "8"),
            ("e/.wh.f", ""),
            (".wh.nothing", ""),
        ],
    );
    let options = SourceOptions { whiteouts: true, ..SourceOptions::default() };
    let sources = [base, over];
    let tree = read_tree(&sources, &options, PROGRESS).unwrap();
    assert_eq!(paths(&tree), ["a", "a/y", "b", "b/c", "b/c/upper", "b/new", "e", "e/f"]);
    assert_eq!(content(&tree, b"e/f"), b"8");
    let tree = read(&sources);
    assert!(paths(&tree).contains(&"a/.wh.x".to_owned()));
    assert!(paths(&tree).contains(&"b/lower".to_owned()));
}

#[test]
fn names_that_lead_out_of_the_tree_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (members, word) in [
        (&[("../x", "1")][..], "leads out"),
        (&[("a/../../x", "1")], "leads out"),
        (&[("f", "1"), ("f/x", "2")], "not a directory"),
        (&[("l", "->l"), ("l/x", "2")], "not a directory"),
        (&[("a", "=b")], "no earlier member has"),
        (&[("d/", "/755"), ("a", "=d")], "no earlier member has"),
        (&[("a", "->")], "target of 0 bytes"),
        (&[(".", "file")], "without a name"),
    ] {
        let source = archive(dir.path(), "bad", members);
        let error = read_tree(&[source], &SourceOptions::default(), PROGRESS).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(word) && message.contains("at byte "), "{members:?}: {message}");
    }
    // A link out of the tree stays within it.
    let source = archive(dir.path(), "up", &[("t/", "/755"), ("l", "->../../t"), ("l/x", "in")]);
    assert_eq!(content(&read(&[source]), b"t/x"), b"in");
}

#[test]
fn a_cut_archive_is_an_error_wherever_it_is_cut() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !populate(dir.path()) {
        return;
    }
    fs::remove_file(dir.path().join("large")).unwrap();
    let archive = out.path().join("a.tar");
    gnu_tar(dir.path(), &archive, &["--format=posix", "-S", "--xattrs", "--acls"]);
    let whole = fs::read(&archive).unwrap();
    let end = whole.iter().rposition(|&b| b != 0).unwrap() + 1;
    let end = end.next_multiple_of(512);
    for cut in (0..=end).step_by(512) {
        let input = io::Cursor::new(whole[..cut].to_vec());
        let options = SourceOptions::default();
        let mut budget = Budget::new(&options, PROGRESS);
        let input = tar::Input::stream("cut".into(), input, out.path(), &mut budget).unwrap();
        let error = tar::read(&mut Draft::new(), input, &options).unwrap_err();
        assert!(error.to_string().contains("at byte "), "{cut}: {error}");
        fs::write(&archive, &whole[..cut]).unwrap();
        assert!(try_read(&archive).is_err(), "cut at {cut}");
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !populate(dir.path()) {
        return;
    }
    fs::remove_file(dir.path().join("large")).unwrap();
    let archive = out.path().join("a.tar");
    let mut random = Random::of_test(1);
    for form in ["--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0", ""] {
        let mut args = vec!["-S", "--format=gnu"];
        if !form.is_empty() {
            args = vec!["-S", "--format=posix", "--xattrs", "--acls", form];
        }
        gnu_tar(dir.path(), &archive, &args);
        let whole = fs::read(&archive).unwrap();
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = random.byte();
                mend_checksum(&mut bytes, at);
            }
            let mut file = File::create(&archive).unwrap();
            file.write_all(&bytes).unwrap();
            let Ok(tree) = try_read(&archive) else { continue };
            for id in tree.ids() {
                let content = tree.open(id).unwrap();
                let mut room = vec![0; usize::try_from(content.size().min(1 << 16)).unwrap()];
                content.read_at(0, &mut room).unwrap();
            }
        }
    }
}

/// Corrects the checksum of the block around `at`, if it is a header.
fn mend_checksum(bytes: &mut [u8], at: usize) {
    let start = at / 512 * 512;
    let Some(block) = bytes.get_mut(start..start + 512) else { return };
    if &block[257..262] != b"ustar" {
        return;
    }
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|&b| u64::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
