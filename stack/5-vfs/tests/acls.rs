//! ACLs and permissions say the same, as Linux has it.

mod common;

use common::{judge, make, open};
use xfskit_core::Error as Core;
use xfskit_core::attr::change::SetMode;
use xfskit_units::Ino;
use xfskit_vfs::{Error, Fs, NewNode, SetAttr};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// As programs have it: `user::U,user:1:rwx,group::G,mask::M,other::O`, the one user and the mask where there is one.
fn acl([user, group, other]: [u8; 3], mask: Option<u8>) -> Vec<u8> {
    let entry = |tag: u8, perm: u8, id: u32| [&[tag, 0, perm, 0][..], &id.to_le_bytes()].concat();
    let named = mask.map_or(vec![], |_| entry(2, 7, 1));
    let mask = mask.map_or(vec![], |mask| entry(16, mask, u32::MAX));
    let [user, group, other] =
        [(1, user), (4, group), (32, other)].map(|(t, p)| entry(t, p, u32::MAX));
    [vec![2, 0, 0, 0], user, named, group, mask, other].concat()
}

/// Permissions, and the ACL of this name.
fn found(fs: &Fs, ino: Ino, name: &[u8]) -> (u16, Option<Vec<u8>>) {
    let inode = fs.inode(ino).unwrap();
    let acls = fs.xattrs(&inode).0.into_iter().find(|xattr| xattr.name == name);
    (inode.core().mode() & 0o7777, acls.map(|xattr| xattr.value))
}

fn is_limit(answer: Result<(), Error>) -> bool {
    matches!(answer, Err(Error::Core(Core::Limit(_))))
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
    assert!(is_limit(set(link, ACCESS, &acl([6, 4, 4], Some(7)))));
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
    set(dir, DEFAULT, &acl([6, 4, 4], Some(7))).unwrap();
    assert_eq!(found(&fs, dir, DEFAULT), (0o755, Some(acl([6, 4, 4], Some(7)))));
    fs.close().unwrap();
    judge(&dev);
}
