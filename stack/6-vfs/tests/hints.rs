//! Extent size hints are inherited from a directory, and copied from a file to its clones, as in
//! Linux.

use crate::common;

use common::{make, open, verify_all};
use xfskit_format::inode::{InodeFlags, InodeFlags2};
use xfskit_units::Ino;
use xfskit_vfs::{Fs, NewNode};

/// Returns the hints of an inode, for content and for copies on write; `None` if its flag is not
/// set.
fn hints(fs: &Fs, ino: Ino) -> (Option<u32>, Option<u32>) {
    let inode = fs.inode(ino).unwrap();
    let core = inode.core();
    let flagged = core.flags().intersects(InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT);
    let copies = core.flags2().contains(InodeFlags2::COWEXTSIZE);
    (flagged.then_some(core.extsize().0), copies.then_some(core.cowextsize().0))
}

#[test]
fn hints_are_inherited_and_copied() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
    let hint = |extsize, cowextsize, ino| {
        fs.volume().transact(|tx| {
            let inode = tx.iget(ino)?;
            if extsize > 0 {
                tx.set_extsize(inode, extsize);
            }
            tx.set_cowextsize(inode, cowextsize);
            Ok(())
        })
    };
    hint(16, 8, dir).unwrap();
    let below = fs.make(dir, b"below", &NewNode::directory(0o755)).unwrap();
    let file = fs.make(below, b"file", &NewNode::file(0o644)).unwrap();
    let link = fs.make(below, b"link", &NewNode::symlink(b"file")).unwrap();
    assert_eq!([below, file].map(|ino| hints(&fs, ino)), [(Some(16), Some(8)); 2]);
    assert_eq!(hints(&fs, link), (None, None));

    let own = fs.make(root, b"own", &NewNode::file(0o644)).unwrap();
    hint(0, 4, own).unwrap();
    let names = [&b"copy"[..], b"part"];
    let [copy, part] = names.map(|name| fs.make(root, name, &NewNode::file(0o644)).unwrap());
    let source = fs.open(file).unwrap();
    source.write(0, &[7; 3 << 12]).unwrap();
    for (ino, end) in [(own, 3 << 12), (copy, 3 << 12), (part, 2 << 12)] {
        fs.open(ino).unwrap().share(0, &source, 0..end).unwrap();
    }
    drop(source);
    // A copy of the whole file gets the hint; a file that has one keeps it.
    let found = [own, copy, part].map(|ino| hints(&fs, ino));
    assert_eq!(found, [(None, Some(4)), (None, Some(8)), (None, None)]);
    fs.close().unwrap();
    verify_all(&dev);
}
