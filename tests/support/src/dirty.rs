//! Volumes with a dirty log of the kernel: shut down in the middle of work, as by a power failure,
//! or frozen and copied.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, Mode, OFlags, XattrFlags, lremovexattr, lsetxattr};

use crate::image::{Image, Mount, Scratch};
use crate::matrix::{Case, named};
use crate::tools::run;
use crate::trees::{Shape, bytes, corners, fresh};

/// How the work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A shutdown after a log flush: all changes are in the log, nothing more is written back.
    Flushed,
    /// A shutdown without a log flush: changes that have not reached the log are lost.
    Cut,
    /// A shutdown, a mount that recovers, more work, and another shutdown.
    Twice,
    /// The image is copied while the volume is frozen.
    Frozen,
}

/// Work in an empty directory. The files it returns stay open until the shutdown.
pub type Work = fn(&Path) -> io::Result<Vec<File>>;

/// One way to leave a dirty log.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// Short name, for messages.
    pub name: &'static str,
    /// Name of the volume in the matrix.
    pub volume: &'static str,
    /// Additional mount options.
    pub mount: &'static str,
    /// The work before the end.
    pub work: Work,
    /// How the work ends.
    pub end: End,
}

impl Crash {
    /// Makes the volume and leaves its log dirty. Returns `None`, with a note, if the machine
    /// cannot.
    pub fn leave<'scratch>(&self, scratch: &'scratch Scratch) -> Option<Image<'scratch>> {
        let case: Case = named(self.volume);
        let image = case.make(scratch)?;
        let mut mount = case.mount(&image, scratch, self.mount)?;
        let work = |mount: &Mount, name: &str| {
            let below = fresh(mount.path(), name).expect("a directory");
            (self.work)(&below).expect("the kernel works")
        };
        let mut held = work(&mount, "work");
        match self.end {
            End::Flushed => mount.shutdown(true).expect("shutdown"),
            End::Cut => mount.shutdown(false).expect("shutdown"),
            End::Twice => {
                mount.shutdown(true).expect("shutdown");
                drop(held);
                mount.unmount().expect("unmount");
                mount = case.mount(&image, scratch, self.mount)?;
                held = work(&mount, "again");
                mount.shutdown(true).expect("shutdown");
            }
            End::Frozen => {
                let freeze = |how: &str| {
                    run(Command::new("xfs_freeze").arg(how).arg(mount.path())).expect("xfs_freeze");
                };
                freeze("-f");
                let copy = image.copy("frozen.img");
                freeze("-u");
                drop(held);
                mount.unmount().expect("unmount");
                return Some(copy);
            }
        }
        drop(held);
        mount.unmount().expect("unmount");
        Some(image)
    }

    /// Leaves a dirty log that Linux can recover. Returns that image and the image as Linux
    /// recovered it.
    ///
    /// Linux sometimes leaves a log that it cannot recover itself: the tree of an orphan's fork is
    /// freed before the orphan is (seen with 6.18, "xfs_inactive_ifree returned error -117"). Up to
    /// three attempts are made.
    pub fn leave_recoverable<'scratch>(
        &self,
        scratch: &'scratch Scratch,
    ) -> Option<(Image<'scratch>, Image<'scratch>)> {
        for _ in 0..3 {
            let image = self.leave(scratch)?;
            let recovered = image.copy("recovered.img");
            match Mount::recover(&recovered, scratch) {
                Ok(()) => return Some((image, recovered)),
                Err(why) => eprintln!("{}: Linux does not recover what it left: {why}", self.name),
            }
        }
        panic!("{}: Linux recovered none of three", self.name);
    }
}

/// All ways to leave a dirty log.
pub const CRASHES: &[Crash] = &[
    crash("corners-flushed", "default", everything, End::Flushed),
    crash("corners-cut", "default-newer", everything, End::Cut),
    crash("corners-parent", "parent", everything, End::Flushed),
    crash("corners-1k", "block-1k", everything, End::Flushed),
    crash("corners-16k", "block-16k", everything, End::Flushed),
    crash("corners-dir-64k", "dir-block-64k-of-1k", everything, End::Flushed),
    crash("corners-inode-2k", "inode-2k", everything, End::Flushed),
    crash("corners-bare", "bare", everything, End::Flushed),
    crash("corners-external", "external-log", everything, End::Flushed),
    crash("corners-external-4k", "external-log-newer", everything, End::Cut),
    crash("corners-twice", "new-uuid", everything, End::Twice),
    crash("corners-frozen", "rmapbt", everything, End::Frozen),
    Crash {
        mount: "logbsize=256k",
        ..crash("corners-large-records", "stripe", everything, End::Flushed)
    },
    Crash {
        mount: "logbsize=16k,logbufs=2",
        ..crash("corners-small-records", "sector-4k", everything, End::Flushed)
    },
    crash("nothing-but-a-file", "default", one_file, End::Flushed),
    crash("created-and-removed", "default-newer", created_and_removed, End::Flushed),
    crash("created-and-removed-many-groups", "many-groups", created_and_removed, End::Flushed),
    crash("synced-then-changed", "default-newer", synced_then_changed, End::Flushed),
    crash("synced-then-changed-parent", "parent", synced_then_changed, End::Flushed),
    crash("synced-then-cut", "default", synced_then_changed, End::Cut),
    crash("open-but-removed", "default-newer", open_but_removed, End::Flushed),
    crash("wrapped", "default-newer", wrapped, End::Flushed),
    crash("wrapped-cut", "default", wrapped, End::Cut),
    crash("shrunk-and-labelled", "default-newer", shrunk_and_labelled, End::Flushed),
];

