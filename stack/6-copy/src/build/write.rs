//! The order of writing.
//!
//! 1. What is on the device goes; the journal is written; the primary superblock says "in
//!    progress" ([`xfskit_mkfs::write::begin`]).
//! 2. Inodes and what hangs off them, in stretches, by several threads.
//! 3. Headers and btrees of all groups.
//! 4. A flush, and the primary superblock without "in progress".

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use xfskit_block::{AlignedBuf, BlockDevice};
use xfskit_mkfs::write::{begin, finish, write_groups};
use xfskit_mkfs::{Plan, inodes};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Geometry, Ino, index};

use super::blueprint::Blueprint;
use super::census::REALTIME_INODES;
use super::content::{self, Stage};
use super::{BuildError, OnProgress, inode};

/// Bytes that a thread collects before it writes them.
const STAGE: usize = 2 << 20;
/// A stretch ends with the inode that brings it to so many blocks' bytes,
const STRETCH_BYTES: u64 = 8 << 20;
/// or to so many inodes.
const STRETCH_INODES: usize = 1024;
/// At most so many threads: each needs room for what it collects.
const THREADS_MAX: usize = 16;

/// How a volume is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Threads; where `None`, two for each processor, up to a bound: while one waits for the
    /// device, another reads the source. The bytes are the same.
    pub threads: Option<NonZero<usize>>,
}

impl WriteOptions {
    fn threads(self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(|| (2 * processors()).min(THREADS_MAX), NonZero::get)
    }
}

/// How far the writing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Inodes written.
    pub inodes: u64,
    /// Of so many.
    pub total: u64,
}

/// Writes the volume of `blueprint` to `data`, and its log to `log` where that is a device of its
/// own.
///
/// # Errors
/// [`BuildError::Source`] where a file cannot be read; [`BuildError::Mkfs`] and
/// [`BuildError::Device`]; [`BuildError::Stopped`]. The device then holds an unfinished volume.
pub fn write(
    data: &dyn BlockDevice,
    log: Option<&dyn BlockDevice>,
    blueprint: &Blueprint<'_>,
    options: WriteOptions,
    progress: OnProgress<'_>,
) -> Result<(), BuildError> {
    let (plan, totals) = (blueprint.plan, &blueprint.totals);
    begin(data, log, plan, totals)?;
    write_stretches(data, blueprint, options, progress)?;
    write_groups(data, plan, totals, blueprint.groups.iter())?;
    finish(data, plan, totals)?;
    Ok(())
}

/// Inodes of one group that are written together, by their places in the order.
#[derive(Clone, Debug)]
struct Stretch {
    agno: AgNumber,
    places: Range<usize>,
    /// The group's last one: free inodes follow to the end of the chunk.
    last: bool,
}

/// Cuts the order into stretches that begin with a block of inodes.
fn stretches(blueprint: &Blueprint<'_>) -> Vec<Stretch> {
    let geo = &blueprint.plan.geometry;
    let mut stretches = Vec::new();
    for (agno, group) in geo.ags().zip(&blueprint.census.groups) {
        let end = group.first + group.count;
        let (mut first, mut bytes) = (group.first, 0);
        for place in group.first..end {
            let whole = blueprint.census.inos[place].0.is_multiple_of(geo.inopblock().into());
            if whole && (bytes >= STRETCH_BYTES || place - first >= STRETCH_INODES) {
                stretches.push(Stretch { agno, places: first..place, last: false });
                (first, bytes) = (place, 0);
            }
            let blocks: u64 = blueprint.runs(place).iter().map(|run| u64::from(run.len)).sum();
            bytes += blocks << geo.blocklog;
        }
        if group.chunks.is_some() {
            stretches.push(Stretch { agno, places: first..end, last: true });
        }
    }
    stretches
}

