//! Stress: work in steps, while other threads force the journal out between them.
//!
//! The journal of such a run is kept, together with the volume before it. Cut after any of its
//! records and put onto that volume, it is the journal of a crash at that moment, with the intents
//! that were open then.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FallocateFlags, XattrFlags};
use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_format::log::RecordHeader;
use xfskit_format::log::item::attri::AttrOp;
use xfskit_format::log::item::intent::Work;
use xfskit_format::log::item::{Intent, Item, split};
use xfskit_format::log::record::{self, BLOCK};
use xfskit_log::Records;
use xfskit_log::Transactions;
use xfskit_log::record::Crc;
use xfskit_recovery::open_log;
use xfskit_test_support::matrix::Case;
use xfskit_test_support::{Image, Scratch, Xfsprogs};
use xfskit_units::{ByteOffset, LogBlock, Lsn};
use zerocopy::FromBytes;

use crate::open;

/// The n-th step of an operation batch below a directory. An error ends the work.
pub type OpBatch = fn(&Path, u64) -> std::io::Result<()>;

/// Batches of all kinds.
pub const EVERYTHING: &[OpBatch] = &[share, names, parents, cut, attributes, exchange];
/// Batches of names, and of the attributes that follow from them.
pub const NAMES: &[OpBatch] = &[names, parents, parents, parents, attributes];

/// A crash point: a crash after this record.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    /// Blocks of the journal that had been written.
    blocks: u32,
    /// The block of these where the last record begins.
    last: u32,
    /// Open intents by kind, with their numbers.
    pub open: BTreeMap<&'static str, u32>,
}

/// A finished stress run.
#[derive(Debug)]
pub struct Stress<'scratch> {
    /// The volume before the run.
    base: Image<'scratch>,
    /// The journal's head before the run.
    head: Lsn,
    /// The journal from that head on.
    journal: Vec<u8>,
    /// Crash points with open intents.
    pub crash_points: Vec<CrashPoint>,
    /// Numbers of logged intents and done items by kind.
    pub intents: BTreeMap<&'static str, u32>,
}

impl<'scratch> Stress<'scratch> {
    /// Makes the volume `case`, and lets the kernel run `work` on it for a while. Returns `None`,
    /// with a note, if the machine cannot, or no intent was open at any record.
    ///
    /// # Panics
    /// If a tool or the kernel fails.
    pub fn record(
        scratch: &'scratch Scratch,
        case: &Case,
        work: &[OpBatch],
        mut time: Duration,
    ) -> Option<Self> {
        let image = case.make(scratch)?;
        if case.mebibytes > 64 {
            mark_blocks(&image);
        }
        let mount = case.mount(&image, scratch, "")?;
        prepare(mount.path());
        mount.unmount().expect("unmount");
        let base = image.copy("base.img");
        for _ in 0..4 {
            let after_stress = base.copy("after_stress.img");
            let mount = case.mount(&after_stress, scratch, "")?;
            run_batches(mount.path(), work, time, || mount.shutdown(true).expect("shutdown"));
            mount.unmount().expect("unmount");
            if let Some(stress) = Self::read(base.copy("calm.img"), &after_stress) {
                return Some(stress);
            }
            // The journal has wrapped.
            time /= 2;
        }
        None
    }

    /// Reads the records of `stormy`'s journal that `base` does not have; `None` if the journal has
    /// wrapped meanwhile.
    ///
    /// # Panics
    /// If there is no journal.
    pub fn read(base: Image<'scratch>, after_stress: &Image<'_>) -> Option<Self> {
        let (before, dev) =
            (open(base.path(), OpenMode::ReadOnly), open(after_stress.path(), OpenMode::ReadOnly));
        let geo = read_superblock(&dev).expect("superblock").geometry();
        let head = open_log(&before, None, &geo).expect("log").head();
        let log = open_log(&dev, None, &geo).expect("log");
        let [before, after] = [head, log.head()].map(Lsn::cycle);
        if before != after {
            return None;
        }
        let count = log.head().block().0 - head.block().0;
        let journal = log.ring().read_blocks(head.block(), count).expect("readable");
        let records = || Records::new(log.ring(), head.block(), log.head().block());
        let lengths: BTreeMap<LogBlock, u32> = records()
            .crc(Crc::IfPresent)
            .map(|record| record.expect("a good record"))
            .map(|record| (record.at, u32::try_from(record.header.blocks()).expect("short")))
            .collect();
        let mut stress =
            Self { base, head, journal, crash_points: vec![], intents: BTreeMap::new() };
        let mut open = BTreeMap::new();
        let mut transactions = Transactions::new(records());
        while let Some(transaction) = transactions.next() {
            let transaction = transaction.expect("a good transaction");
            let ctx = transactions.ctx(&transaction);
            for item in split(&transaction.regions()[1..], &ctx) {
                match Item::decode(item.expect("an item"), &ctx).expect("a good item") {
                    Item::Intent(intent) => {
                        *stress.intents.entry(intent_name(&intent)).or_default() += 1;
                        open.insert((intent.family, intent.id), intent_name(&intent));
                    }
                    Item::Done(done) => {
                        *stress.intents.entry(done.family.done_name()).or_default() += 1;
                        open.remove(&(done.family, done.id));
                    }
                    _ => {}
                }
            }
            stress.collect(transaction.commit_lsn.block(), &lengths, open.values().copied());
        }
        Some(stress)
    }

