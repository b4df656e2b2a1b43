//! ACLs and permissions agree, as in Linux.

use crate::common;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{make, open, verify_all};
use xfskit_block::BlockDevice;
use xfskit_core::Error as Core;
use xfskit_core::attr::change::SetMode;
use xfskit_test_support::{Image, Mount, Need, Scratch, needs};
use xfskit_units::{ByteOffset, Ino};
use xfskit_vfs::{Error, FileType, Follow, Fs, Inode, NewNode, SetAttr};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Returns an ACL as programs have it: `user::U,user:1:rwx,group::G,mask::M,other::O`, with the
/// user and the mask if there is a mask.
fn acl([user, group, other]: [u8; 3], mask: Option<u8>) -> Vec<u8> {
    let entry = |tag: u8, perm: u8, id: u32| [&[tag, 0, perm, 0][..], &id.to_le_bytes()].concat();
    let named = mask.map_or(vec![], |_| entry(2, 7, 1));
    let mask = mask.map_or(vec![], |mask| entry(16, mask, u32::MAX));
    let [user, group, other] =
        [(1, user), (4, group), (32, other)].map(|(t, p)| entry(t, p, u32::MAX));
    [vec![2, 0, 0, 0], user, named, group, mask, other].concat()
}

/// Directories and files to make, with the requested permissions.
const DIRS: [(&str, u16); 3] = [("d", 0o755), ("e", 0o1770), ("g", 0o511)];
const FILES: [(&str, u16); 4] = [("f", 0o640), ("h", 0o777), ("u", 0o4607), ("z", 0)];

/// Makes the files of [`linux_fills`] with our code.
fn we_fill(fs: &Fs, dir: Ino) {
    let made = DIRS.map(|(name, perm)| (name, NewNode::directory(perm)));
    for (name, new) in made.into_iter().chain(FILES.map(|(n, perm)| (n, NewNode::file(perm)))) {
        fs.make(dir, name.as_bytes(), &new).unwrap();
    }
    fs.make(dir, b"link", &NewNode::symlink(b"f")).unwrap();
    fs.make(dir, b"pipe", &NewNode::usual(FileType::Fifo)).unwrap();
    let unnamed = fs.make_unnamed(dir, &NewNode::file(0o660)).unwrap();
    fs.link(unnamed.ino(), dir, b"unnamed").unwrap();
}

fn linux_fills(dir: &Path) {
    for (name, perm) in DIRS {
        fs::DirBuilder::new().mode(perm.into()).create(dir.join(name)).unwrap();
    }
    for (name, perm) in FILES.into_iter().chain([("unnamed", 0o660)]) {
        let mut new = fs::OpenOptions::new();
        new.write(true).create_new(true).mode(perm.into()).open(dir.join(name)).unwrap();
    }
    symlink("f", dir.join("link")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
}

/// Returns the permissions, and the ACL of this name.
fn found(fs: &Fs, ino: Ino, name: &[u8]) -> (u16, Option<Vec<u8>>) {
    let inode = fs.inode(ino).unwrap();
    let acls = fs.xattrs(&inode).0.into_iter().find(|xattr| xattr.name == name);
    (inode.core().mode() & 0o7777, acls.map(|xattr| xattr.value))
}

fn is_limit(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Core(Core::Limit(_))))
}