fn write_stretches(
    data: &dyn BlockDevice,
    blueprint: &Blueprint<'_>,
    options: WriteOptions,
    progress: OnProgress<'_>,
) -> Result<(), BuildError> {
    let stretches = stretches(blueprint);
    let total = blueprint.inodes();
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let failure: Mutex<Option<(usize, BuildError)>> = Mutex::new(None);
    let work = || {
        let mut stage = Stage::new(data, STAGE);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(stretch) = stretches.get(number) else { break };
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let count = stretch.places.len() as u64;
            let result = write_stretch(data, &mut stage, blueprint, stretch).and_then(|()| {
                let inodes = done.fetch_add(count, Ordering::Relaxed) + count;
                match progress(Progress { inodes, total }) {
                    std::ops::ControlFlow::Continue(()) => Ok(()),
                    std::ops::ControlFlow::Break(()) => Err(BuildError::Stopped),
                }
            });
            if let Err(error) = result {
                stop.store(true, Ordering::Relaxed);
                let mut failure = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if failure.as_ref().is_none_or(|(earlier, _)| number < *earlier) {
                    *failure = Some((number, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads().min(stretches.len()) {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

fn write_stretch(
    data: &dyn BlockDevice,
    stage: &mut Stage<'_>,
    blueprint: &Blueprint<'_>,
    stretch: &Stretch,
) -> Result<(), BuildError> {
    let geo = &blueprint.plan.geometry;
    let mut table = Table::new(blueprint, stretch);
    for place in stretch.places.clone() {
        let anatomy = blueprint.anatomy(place)?;
        content::write(stage, blueprint.tree, geo, &anatomy)?;
        inode::fill(table.inode(geo, anatomy.ino.0), blueprint.makings(), &anatomy);
    }
    stage.flush()?;
    data.write_at(table.at(geo), &table.bytes)?;
    Ok(())
}

/// The inodes of a stretch, as they will stand on the device.
struct Table {
    /// The first inode's number.
    first: u64,
    bytes: AlignedBuf,
}

impl Table {
    /// All inodes of `stretch`, and those behind them that nobody uses.
    fn new(blueprint: &Blueprint<'_>, stretch: &Stretch) -> Self {
        let (census, plan) = (&blueprint.census, blueprint.plan);
        let geo = &plan.geometry;
        let group = &census.groups[stretch.agno.0 as usize];
        let chunks = group.chunks.map_or((0, 0), |chunks| (chunks.start.0, chunks.end()));
        let block = |agbno: u32| geo.agino_to_ino(stretch.agno, geo.agb_to_agino(AgBlock(agbno))).0;
        let first = if stretch.places.start == group.first {
            block(chunks.0)
        } else {
            census.inos[stretch.places.start].0
        };
        let end = if stretch.last { block(chunks.1) } else { census.inos[stretch.places.end].0 };
        let mut table = Self { first, bytes: AlignedBuf::new(index(end - first) << geo.inodelog) };
        // The others are filled one by one.
        let behind = match stretch.places.clone().last() {
            Some(last) => census.inos[last].0 + 1,
            None => first,
        };
        let free = behind.max(first);
        for ino in free..end {
            inode::free(table.inode(geo, ino), plan, Ino(ino));
        }
        if first == geo.rootino.0 {
            table.add_realtime(plan);
        }
        table
    }

    /// The two inodes behind the root directory are those that mkfs makes.
    fn add_realtime(&mut self, plan: &Plan) {
        let (geo, chunk) = (&plan.geometry, inodes::first_chunk(plan));
        for number in 1..=u64::from(REALTIME_INODES) {
            let ino = Ino(geo.rootino.0 + number);
            let bytes = self.inode(geo, ino.0);
            bytes.copy_from_slice(&chunk[index(number) << geo.inodelog..][..geo.inodesize()]);
            inode::set_generation(bytes, plan, ino);
        }
    }

    fn inode(&mut self, geo: &Geometry, ino: u64) -> &mut [u8] {
        &mut self.bytes[index(ino - self.first) << geo.inodelog..][..geo.inodesize()]
    }

    fn at(&self, geo: &Geometry) -> ByteOffset {
        geo.ino_to_byte(Ino(self.first)).unwrap_or_default()
    }
}
