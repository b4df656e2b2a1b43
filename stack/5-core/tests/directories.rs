//! Xfskit and the kernel take turns on one directory, through all of its forms. Each changes what
//! the other left, and `xfs_repair -n` checks the volume in between.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::inode::FileType;
use xfskit_test_support::{Image, Mount, Need, Random, Scratch, Xfsprogs, needs, ours};
use xfskit_units::Ino;

type Names = BTreeSet<Vec<u8>>;

/// A directory `d` whose names are all links to the file `f` beside it.
struct Turns<'s> {
    scratch: &'s Scratch,
    image: Image<'s>,
    names: Names,
    random: Random,
}

impl<'s> Turns<'s> {
    fn new(scratch: &'s Scratch, options: &[&str]) -> Self {
        let image = Image::sparse(scratch, "dirs.img", 400 << 20);
        Xfsprogs::installed().unwrap().mkfs(&image, options).unwrap();
        let mount = Mount::read_write(&image, scratch).unwrap();
        fs::create_dir(mount.path().join("d")).unwrap();
        fs::write(mount.path().join("f"), b"").unwrap();
        mount.unmount().unwrap();
        Self { scratch, image, names: Names::new(), random: Random::of_test(1) }
    }

    /// Names that come and names that go, such that `target` are left, and some that stay.
    fn plan(&mut self, target: usize) -> (Names, Names) {
        let (mut come, mut go) = (Names::new(), Names::new());
        let mut all: Vec<_> = self.names.iter().cloned().collect();
        for _ in 0..all.len() / 4 + self.names.len().saturating_sub(target) {
            if !all.is_empty() {
                let at = self.random.below(all.len());
                go.insert(all.swap_remove(at));
            }
        }
        let left = self.names.len() - go.len();
        while left + come.len() < target {
            let (n, len) = (self.random.below(10_000_000_usize), self.random.below(40) + 1);
            let name =
                if n.is_multiple_of(4) { twin(n % 1024) } else { format!("{n:0len$}").into() };
            if !self.names.contains(&name) {
                come.insert(name);
            }
        }
        self.names.retain(|name| !go.contains(name));
        self.names.extend(come.iter().cloned());
        (come, go)
    }

    fn kernel(&mut self, target: usize) {
        let (come, go) = self.plan(target);
        let mount = Mount::read_write(&self.image, self.scratch).unwrap();
        let dir = mount.path().join("d");
        for name in go {
            fs::remove_file(dir.join(OsStr::from_bytes(&name))).unwrap();
        }
        for name in come {
            fs::hard_link(mount.path().join("f"), dir.join(OsStr::from_bytes(&name))).unwrap();
        }
        mount.unmount().unwrap();
    }

    fn ours(&mut self, target: usize) {
        let (come, go) = self.plan(target);
        let dev = Arc::new(FileDevice::open(self.image.path(), OpenMode::ReadWrite).unwrap());
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let vol = Volume::open(dev, &options).unwrap();
        let root = vol.iget(vol.geo().rootino).unwrap();
        let find = |name: &[u8]| vol.lookup(&root, name).unwrap().unwrap().0;
        let (dir, file) = (find(b"d"), find(b"f"));
        let link = |change: i64, work: &dyn Fn(&mut xfskit_core::Tx<'_>, xfskit_core::TxInode)| {
            vol.transact(|tx| {
                let (dir, file) = (tx.iget(dir)?, tx.iget(file)?);
                work(tx, dir);
                let nlink = i64::from(tx.core(file).nlink()) + change;
                tx.set_nlink(file, u32::try_from(nlink).unwrap())
            })
            .unwrap();
        };
        for name in &go {
            link(-1, &|tx, dir| {
                assert_eq!(tx.dir_remove(dir, name).unwrap(), (file, FileType::Regular));
            });
        }
        for name in &come {
            link(1, &|tx, dir| tx.dir_create(dir, name, file, FileType::Regular).unwrap());
        }
        vol.close().unwrap();
    }

    /// Runs all checkers on the volume.
    fn check_all(&self) {
        for xfsprogs in Xfsprogs::all() {
            xfsprogs.repair_n(&self.image, &[]).unwrap();
        }
        let report = ours::check(&self.image);
        assert!(report.is_clean(), "{report:#?}");
        let mount = Mount::read_only(&self.image, self.scratch).unwrap();
        let list = fs::read_dir(mount.path().join("d")).unwrap();
        let found: Names = list.map(|e| e.unwrap().file_name().into_vec()).collect();
        assert!(found == self.names, "the kernel lists {} of {}", found.len(), self.names.len());
        for name in &self.names {
            fs::symlink_metadata(mount.path().join("d").join(OsStr::from_bytes(name))).unwrap();
        }
        mount.unmount().unwrap();
        let dev = Arc::new(FileDevice::open(self.image.path(), OpenMode::ReadOnly).unwrap());
        let vol = Volume::open(dev, &OpenOptions::default()).unwrap();
        let root = vol.iget(vol.geo().rootino).unwrap();
        let (dir, _): (Ino, _) = vol.lookup(&root, b"d").unwrap().unwrap();
        let mut found = Names::new();
        let dir = vol.iget(dir).unwrap();
        vol.readdir(&dir, 0, &mut |entry| {
            found.insert(entry.unwrap().name.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(found.remove(&b"."[..]) && found.remove(&b".."[..]) && found == self.names);
        for name in &self.names {
            assert!(vol.lookup(&dir, name).unwrap().is_some());
        }
    }
}

/// One of 1024 names of one hash.
fn twin(n: usize) -> Vec<u8> {
    (0..10).flat_map(|bit| if n >> bit & 1 == 0 { [0x41, 0x41] } else { [0x40, 0xc1] }).collect()
}

#[test]
fn kernel_and_xfskit_take_turns_on_a_directory_of_every_form() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for options in [
        &["-m", "rmapbt=0,reflink=0"][..],
        &["-m", "rmapbt=0,reflink=0", "-b", "size=1024", "-n", "size=4096"],
        &["-m", "rmapbt=0,reflink=0", "-n", "size=65536"],
    ] {
        let scratch = Scratch::new("directories");
        let mut turns = Turns::new(&scratch, options);
        for target in [10, 30, 100, 400, 1000, 9000, 3000, 1000, 420, 300, 60, 8, 0, 2] {
            turns.ours(target);
            turns.check_all();
            turns.kernel(target + target / 3);
            turns.check_all();
        }
    }
}