#[test]
fn acls_and_permissions_follow_each_other() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let file = fs.make(root, b"file", &NewNode::file(0o4644)).unwrap();
    let set = |ino, name, value: &[u8]| fs.set_xattr(ino, name, value, SetMode::Any);

    set(file, ACCESS, &acl([6, 4, 4], Some(7))).unwrap();
    assert_eq!(found(&fs, file, ACCESS), (0o4674, Some(acl([6, 4, 4], Some(7)))));
    fs.set_attr(file, &SetAttr { perm: Some(0o640), ..SetAttr::default() }).unwrap();
    assert_eq!(found(&fs, file, ACCESS), (0o640, Some(acl([6, 4, 0], Some(4)))));
    set(file, ACCESS, &acl([7, 5, 1], None)).unwrap();
    assert_eq!(found(&fs, file, ACCESS), (0o751, None));
    set(file, ACCESS, &acl([6, 4, 4], Some(6))).unwrap();
    set(file, ACCESS, b"").unwrap();
    assert_eq!(found(&fs, file, ACCESS), (0o664, None));

    assert!(is_limit(set(file, DEFAULT, &acl([6, 4, 4], Some(7)))));
    assert!(is_limit(set(file, ACCESS, &acl([6, 9, 4], Some(7)))));
    let link = fs.make(root, b"link", &NewNode::symlink(b"file")).unwrap();
    let of_link = set(link, ACCESS, &acl([6, 4, 4], Some(7))).expect_err("a link has no ACL");
    assert_eq!(of_link.errno(), rustix::io::Errno::OPNOTSUPP.raw_os_error(), "{of_link}");
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
    set(dir, DEFAULT, &acl([6, 4, 4], Some(7))).unwrap();
    assert_eq!(found(&fs, dir, DEFAULT), (0o755, Some(acl([6, 4, 4], Some(7)))));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn default_acls_are_inherited_as_in_linux() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let defaults = [acl([7, 5, 4], Some(7)), acl([6, 5, 0], None), acl([5, 7, 1], Some(2))];
    for (n, default) in defaults.iter().enumerate() {
        for side in ["ours", "linux"] {
            let new = NewNode::directory(0o2755).owner(0, 7);
            let dir = fs.make(root, format!("{side}{n}").as_bytes(), &new).unwrap();
            fs.set_xattr(dir, DEFAULT, default, SetMode::Any).unwrap();
            if side == "ours" {
                we_fill(&fs, dir);
            }
        }
    }
    fs.close().unwrap();

    let scratch = Scratch::new("default-acls");
    let image = Image::of_device(&scratch, "linux.img", &*dev);
    let mount = Mount::read_write(&image, &scratch).unwrap();
    (0..defaults.len()).for_each(|n| linux_fills(&mount.path().join(format!("linux{n}"))));
    mount.unmount().unwrap();
    dev.write_at(ByteOffset(0), &fs::read(image.path()).unwrap()).unwrap();

    let fs = open(&dev, false);
    let list = |dir: String| {
        let mut entries = fs.read_dir(&fs.resolve(dir.as_bytes(), Follow::No).unwrap()).entries;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.into_iter().map(|entry| (entry.name, fs.inode(entry.ino).unwrap()))
    };
    for n in 0..defaults.len() {
        let (ours, linux) = (list(format!("/ours{n}")), list(format!("/linux{n}")));
        assert_eq!((ours.len(), linux.len()), (10, 10));
        for ((name, ours), (_, theirs)) in ours.zip(linux) {
            let facts = |inode: &Inode| {
                let acls = [ACCESS, DEFAULT].map(|name| found(&fs, inode.ino(), name));
                (acls, inode.core().gid())
            };
            assert_eq!(facts(&ours), facts(&theirs), "{n}: {}", String::from_utf8_lossy(&name));
        }
    }
    drop(fs);
    verify_all(&dev);
}

#[test]
fn files_without_inherited_acls_keep_their_permissions() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let made = |dir, name: &str, new: &NewNode| {
        let ino = fs.make(dir, name.as_bytes(), new).unwrap();
        assert_eq!(found(&fs, ino, DEFAULT).1, None);
        found(&fs, ino, ACCESS)
    };
    assert_eq!(made(root, "f", &NewNode::usual(FileType::Regular)), (0o644, None));
    assert_eq!(made(root, "d", &NewNode::usual(FileType::Directory)), (0o755, None));
    fs.set_xattr(root, DEFAULT, &acl([7, 5, 0], Some(7)), SetMode::Any).unwrap();
    let copy = NewNode { brings_acls: true, ..NewNode::directory(0o777) };
    assert_eq!(made(root, "copy", &copy), (0o777, None));
    let usual = made(root, "g", &NewNode::usual(FileType::Regular));
    assert_eq!(usual, (0o660, Some(acl([6, 5, 0], Some(6)))));
    fs.close().unwrap();
    verify_all(&dev);
}