const fn crash(name: &'static str, volume: &'static str, work: Work, end: End) -> Crash {
    Crash { name, volume, mount: "", work, end }
}

/// Makes every corner case that this volume can hold.
fn everything(dir: &Path) -> io::Result<Vec<File>> {
    let block = rustix::fs::statvfs(dir)?.f_bsize;
    let probe = |name: &str| File::create_new(dir.join(name));
    let reflink = rustix::fs::ioctl_ficlone(&probe("one")?, &probe("two")?).is_ok();
    corners(dir, &Shape { block, reflink, ..Shape::DEFAULT })?;
    Ok(Vec::new())
}

fn one_file(dir: &Path) -> io::Result<Vec<File>> {
    fs::write(dir.join("only"), "in the log")?;
    Ok(Vec::new())
}

/// Creates and removes inode clusters within one log: their buffers are logged, then cancelled.
fn created_and_removed(dir: &Path) -> io::Result<Vec<File>> {
    for round in 0..3 {
        let new_dir = fresh(dir, &format!("round{round}"))?;
        for number in 0..1500 {
            fs::write(new_dir.join(number.to_string()), number.to_string())?;
        }
        rustix::fs::syncfs(File::open(dir)?)?;
        for number in (0..1500).filter(|number| number % 400 > round * 30) {
            fs::remove_file(new_dir.join(number.to_string()))?;
        }
    }
    Ok(Vec::new())
}

/// Syncs a tree, then makes changes of many kinds that reach only the log.
fn synced_then_changed(dir: &Path) -> io::Result<Vec<File>> {
    let old = fresh(dir, "old")?;
    everything(&old)?;
    rustix::fs::syncfs(File::open(dir)?)?;
    fs::rename(old.join("directories/sizes/links300"), dir.join("moved"))?;
    fs::remove_dir_all(old.join("directories/sizes/links1000"))?;
    fs::remove_dir_all(old.join("inodes/chunks"))?;
    for number in 0..700 {
        fs::write(dir.join(format!("new-{number}")), bytes(number, 300))?;
    }
    symlink("y".repeat(700), dir.join("long-link"))?;
    let attributes = old.join("attributes/counts/300");
    for number in (0..300).filter(|number| number % 3 == 0) {
        lremovexattr(&attributes, format!("user.name-{number}"))?;
    }
    lsetxattr(&attributes, "user.large", &bytes(1, 50_000), XattrFlags::empty())?;
    let file = OpenOptions::new().write(true).open(old.join("files/many-extents/2000"))?;
    for number in 0..500 {
        file.write_all_at(&bytes(number, 4096), number * 8192)?;
    }
    file.sync_all()?;
    let file = OpenOptions::new().write(true).open(old.join("files/sizes/1048576"))?;
    file.set_len(333_333)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 40_000, 100_000)?;
    let large = File::create_new(dir.join("large"))?;
    for number in 0..40 {
        large.write_all_at(&bytes(number, 10_000), number * 100_000)?;
        large.sync_data()?;
    }
    Ok(Vec::new())
}

/// Leaves inodes on the unlinked lists: removed while open, and created without a name.
fn open_but_removed(dir: &Path) -> io::Result<Vec<File>> {
    let mut held = Vec::new();
    for number in 0..300 {
        let path = dir.join(format!("held-{number}"));
        fs::write(&path, bytes(number, 5000))?;
        held.push(File::open(&path)?);
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let nameless = rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600))?;
        held.push(File::from(nameless));
    }
    for number in (0..300).filter(|number| number % 4 != 0) {
        fs::remove_file(dir.join(format!("held-{number}")))?;
    }
    Ok(held)
}

/// Takes a few blocks from the end of the volume and gives it a label: the log holds superblocks
/// with another size.
fn shrunk_and_labelled(dir: &Path) -> io::Result<Vec<File>> {
    fs::write(dir.join("before"), "")?;
    let mount = dir.parent().expect("below the mount point");
    let output = run(Command::new("xfs_growfs").arg("-n").arg(mount)).map_err(io::Error::other)?;
    let data = output.lines().find(|line| line.starts_with("data ")).unwrap_or_default();
    let blocks = data.split_once("blocks=").and_then(|(_, rest)| rest.split(',').next());
    let blocks: u64 =
        blocks.and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let shrink = (blocks - 64).to_string();
    run(Command::new("xfs_growfs").args(["-D", &shrink]).arg(mount)).map_err(io::Error::other)?;
    run(Command::new("xfs_io").args(["-c", "label -s smaller"]).arg(mount))
        .map_err(io::Error::other)?;
    fs::write(dir.join("after"), "")?;
    Ok(Vec::new())
}

/// Does more work than the log holds, so that the log wraps.
fn wrapped(dir: &Path) -> io::Result<Vec<File>> {
    for round in 0..30 {
        let part = fresh(dir, &format!("round{round}"))?;
        for number in 0..600 {
            let path = part.join(format!("file-{number}"));
            fs::write(&path, "")?;
            lsetxattr(&path, "user.some", &bytes(number, 2500), XattrFlags::empty())?;
        }
        rustix::fs::syncfs(File::open(dir)?)?;
        if round % 3 == 2 {
            fs::remove_dir_all(dir.join(format!("round{}", round - 1)))?;
        }
    }
    Ok(Vec::new())
}