    /// Collects the open intents after the record at `at`. May run more than once for a record.
    fn collect(
        &mut self,
        at: LogBlock,
        lengths: &BTreeMap<LogBlock, u32>,
        kinds: impl Iterator<Item = &'static str>,
    ) {
        let mut open = BTreeMap::new();
        kinds.for_each(|kind| *open.entry(kind).or_default() += 1);
        let last = at.0 - self.head.block().0;
        self.crash_points.retain(|point| point.last != last);
        if !open.is_empty() {
            self.crash_points.push(CrashPoint { blocks: last + lengths[&at], last, open });
        }
    }

    /// Returns at most `most` crash points, each with different kinds of open intents, those with
    /// many kinds first.
    pub fn representative(&self, most: usize) -> Vec<CrashPoint> {
        let mut kinds: BTreeMap<Vec<&'static str>, CrashPoint> = BTreeMap::new();
        for point in &self.crash_points {
            let key = point.open.keys().copied().collect();
            kinds.entry(key).or_insert_with(|| point.clone());
        }
        let mut chosen: Vec<CrashPoint> = kinds.into_values().collect();
        chosen.sort_by_key(|point| std::cmp::Reverse(point.open.len()));
        chosen.truncate(most);
        chosen
    }

    /// Returns the volume after a crash at `moment`, with nothing written in place yet.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn crashed(&self, point: &CrashPoint, name: &str) -> Image<'scratch> {
        let image = self.base.copy(name);
        let mut journal = self.journal[..point.blocks as usize * BLOCK].to_vec();
        // All of the last record is needed.
        let last = &mut journal[point.last as usize * BLOCK..];
        let header = RecordHeader::mut_from_bytes(&mut last[..BLOCK]).expect("a header");
        header.tail_lsn = self.head.0.into();
        let (headers, len) = (header.header_blocks(), header.len.get() as usize);
        record::sum(&mut last[..headers * BLOCK + len], headers);
        let dev = open(image.path(), OpenMode::ReadWrite);
        let geo = read_superblock(&dev).expect("superblock").geometry();
        let log = open_log(&dev, None, &geo).expect("log");
        log.ring().write(self.head.block(), &journal).expect("written");
        drop(log);
        dev.flush().expect("flushed");
        image
    }
}

/// Returns the name of an intent. Names of attribute intents include the operation.
fn intent_name(intent: &Intent) -> &'static str {
    match &intent.work {
        Work::Attr(attri) => match attri.op {
            AttrOp::Set => "ATTRI set",
            AttrOp::Remove => "ATTRI remove",
            AttrOp::Replace => "ATTRI replace",
            AttrOp::ParentSet => "ATTRI parent set",
            AttrOp::ParentRemove => "ATTRI parent remove",
            AttrOp::ParentReplace => "ATTRI parent replace",
        },
        _ => intent.family.intent_name(),
    }
}

/// Writes its own number into every block of the image, so that content shows where it comes from.
fn mark_blocks(image: &Image<'_>) {
    let dev = open(image.path(), OpenMode::ReadWrite);
    let geo = read_superblock(&dev).expect("superblock").geometry();
    for agno in geo.ags() {
        // Starts after the headers and btree roots of an empty group; the log lies in the middle of
        // one.
        let first = geo.agb_to_daddr(agno, xfskit_units::AgBlock(64)).byte_offset().0;
        let log = geo.log_daddr().expect("an internal log").byte_offset().0;
        let log_end = log + (u64::from(geo.logblocks) << geo.blocklog);
        let blocksize = geo.blocksize() as u64;
        let end = first + u64::from(geo.ag_length(agno).saturating_sub(64)) * blocksize;
        for at in (first..end).step_by(geo.blocksize()) {
            if !(log..log_end).contains(&at) {
                dev.write_at(ByteOffset(at), &at.to_be_bytes()).expect("written");
            }
        }
    }
}

/// Creates files with many extents before the run. All have the same size: when Linux finishes an
/// exchange of sizes, it frees the blocks beyond the smaller one.
///
/// # Panics
/// If they cannot be created.
pub fn prepare(root: &Path) {
    for (name, odd) in [("source", 0), ("even", 0), ("odd", 1), ("cut", 0)] {
        let file = File::create(root.join(name)).expect("a file");
        for n in 0..200_u64 {
            let block = [u8::try_from(n).unwrap_or(0); 4096];
            file.write_all_at(&block, (n * 2 + odd) * 4096).expect("written");
        }
        file.set_len(400 * 4096).expect("long enough");
    }
    for name in ["names", "parents", "attrs"] {
        fs::create_dir(root.join(name)).expect("a directory");
    }
    rustix::fs::sync();
}

