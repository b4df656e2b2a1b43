//! Directories below themselves, on a volume with parent pointers.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::inode::CRC_OFFSET;
use xfskit_format::sb::Superblock;
use xfskit_repair::Repair;
use xfskit_test_support::{kept, verify, volumes};
use xfskit_units::{AgNumber, ByteOffset, Geometry, Ino};
use xfskit_vfs::{Clock, Follow, Fs, NewNode};

use crate::claims::FORK;
use crate::common::check_all;

/// Bytes of the volume: the smallest that mkfs makes.
const SIZE: u64 = 300 << 20;

/// A volume with directories below each other, and their inodes: the root, `a`, `a/b`, `a/b/c`, and
/// `a/b/c/x`.
struct Nested {
    bytes: Vec<u8>,
    geo: Geometry,
    inodes: [Ino; 5],
}

impl Nested {
    fn new() -> Self {
        let dev = volumes::make(SIZE, &[("-n", "parent=1"), ("-m", "rmapbt=1")]);
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let volume = Volume::open(Arc::clone(&dev) as _, &options).unwrap();
        let fs = Fs::new(volume, Clock::system());
        let mut inodes = [fs.root().unwrap().ino(); 5];
        for (n, name) in [b"a", b"b", b"c", b"x"].into_iter().enumerate() {
            inodes[n + 1] = fs.make(inodes[n], name, &NewNode::directory(0o755)).unwrap();
        }
        fs.close().unwrap();
        let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
        dev.read_at(ByteOffset(0), &mut bytes).unwrap();
        let geo = Superblock::verify(&bytes[..512], AgNumber(0)).unwrap().geometry();
        Self { bytes, geo, inodes }
    }

    /// Changes an inode; `change` gets its bytes.
    fn change(&mut self, ino: Ino, change: impl FnOnce(&mut [u8])) {
        let at = usize::try_from(self.geo.ino_to_byte(ino).unwrap().0).unwrap();
        let inode = &mut self.bytes[at..at + self.geo.inodesize()];
        change(inode);
        xfskit_crc::update(inode, CRC_OFFSET);
    }

    /// Makes ".." of a directory name another one.
    fn set_dotdot(&mut self, dir: Ino, parent: Ino) {
        let parent = u32::try_from(parent.0).unwrap().to_be_bytes();
        self.change(dir, |inode| inode[FORK + 2..FORK + 6].copy_from_slice(&parent));
    }

    /// Makes the only entry of a directory, of one letter, name another inode.
    fn set_entry(&mut self, dir: Ino, ino: Ino) {
        let ino = u32::try_from(ino.0).unwrap().to_be_bytes();
        // After the header: length, offset, name, type.
        let at = FORK + 6 + 1 + 2 + 1 + 1;
        self.change(dir, |inode| inode[at..at + 4].copy_from_slice(&ino));
    }

    /// Takes the only entry of a directory away.
    fn clear(&mut self, dir: Ino) {
        self.change(dir, |inode| {
            inode[FORK] = 0;
            inode[56..64].copy_from_slice(&6u64.to_be_bytes());
        });
    }
}

#[test]
fn parent_pointers_tell_where_a_cycle_of_directories_is_cut() {
    for agrees in [false, true] {
        let mut nested = Nested::new();
        let [root, a, _, c, x] = nested.inodes;
        // The root leads nowhere, and a is where x was. With or without a ".." that says so too.
        nested.clear(root);
        nested.set_entry(c, a);
        if agrees {
            nested.set_dotdot(a, c);
        }
        let dev: Arc<MemDevice> = Arc::new(kept::memory(&nested.bytes));
        let findings = check_all(&*dev).1;
        let is_cycle = |id: &str| id == "dir.cycle";
        assert!(findings.iter().any(|f| is_cycle(f.corruption.check.0)), "{findings:?}");
        let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
        let plan = prepared.plan();
        assert!(prepared.is_clean(), "{:#?}\n{plan:#?}", prepared.left());
        assert_eq!(plan.losses().count(), 0, "{plan:#?}");
        for (ino, name, dir) in [(a, "a", root), (x, "x", c)] {
            let step = plan.step(&format!("orphan.{ino}")).expect("a step");
            let what = format!("put inode {ino} back as {name:?} of directory {dir}");
            assert_eq!(step.what, what, "{plan:#?}");
        }
        prepared.commit(&*dev, None).unwrap();
        verify::device(&*dev).unwrap_or_else(|why| panic!("{why}: {plan:#?}"));
        let options = OpenOptions::default();
        let fs = Fs::new(Volume::open(dev as _, &options).unwrap(), Clock::system());
        assert_eq!(fs.resolve(b"/a/b/c/x", Follow::No).unwrap().ino(), x);
    }
}
