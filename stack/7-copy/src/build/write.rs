//! The order of writing.
//!
//! 1. Old signatures are erased; the journal is written; the primary superblock gets "in progress"
//!    ([`xfskit_mkfs::write::begin`]).
//! 2. Inodes and their blocks are written in batches, by several threads.
//! 3. Headers and btrees of all groups are written.
//! 4. A flush, and the primary superblock without "in progress".
//!
//! Batches are taken in order, and those that have begun are finished, unless the caller stops. So
//! the error that is returned is that of the first batch that fails, whatever the threads. A pool
//! of `rayon` returns any of them.

use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use xfskit_block::{AlignedBuf, BlockDevice};
use xfskit_mkfs::write::{begin, finish, write_groups};
use xfskit_mkfs::{Plan, inodes};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Geometry, Ino, index};

use super::blueprint::Blueprint;
use super::content::{self, WriteBuffer};
use super::inode_order::REALTIME_INODES;
use super::{BuildError, OnProgress, inode};

/// Bytes that a thread collects before it writes them.
const WRITE_BUFFER: usize = 2 << 20;
/// A batch ends with the inode that brings it to this many bytes of blocks,
const BATCH_BYTES: u64 = 8 << 20;
/// or to this many inodes.
const BATCH_INODES: usize = 1024;
/// Maximum number of threads: each needs a buffer.
const THREADS_MAX: usize = 16;

/// Options of writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Number of threads. `None` is two for each processor, up to a bound: while one waits for the
    /// device, another reads the source. The bytes do not depend on it.
    pub threads: Option<NonZero<usize>>,
}

impl WriteOptions {
    fn threads(self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(|| (2 * processors()).min(THREADS_MAX), NonZero::get)
    }
}

/// Progress of the writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Inodes written.
    pub inodes: u64,
    /// Number of all inodes.
    pub total: u64,
}

/// Writes the volume of `blueprint` to `data`, and its log to `log` if it is external.
///
/// # Errors
/// [`BuildError::Source`] if a file cannot be read; [`BuildError::Mkfs`] and
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
    write_batches(data, blueprint, options, progress)?;
    write_groups(data, plan, totals, blueprint.groups.iter())?;
    finish(data, plan, totals)?;
    Ok(())
}

/// Inodes of one group that are written together, by their indexes in the order.
#[derive(Clone, Debug)]
struct InodeBatch {
    agno: AgNumber,
    places: Range<usize>,
    /// True for the group's last batch: free inodes follow to the end of the chunk.
    last: bool,
}

/// Cuts the order into batches that begin with a block of inodes.
fn batches(blueprint: &Blueprint<'_>) -> Vec<InodeBatch> {
    let geo = &blueprint.plan.geometry;
    let mut batches = Vec::new();
    for (agno, group) in geo.ags().zip(&blueprint.inode_order.groups) {
        let end = group.first + group.count;
        let (mut first, mut bytes) = (group.first, 0);
        for place in group.first..end {
            let whole = blueprint.inode_order.inos[place].0.is_multiple_of(geo.inopblock().into());
            if whole && (bytes >= BATCH_BYTES || place - first >= BATCH_INODES) {
                batches.push(InodeBatch { agno, places: first..place, last: false });
                (first, bytes) = (place, 0);
            }
            let blocks: u64 = blueprint.runs(place).iter().map(|run| u64::from(run.len)).sum();
            bytes += blocks << geo.blocklog;
        }
        if group.chunks.is_some() {
            batches.push(InodeBatch { agno, places: first..end, last: true });
        }
    }
    batches
}

fn write_batches(
    data: &dyn BlockDevice,
    blueprint: &Blueprint<'_>,
    options: WriteOptions,
    progress: OnProgress<'_>,
) -> Result<(), BuildError> {
    let batches = batches(blueprint);
    let total = blueprint.inodes();
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let failure: Mutex<Option<(usize, BuildError)>> = Mutex::new(None);
    let look = || match progress(Progress { inodes: done.load(Ordering::Relaxed), total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BuildError::Stopped),
    };
    let work = || {
        let mut buffer = WriteBuffer::new(data, WRITE_BUFFER, &look);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(number) else { break };
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let count = batch.places.len() as u64;
            let result = write_batch(data, &mut buffer, blueprint, batch).and_then(|()| {
                done.fetch_add(count, Ordering::Relaxed);
                look()
            });
            if let Err(error) = result {
                stop.store(true, Ordering::Relaxed);
                let mut failure = failure.lock();
                if failure.as_ref().is_none_or(|(earlier, _)| number < *earlier) {
                    *failure = Some((number, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads().min(batches.len()) {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner();
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

fn write_batch(
    data: &dyn BlockDevice,
    buffer: &mut WriteBuffer<'_>,
    blueprint: &Blueprint<'_>,
    batch: &InodeBatch,
) -> Result<(), BuildError> {
    let geo = &blueprint.plan.geometry;
    let mut table = Table::new(blueprint, batch);
    for place in batch.places.clone() {
        let inode_plan = blueprint.inode_plan(place)?;
        content::write(buffer, blueprint.tree, geo, &inode_plan)?;
        inode::fill(table.inode(geo, inode_plan.ino.0), blueprint.plan_input(), &inode_plan);
    }
    buffer.flush()?;
    data.write_at(table.at(geo), &table.bytes)?;
    Ok(())
}

/// The inodes of a batch, as on the device.
struct Table {
    /// Number of the first inode.
    first: u64,
    bytes: AlignedBuf,
}

impl Table {
    /// Returns all inodes of `batch`, and the free inodes after them.
    fn new(blueprint: &Blueprint<'_>, batch: &InodeBatch) -> Self {
        let (inode_order, plan) = (&blueprint.inode_order, blueprint.plan);
        let geo = &plan.geometry;
        let group = &inode_order.groups[batch.agno.0 as usize];
        let chunks = group.chunks.map_or((0, 0), |chunks| (chunks.start.0, chunks.end()));
        let block = |agbno: u32| geo.agino_to_ino(batch.agno, geo.agb_to_agino(AgBlock(agbno))).0;
        let first = if batch.places.start == group.first {
            block(chunks.0)
        } else {
            inode_order.inos[batch.places.start].0
        };
        let end = if batch.last { block(chunks.1) } else { inode_order.inos[batch.places.end].0 };
        let mut table = Self { first, bytes: AlignedBuf::new(index(end - first) << geo.inodelog) };
        // The other inodes are filled one by one.
        let behind = match batch.places.clone().last() {
            Some(last) => inode_order.inos[last].0 + 1,
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

    /// Copies the two inodes after the root directory, which are those that mkfs makes.
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
