//! Directories and attributes as the kernel made them: every name by listing and by look-up, from
//! every cookie, every xattr with its value, every path by parent pointers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode, OverlayDevice};
use xfskit_core::{Inode, OpenOptions, Volume};
use xfskit_format::inode::FileType;
use xfskit_test_support::matrix::{self, Case};
use xfskit_test_support::{Entry, Image, Manifest, Mount, Need, Scratch, Xfsprogs, kernel, needs};
use xfskit_units::Ino;

fn device(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(path, OpenMode::ReadOnly).unwrap())
}

fn open(image: &Image<'_>) -> Volume {
    let options = OpenOptions { log_dev: image.log().map(device), ..OpenOptions::default() };
    Volume::open(device(image.path()), &options).unwrap()
}

/// Name, inode, type, cookie behind.
type Listed = (Vec<u8>, Ino, Option<FileType>, u64);

fn list(vol: &Volume, dir: &Inode, cookie: u64) -> Vec<Listed> {
    let mut names = Vec::new();
    vol.readdir(dir, cookie, &mut |entry| {
        let e = entry.expect("nothing is damaged");
        names.push((e.name.to_vec(), e.ino, e.ftype, e.cookie));
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

fn xattrs(vol: &Volume, inode: &Inode) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    vol.xattrs(inode, &mut |xattr| {
        let xattr = xattr.expect("nothing is damaged");
        found.insert(xattr.name, xattr.value.into_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// The kernel shows root each ACL twice; once is enough.
fn without_stored_acls(entry: &Entry) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let stored = |name: &[u8]| name.starts_with(b"trusted.SGI_ACL_");
    entry.xattrs.iter().filter(|(k, _)| !stored(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn children(manifest: &Manifest) -> HashMap<Vec<u8>, BTreeMap<Vec<u8>, &Entry>> {
    let mut dirs: HashMap<Vec<u8>, BTreeMap<Vec<u8>, &Entry>> = HashMap::new();
    for (path, entry) in &manifest.entries {
        let Some(slash) = path.iter().rposition(|&b| b == b'/').filter(|_| path != b"/") else {
            continue;
        };
        let parent = if slash == 0 { b"/".to_vec() } else { path[..slash].to_vec() };
        dirs.entry(parent).or_default().insert(path[slash + 1..].to_vec(), entry);
    }
    dirs
}

fn check_dir(vol: &Volume, dir: &Inode, parent: u64, expected: &BTreeMap<Vec<u8>, &Entry>) {
    let listed = list(vol, dir, 0);
    let dots = [(&b"."[..], dir.ino()), (b"..", Ino(parent))];
    for (dot, (name, ino)) in listed.iter().zip(dots) {
        assert_eq!((&dot.0[..], dot.1), (name, ino));
        assert_eq!(vol.lookup(dir, name).unwrap().unwrap().0, ino);
    }
    let found: BTreeSet<&[u8]> = listed[2..].iter().map(|l| &l.0[..]).collect();
    assert_eq!(found.len(), listed.len() - 2, "no name twice");
    assert_eq!(found, expected.keys().map(|n| &n[..]).collect(), "directory {}", dir.ino());
    let open = vol.open_dir(dir).unwrap();
    for (name, ino, ftype, _) in &listed[2..] {
        let kernel = expected[name];
        let mode = u16::try_from(kernel.mode).unwrap();
        assert_eq!((ino.0, *ftype), (kernel.ino, FileType::from_mode(mode)));
        assert_eq!(open.lookup(name).unwrap(), Some((*ino, *ftype)));
        assert_eq!(open.lookup(&[name, &b"?"[..]].concat()).unwrap(), None);
    }
    for (i, listed_here) in listed.iter().enumerate().step_by(1 + listed.len() / 20) {
        assert_eq!(list(vol, dir, listed_here.3), listed[i + 1..], "from cookie {i} on");
    }
}

fn check_inode(vol: &Volume, inode: &Inode, entry: &Entry) {
    let found = xattrs(vol, inode);
    assert_eq!(found, without_stored_acls(entry), "xattrs of inode {}", inode.ino());
    for (name, value) in &found {
        assert_eq!(vol.xattr_get(inode, name).unwrap().as_ref(), Some(value));
    }
    assert_eq!(vol.xattr_get(inode, b"user.no such attribute").unwrap(), None);
    let hidden = vol.attr_list(inode).unwrap().len() - found.len();
    let expected = if vol.geo().features.parent() && entry.ino != vol.geo().rootino.0 {
        if FileType::from_mode(u16::try_from(entry.mode).unwrap()) == Some(FileType::Directory) {
            1
        } else {
            entry.nlink as usize
        }
    } else {
        0
    };
    assert_eq!(hidden, expected, "parent pointers of inode {}", inode.ino());
}

fn check_all(case: &Case) {
    let scratch = Scratch::new("names");
    let Some(image) = case.filled(&scratch) else { return };
    let mount = Mount::read_only(&image, &scratch).unwrap();
    let manifest = kernel::manifest(mount.path());
    mount.unmount().unwrap();
    let vol = open(&image);
    let dirs = children(&manifest);
    let mut paths: BTreeMap<u64, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (path, entry) in &manifest.entries {
        let inode = vol.iget(Ino(entry.ino)).unwrap();
        if paths.entry(entry.ino).or_default().is_empty() {
            check_inode(&vol, &inode, entry);
        }
        paths.entry(entry.ino).or_default().insert(path.clone());
        if inode.core().is_dir() {
            let up = path.iter().rposition(|&b| b == b'/').unwrap_or(0).max(1);
            let parent = manifest.entries[&path[..up]].ino;
            let empty = BTreeMap::new();
            check_dir(&vol, &inode, parent, dirs.get(path).unwrap_or(&empty));
        }
    }
    if vol.geo().features.parent() {
        for (ino, expected) in paths.into_iter().step_by(7) {
            let found = vol.paths(Ino(ino), usize::MAX).unwrap();
            assert_eq!(vol.paths(Ino(ino), 1).unwrap(), found[..1]);
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }
}

fn check_named(names: &[&str]) {
    if needs(&[Need::Mount, Need::Xfsprogs]) {
        for name in names {
            check_all(&matrix::named(name));
        }
    }
}

#[test]
fn names_and_attributes_are_those_that_the_kernel_made() {
    check_named(&["block-1k"]);
}

#[test]
fn directory_blocks_of_several_filesystem_blocks_are_read() {
    check_named(&["dir-block-64k-of-1k"]);
}

#[test]
fn parent_pointers_lead_to_every_path() {
    check_named(&["parent"]);
}

/// Names in Latin-1 in directories of every form, made by mkfs.xfs: few kernels still fold case.
/// (mkfs.xfs 6.1 folds ASCII only.)
#[test]
fn a_volume_that_folds_case_finds_a_name_however_it_is_written() {
    let Some(tools) = Xfsprogs::newer().filter(|_| needs(&[Need::NewerXfsprogs])) else { return };
    let scratch = Scratch::new("names-ci");
    let name = |i: usize| [b"NAME-\xc0\xd7\xde-".as_slice(), i.to_string().as_bytes()].concat();
    let mut proto = b"/\n0 0\nd--755 0 0\n".to_vec();
    for count in [3, 50, 300, 2000] {
        proto.extend(format!("Dir{count} d--755 0 0\n").bytes());
        for i in 0..count {
            proto.extend([&name(i)[..], b" ---644 0 0 /dev/null\n"].concat());
        }
        proto.extend(b"$\n");
    }
    let path = scratch.path().join("proto");
    std::fs::write(&path, [&proto[..], b"$\n"].concat()).unwrap();
    let image = Image::sparse(&scratch, "ci.img", 400 << 20);
    tools.mkfs(&image, &["-n", "version=ci", "-p", path.to_str().unwrap()]).unwrap();

    let vol = open(&image);
    let root = vol.iget(vol.geo().rootino).unwrap();
    for count in [3, 50, 300, 2000] {
        let dir = format!("dIR{count}");
        let dir = vol.iget(vol.lookup(&root, dir.as_bytes()).unwrap().unwrap().0).unwrap();
        assert_eq!(list(&vol, &dir, 0).len(), 2 + count);
        for i in 0..count {
            let lower = name(i).iter().map(|&b| xfskit_format::hash::fold(b)).collect::<Vec<_>>();
            assert_ne!(lower, name(i));
            assert!(vol.lookup(&dir, &lower).unwrap().is_some(), "{count}: {i}");
        }
        assert_eq!(vol.lookup(&dir, &name(count)).unwrap(), None);
    }
}

/// A directory that says it is its own parent: the way up ends there.
#[test]
fn a_loop_of_parents_is_named() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("names-loop");
    let case = matrix::named("parent");
    let Some(image) = case.make(&scratch) else { return };
    let Some(mount) = case.mount(&image, &scratch, "") else { return };
    std::fs::create_dir_all(mount.path().join("above/below")).unwrap();
    let ino = Ino(std::fs::metadata(mount.path().join("above")).unwrap().ino());
    let below = Ino(std::fs::metadata(mount.path().join("above/below")).unwrap().ino());
    mount.unmount().unwrap();

    let vol = open(&image);
    assert_eq!(vol.paths(below, 9).unwrap(), [b"/above/below"]);
    let inode = vol.iget(ino).unwrap();
    let mut bytes = inode.bytes().to_vec();
    let root = vol.geo().rootino.0.to_be_bytes();
    let at = bytes.windows(13).position(|w| w[..5] == *b"above" && w[5..] == root).unwrap();
    bytes[at + 5..at + 13].copy_from_slice(&ino.0.to_be_bytes());
    xfskit_crc::update(&mut bytes, xfskit_format::inode::CRC_OFFSET);
    let dev = OverlayDevice::new(device(image.path()));
    dev.write_at(vol.geo().ino_to_byte(ino).unwrap(), &bytes).unwrap();
    let vol = Volume::open(Arc::new(dev), &OpenOptions::default()).unwrap();
    let err = vol.paths(below, 9).unwrap_err();
    assert_eq!(err.corruption().unwrap().check.0, "attr.parent.loop");
}

#[test]
fn the_whole_matrix_agrees_in_the_long_run() {
    if xfskit_test_support::long() && needs(&[Need::Mount, Need::Xfsprogs]) {
        for case in matrix::cases() {
            check_all(&case);
        }
    }
}