/// Runs all batches below `root`, each in a thread, until `time` is over and `end` has shut the
/// volume down.
pub fn run_batches(root: &Path, work: &[OpBatch], time: Duration, end: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for work in work {
            let stop = &stop;
            threads.spawn(move || {
                let mut n = 0;
                // An error ends the work: the volume has been shut down.
                while !stop.load(Ordering::Relaxed) && work(root, n).is_ok() {
                    n += 1;
                }
            });
        }
        for name in ["force0", "force1", "force2"] {
            let stop = &stop;
            threads.spawn(move || force(root, name, stop));
        }
        std::thread::sleep(time);
        end();
        stop.store(true, Ordering::Relaxed);
    });
}

/// Makes clones, renames them over older ones, truncates them and writes to them.
fn share(root: &Path, n: u64) -> std::io::Result<()> {
    let source = File::open(root.join("source"))?;
    let (new, old) = (root.join(format!("new{n}")), root.join(format!("old{}", n % 7)));
    let file = File::create(&new)?;
    let _ = rustix::fs::ioctl_ficlone(&file, &source);
    fs::rename(&new, &old)?;
    file.set_len((n % 60) * 4096)?;
    file.write_all_at(&[2; 3 * 4096], (n % 50) * 8192)
}

/// Creates and removes links with long names.
fn names(root: &Path, n: u64) -> std::io::Result<()> {
    let name = |n: u64| root.join("names").join(format!("link{}-{}", n % 50, "x".repeat(60)));
    let renamed = root.join("names").join(format!("another name {}-{}", n % 30, "y".repeat(80)));
    fs::hard_link(root.join("source"), name(n)).ok();
    if n.is_multiple_of(3) {
        fs::rename(name(n), renamed)?;
    }
    fs::remove_file(name(n + 25)).ok();
    let dir = root.join(format!("dir{}", n % 5));
    if n.is_multiple_of(2) {
        fs::create_dir(&dir).ok()
    } else {
        fs::remove_dir(&dir).ok()
    };
    File::create(root.join("names").join(format!("file{}", n % 9))).map(drop)
}

/// Creates, renames and removes files with long names. With parent pointers these fill attribute
/// leaves.
fn parents(root: &Path, n: u64) -> std::io::Result<()> {
    let dir = root.join("parents");
    let file = dir.join(format!("file{}", n % 4));
    if n < 4 {
        File::create(&file)?;
    }
    let name = |n: u64| dir.join(format!("{}{:x>200}", n % 160, ""));
    match n % 3 {
        0 => fs::hard_link(&file, name(n * 7)).ok(),
        1 => fs::rename(name(n * 11), name(n * 5)).ok(),
        _ => fs::remove_file(name(n * 13)).ok(),
    };
    Ok(())
}

/// Makes holes and unwritten extents, collapses and inserts ranges.
fn cut(root: &Path, n: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(root.join("cut"))?;
    let at = (n * 13 % 180) * 4096;
    let (how, len) = match n % 5 {
        0 => (FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 20 * 4096),
        1 => (FallocateFlags::COLLAPSE_RANGE, 4096),
        2 => (FallocateFlags::INSERT_RANGE, 4096),
        3 => (FallocateFlags::empty(), 30 * 4096),
        _ => return file.write_all_at(&[5; 8192], at + 4096),
    };
    rustix::fs::fallocate(&file, how, at, len).ok();
    Ok(())
}

/// Sets and removes attributes, short and long.
fn attributes(root: &Path, n: u64) -> std::io::Result<()> {
    let path = root.join("attrs").join(format!("file{}", n % 6));
    File::create(&path)?;
    let name = format!("user.attribute{}", n * 7 % 40);
    let value = vec![b'v'; usize::try_from(n * 37 % 300).unwrap_or(0)];
    rustix::fs::setxattr(&path, name.as_str(), &value, XattrFlags::empty()).ok();
    rustix::fs::removexattr(&path, format!("user.attribute{}", n * 11 % 40).as_str()).ok();
    if n.is_multiple_of(50) { fs::remove_file(path) } else { Ok(()) }
}

/// Exchanges content of many extents, if tools and volume support that.
fn exchange(root: &Path, _: u64) -> std::io::Result<()> {
    let Some(tools) = Xfsprogs::newer() else { return Err(std::io::ErrorKind::NotFound.into()) };
    let mut command = tools.command("xfs_io");
    for _ in 0..20 {
        command.args(["-c", "exchangerange odd"]);
    }
    let done = command.arg("even").current_dir(root).output()?;
    if done.stderr.is_empty() { Ok(()) } else { Err(std::io::ErrorKind::Other.into()) }
}

fn force(root: &Path, name: &str, stop: &AtomicBool) {
    let Ok(file) = File::create(root.join(name)) else { return };
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        if file.write_all_at(&[3; 16], n % 100 * 16).is_err() || file.sync_all().is_err() {
            break;
        }
    }
}
