//! Reads trees made for the tests, and compares them with what the system shows.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{
    self as sys, AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr,
};
use xfskit_format::attr::Namespace;

use super::*;

mod archives;
mod budget;
mod dir;

pub(super) const PROGRESS: OnProgress<'_> = &|_| ControlFlow::Continue(());

pub(super) fn read(sources: &[Source]) -> Tree {
    read_tree(sources, &SourceOptions::default(), PROGRESS).unwrap()
}

/// Returns the node at `path`.
pub(super) fn at(tree: &Tree, path: &[u8]) -> NodeId {
    let mut at = NodeId::ROOT;
    for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
        at = tree
            .children(at)
            .find(|&child| tree.name(child) == name)
            .unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(path)));
    }
    at
}

/// Returns all of a file, holes as zeroes.
pub(super) fn content(tree: &Tree, path: &[u8]) -> Vec<u8> {
    let content = tree.open(tree.inode(at(tree, path))).unwrap();
    let mut bytes = vec![0xaa; usize::try_from(content.size()).unwrap()];
    content.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Returns all paths, in the order of the tree.
pub(super) fn paths(tree: &Tree) -> Vec<String> {
    let path = |id| String::from_utf8_lossy(&tree.path(id)).into_owned();
    let mut paths: Vec<String> = tree.ids().skip(1).map(path).collect();
    paths.sort();
    paths
}

/// An access ACL: `user::rw-,user:1000:r--,group::r--,mask::r-x,other::---`.
pub(super) const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\
    \x04\0\x04\0\xff\xff\xff\xff\x10\0\x05\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

/// Makes files of all kinds in `dir`. Devices, owners and some attributes need root: without root
/// prints a note and returns false.
pub(super) fn populate(dir: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return false;
    }
    let p = |name: &[u8]| dir.join(OsStr::from_bytes(name));
    fs::create_dir(p(b"sub")).unwrap();
    fs::create_dir(p(b"sub/empty")).unwrap();
    fs::create_dir_all(p(b"deep/er/and/deeper/still")).unwrap();
    fs::write(p(b"sub/plain"), b"hello").unwrap();
    fs::write(p(b"empty"), b"").unwrap();
    fs::write(p(b"large"), vec![b'x'; 300_000]).unwrap();
    fs::hard_link(p(b"sub/plain"), p(b"deep/er/link")).unwrap();
    fs::hard_link(p(b"sub/plain"), p(b"zz-link")).unwrap();
    symlink("plain", p(b"sub/short")).unwrap();
    symlink("/".repeat(500) + &"t".repeat(523), p(b"long-target")).unwrap();
    fs::write(p(&[b'n'; 255]), b"a long name").unwrap();
    fs::write(p(b"bytes \xff\xfe\n\x01'\""), b"any bytes").unwrap();
    let sparse = File::create(p(b"sparse")).unwrap();
    sparse.write_all_at(b"front", 0).unwrap();
    sparse.write_all_at(&[7; 5000], 1 << 20).unwrap();
    sparse.set_len(5 << 20).unwrap();
    File::create(p(b"hole")).unwrap().set_len(123_457).unwrap();
    let mode = Mode::from_raw_mode(0o640);
    for (name, kind, dev) in [
        (&b"char"[..], FileType::CharacterDevice, sys::makedev(1, 3)),
        (b"block", FileType::BlockDevice, sys::makedev(259, 70_000)),
        (b"fifo", FileType::Fifo, 0),
    ] {
        sys::mknodat(CWD, p(name), kind, mode, dev).unwrap();
    }
    UnixListener::bind(p(b"sock")).unwrap();
    sys::chownat(
        CWD,
        p(b"large"),
        Some(sys::Uid::from_raw(3_000_000_000)),
        Some(sys::Gid::from_raw(77)),
        AtFlags::empty(),
    )
    .unwrap();
    let chmod = |name, mode| fs::set_permissions(p(name), PermissionsExt::from_mode(mode)).unwrap();
    chmod(b"large", 0o6755);
    chmod(b"sub/empty", 0o1777);
    let set = |name: &[u8], key: &str, value: &[u8]| {
        lsetxattr(p(name), key, value, XattrFlags::empty()).unwrap();
    };
    set(b"large", "user.comment", b"well");
    set(b"large", "user.a=b%c", b"odd\0name\n");
    set(b"sub", "trusted.overlay.opaque", b"y");
    set(b"sub", "user.empty", b"");
    // A version 2 capability: net_bind_service.
    set(b"empty", "security.capability", b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    set(b"sub/plain", "system.posix_acl_access", ACL);
    set(b"sub", "system.posix_acl_default", ACL);
    set(b"sub/short", "trusted.on.link", b"yes");
    let time = |sec, nsec| Timespec { tv_sec: sec, tv_nsec: nsec };
    for (name, sec, nsec) in [
        (&b"empty"[..], 1_000_000_000, 123_456_789),
        (b"sub/short", 5, 1),
        (b"hole", -1_000_000, 250_000_000),
        (b"fifo", 4_000_000_000, 999_999_999),
        (b"sub", 1_600_000_000, 5),
        (b"", 1_500_000_000, 7),
    ] {
        let times =
            Timestamps { last_access: time(sec + 1, nsec), last_modification: time(sec, nsec) };
        sys::utimensat(CWD, p(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    true
}

/// The properties that a comparison includes.
#[derive(Clone, Copy)]
pub(super) struct CompareOptions {
    pub(super) nanoseconds: bool,
    pub(super) xattrs: bool,
    pub(super) holes: bool,
    pub(super) sockets: bool,
}

pub(super) const EVERYTHING: CompareOptions =
    CompareOptions { nanoseconds: true, xattrs: true, holes: true, sockets: true };

/// Compares `tree` with the directory `dir`, as the system shows it.
pub(super) fn assert_same(tree: &Tree, dir: &Path, look: CompareOptions) {
    let mut inodes = HashMap::new();
    let mut seen = 1;
    let mut open = vec![(NodeId::ROOT, dir.to_path_buf())];
    while let Some((id, path)) = open.pop() {
        let what = path.display().to_string();
        let meta = path.symlink_metadata().unwrap();
        let inode = tree.inode(id);
        assert!(inode <= id, "{what}: a link to a later node");
        assert_eq!(*inodes.entry(meta.ino()).or_insert(inode), inode, "{what}: inode");
        compare(tree, inode, &path, &meta, look);
        if meta.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path)
                .unwrap()
                .map(Result::unwrap)
                .filter(|e| look.sockets || !e.file_type().unwrap().is_socket())
                .map(|e| e.file_name())
                .collect();
            names.sort();
            let ours: Vec<_> =
                tree.children(id).map(|c| OsStr::from_bytes(tree.name(c)).to_owned()).collect();
            assert_eq!(ours, names, "{what}: names");
            seen += names.len();
            for child in tree.children(id) {
                assert!(child > id);
                assert_eq!(tree.node(child).parent, id);
                open.push((child, path.join(OsStr::from_bytes(tree.name(child)))));
            }
        }
    }
    assert_eq!(seen, tree.len());
}

fn compare(tree: &Tree, id: NodeId, path: &Path, disk: &fs::Metadata, look: CompareOptions) {
    let what = path.display();
    let Node { kind, meta, nlink, .. } = tree.node(id);
    assert_eq!(u32::from(meta.perm), disk.mode() & 0o7777, "{what}: permissions");
    assert_eq!((meta.uid, meta.gid), (disk.uid(), disk.gid()), "{what}: owner");
    assert_eq!(meta.mtime.sec, disk.mtime(), "{what}: mtime");
    if look.nanoseconds {
        assert_eq!(i64::from(meta.mtime.nsec), disk.mtime_nsec(), "{what}: mtime");
    }
    assert_eq!(u64::from(*nlink), disk.nlink(), "{what}: links");
    let rdev = (sys::major(disk.rdev()), sys::minor(disk.rdev()));
    let kind_of = disk.file_type();
    match *kind {
        Kind::Dir { .. } => assert!(kind_of.is_dir(), "{what}"),
        Kind::File { size, .. } => {
            assert!(kind_of.is_file(), "{what}");
            assert_eq!(size, disk.size(), "{what}: size");
            compare_content(tree, id, path, look);
        }
        Kind::Symlink { len } => {
            assert_eq!(tree.target(id), path.read_link().unwrap().as_os_str().as_bytes());
            assert_eq!(usize::from(len), tree.target(id).len());
        }
        Kind::Char { major, minor } => {
            assert!(kind_of.is_char_device(), "{what}");
            assert_eq!((major, minor), rdev, "{what}");
        }
        Kind::Block { major, minor } => {
            assert!(kind_of.is_block_device(), "{what}");
            assert_eq!((major, minor), rdev, "{what}");
        }
        Kind::Fifo => assert!(kind_of.is_fifo(), "{what}"),
        Kind::Socket => assert!(kind_of.is_socket(), "{what}"),
        Kind::HardLink(_) => panic!("{what}: a link to a link"),
    }
    if look.xattrs {
        compare_xattrs(tree, id, path);
    }
}

fn compare_content(tree: &Tree, id: NodeId, path: &Path, look: CompareOptions) {
    let what = path.display();
    let expected = fs::read(path).unwrap();
    let content = tree.open(id).unwrap();
    let mut bytes = vec![0xaa; expected.len()];
    // Pieces of an odd length.
    for (i, piece) in bytes.chunks_mut(70_001).enumerate() {
        content.read_at(70_001 * i as u64, piece).unwrap();
    }
    assert!(bytes == expected, "{what}: content");
    assert!(content.read_at(expected.len() as u64, &mut [0]).is_err());
    let segments = tree.segments(id).unwrap();
    assert_eq!(segments, content.segments().unwrap());
    let mut end = 0;
    for segment in &segments {
        assert!(segment.len > 0 && (segment.offset > end || end == 0), "{what}: {segments:?}");
        end = segment.end();
    }
    assert!(end <= content.size());
    if look.holes {
        let held: u64 = segments.iter().map(|s| s.len).sum();
        let blocks = path.metadata().unwrap().blocks() * 512;
        assert!(held <= blocks, "{what}: {held} bytes of data in {blocks}");
    }
    // There is no data outside of segments.
    let mut holes = expected;
    for segment in segments {
        let range =
            usize::try_from(segment.offset).unwrap()..usize::try_from(segment.end()).unwrap();
        holes[range].fill(0);
    }
    assert!(holes.iter().all(|&b| b == 0), "{what}: data in a hole");
}

fn compare_xattrs(tree: &Tree, id: NodeId, path: &Path) {
    let mut room = vec![0; 65536];
    let len = sys::llistxattr(path, &mut room[..]).unwrap();
    let mut expected = BTreeMap::new();
    for name in room[..len].split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65536];
        let len = sys::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        let name = String::from_utf8(name.to_vec()).unwrap();
        let (name, value) = match name.as_str() {
            "system.posix_acl_access" => ("trusted.SGI_ACL_FILE".into(), acl_on_disk(&value)),
            "system.posix_acl_default" => ("trusted.SGI_ACL_DEFAULT".into(), acl_on_disk(&value)),
            _ => (name, value),
        };
        expected.insert(name, value);
    }
    let ours: BTreeMap<String, Vec<u8>> =
        tree.xattrs(id).iter().map(|x| (xattr_name(x), x.value.to_vec())).collect();
    assert_eq!(ours, expected, "{}", path.display());
    let keys: Vec<_> = tree.xattrs(id).iter().map(|x| (x.namespace, x.name.clone())).collect();
    assert!(keys.is_sorted());
}

fn acl_on_disk(value: &[u8]) -> Vec<u8> {
    xfskit_format::attr::acl::from_xattr(value).unwrap()
}

fn xattr_name(xattr: &Xattr) -> String {
    format!("{}{}", xattr.namespace.prefix(), String::from_utf8_lossy(&xattr.name))
}
