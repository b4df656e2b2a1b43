//! A volume copied to a file.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::superblock::find_superblock;
use xfskit_format::sb::Superblock;
use xfskit_units::{AgNumber, ByteOffset, Geometry, Ino};

use crate::clean::Cleaner;
use crate::copy::Copy;
use crate::error::{Error, Result};
use crate::forks::{Found, Inodes};
use crate::format::{Content, FileFormat};
use crate::journal::{self, Plan};
use crate::mode::{Handling, JournalMode};
use crate::names::Obfuscator;
use crate::ordered;
use crate::report::{Phase, Progress, Report, Silent, Sink, WarningKind};
use crate::runs::{self, Kind, Run, Scattered};
use crate::walk::{self, Source};
use crate::writer::Writer;

/// Options of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Dump {
    /// Obfuscates names by this secret key, and clears values of attributes.
    pub obfuscate: Option<[u8; 16]>,
    /// Clears parts of blocks that no structure uses.
    pub zero_stale: bool,
    /// The format of the file. Without one, version 1 where it can hold everything.
    pub format: Option<FileFormat>,
    /// What to do with the journal.
    pub journal: JournalMode,
    /// Number of threads; at least 1.
    pub threads: usize,
    /// Stops at a range that cannot be read, in place of leaving it out.
    pub stop_on_error: bool,
}

/// How a dump is watched and stopped while it is written.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Receives the progress.
    pub progress: &'a dyn Progress,
    /// Set to stop the dump.
    pub cancelled: &'a AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for Watch<'_> {
    fn default() -> Self {
        Self { progress: &Silent, cancelled: &NEVER }
    }
}

impl Default for Dump {
    fn default() -> Self {
        Self {
            obfuscate: None,
            zero_stale: true,
            format: None,
            journal: JournalMode::Auto,
            threads: 1,
            stop_on_error: false,
        }
    }
}

/// A dump that has passed all checks, and can be written.
#[derive(Debug)]
pub struct Prepared {
    dump: Dump,
    superblock: Superblock,
    plan: Plan,
    format: FileFormat,
    sink: Sink,
}

impl Dump {
    /// Opens the volume on `dev`, with an external journal on `log_dev`, and decides what to do.
    /// Nothing is written to either.
    ///
    /// # Errors
    /// [`Error::Volume`] if there is no volume, and refusals: [`Error::Unsupported`],
    /// [`Error::Journal`], [`Error::ExternalLog`], [`Error::ExternalLogV1`].
    pub fn prepare(
        &self,
        dev: Arc<dyn BlockDevice>,
        log_dev: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Prepared> {
        let found = find_superblock(&*dev)?;
        let sink = Sink::default();
        let superblock = found.sb;
        let mut dev = dev;
        if let Some(secondary) = &found.secondary {
            let lost = !is_restorable(&*dev, &superblock);
            if lost {
                let copy = OverlayDevice::new(dev);
                copy.write_at(ByteOffset(0), &superblock.to_sector())?;
                dev = Arc::new(copy);
            }
            sink.warn(WarningKind::Superblock, || {
                let place = if lost { "stands in its place in the file" } else { "was used" };
                format!("{}; the copy in group {} {place}", secondary.corruption, secondary.agno)
            });
        }
        refuse(&superblock)?;
        let geo = superblock.geometry();
        let modes = (self.journal, self.obfuscate.is_some(), self.zero_stale);
        let plan = journal::plan(dev, log_dev, &geo, modes)?;
        let external = geo.logstart.is_none() && plan.handling != Handling::Omitted;
        let format = match (self.format, external) {
            (Some(FileFormat::V1), true) => return Err(Error::ExternalLogV1),
            (None, true) => FileFormat::V2,
            (chosen, _) => chosen.unwrap_or_default(),
        };
        Ok(Prepared { dump: *self, superblock, plan, format, sink })
    }
}

/// Returns true if the damaged primary superblock on `dev` still has the sizes of the volume. No
/// program restores a file without them.
fn is_restorable(dev: &dyn BlockDevice, superblock: &Superblock) -> bool {
    let mut sector = [0; 512];
    if dev.read_at(ByteOffset(0), &mut sector).is_err() {
        return false;
    }
    let sizes = |sb: &Superblock| {
        let logs = (sb.blocklog, sb.sectlog, sb.agblklog);
        (sb.magicnum, sb.blocksize, sb.dblocks, sb.agblocks, sb.agcount, sb.sectsize, logs)
    };
    Superblock::parse(&sector).is_some_and(|primary| sizes(primary) == sizes(superblock))
}

/// Refuses volumes with metadata that is not copied.
fn refuse(superblock: &Superblock) -> Result<()> {
    let features = superblock.features();
    if features.metadir() && superblock.rgcount.get() > 0 {
        return Err(Error::Unsupported("realtime groups".to_owned()));
    }
    Ok(())
}

/// Returns the inodes of regular files that are metadata.
fn plain_inodes(superblock: &Superblock, geo: &Geometry) -> Vec<Ino> {
    let quota = [superblock.uquotino, superblock.gquotino, superblock.pquotino];
    let set = |ino: u64| (ino != 0 && ino != u64::MAX).then_some(Ino(ino));
    let quota = quota.into_iter().filter_map(|ino| set(ino.get()));
    quota.chain(geo.rbmino).chain(geo.rsumino).collect()
}

impl Prepared {
    /// Returns the format that the file will have.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// Writes the file to `out`.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Cancelled`], and with
    /// [`stop_on_error`](Dump::stop_on_error) those of the device. Damage is a warning.
    pub fn write<W: Write>(self, out: W, watch: Watch<'_>) -> Result<(W, Report)> {
        let geo = self.superblock.geometry();
        let dump = &self.dump;
        let external = geo.logstart.is_none() && self.plan.handling != Handling::Omitted;
        let content = Content {
            obfuscated: dump.obfuscate.is_some(),
            full_blocks: !dump.zero_stale,
            dirty_log: self.plan.dirty,
            external_log: external,
            realtime: false,
        };
        let mut writer = Writer::new(out, self.format, content);
        let obfuscator = dump.obfuscate.map(|key| Obfuscator::new(key, &geo));
        let source = Source {
            dev: &*self.plan.dev,
            geo: &geo,
            sink: &self.sink,
            inodes_lost: AtomicBool::new(false),
        };
        let cleaner =
            Cleaner { geo: &geo, obfuscator: obfuscator.as_ref(), zero_stale: dump.zero_stale };
        let plain = plain_inodes(&self.superblock, &geo);
        let inodes = Inodes { plain, seen: Mutex::new(FxHashSet::default()) };
        let copy = Copy {
            source: &source,
            cleaner: &cleaner,
            inodes: &inodes,
            threads: dump.threads.max(1),
            stop_on_error: dump.stop_on_error,
            progress: watch.progress,
            cancelled: watch.cancelled,
        };
        let mut report = Report { format: self.format, content, ..Report::default() };
        let journal = self.plan.internal(&geo);
        let groups = walk_groups(&copy, journal)?;
        let is_inodes = |run: &&Run| run.kind == Kind::Inodes;
        let inode_bytes: usize = groups.iter().filter(is_inodes).map(Run::bytes).sum();
        report.inodes = (inode_bytes / geo.inodesize()) as u64;
        let (mut found, bytes) = copy.runs(&groups, &mut writer, Phase::Groups)?;
        report.metadata_bytes += bytes;
        report.extents = (found.runs.len() + found.scattered.len()) as u64;
        let mut taken = runs::joined(&groups);
        drop(groups);
        take_journal(&mut taken, journal);
        let bytes = copy_found(&copy, &mut found, &mut taken, &mut writer)?;
        report.metadata_bytes += bytes;
        if source.inodes_lost.load(Ordering::Relaxed) {
            found.named.extend(inodes.plain.iter().chain([&geo.rootino]).map(|ino| ino.0 & !63));
            let (bytes, named) = copy_named(&copy, found, &mut taken, &mut writer)?;
            report.metadata_bytes += bytes;
            report.inodes += named;
        }
        let warn_of_names = dump.obfuscate.is_some();
        report.metadata_bytes += self.plan.write(&copy, &mut writer, warn_of_names)?;
        let (out, bytes) = writer.finish().map_err(Error::Write)?;
        report.file_bytes = bytes;
        report.journal = Some(self.plan.handling);
        report.counts = self.sink.counts();
        report.warnings = self.sink.kept();
        Ok((out, report))
    }
}

/// Walks all groups, and returns their ranges in order.
fn walk_groups(copy: &Copy<'_>, journal: Option<(u64, u64)>) -> Result<Vec<Run>> {
    let (source, geo) = (copy.source, copy.source.geo);
    let total = geo.agcount;
    let count = xfskit_units::index(total.into());
    let agno = |n: usize| AgNumber(u32::try_from(n).unwrap_or(u32::MAX));
    let mut all = Vec::new();
    let work = |n: usize| walk::group(source, agno(n));
    ordered::for_each(copy.threads, count, work, |n, runs| -> Result<()> {
        copy.check_cancelled()?;
        all.extend(runs);
        copy.progress.report(Phase::Walk, n as u64 + 1, total.into());
        Ok(())
    })?;
    let taken: Vec<_> = journal.into_iter().collect();
    runs::tidy(&mut all, &taken, geo, |run| conflict(source, run));
    Ok(all)
}

/// Adds the journal to the sorted ranges that are copied elsewhere.
fn take_journal(taken: &mut Vec<(u64, u64)>, journal: Option<(u64, u64)>) {
    if let Some(journal) = journal {
        let at = taken.partition_point(|range| range.0 < journal.0);
        taken.insert(at, journal);
    }
}

/// Copies what inodes led to, as far as it is not copied already. Leaves in `found` the inodes that
/// directories name, and adds all ranges to `taken`. Returns the number of bytes.
fn copy_found<W: Write>(
    copy: &Copy<'_>,
    found: &mut Found,
    taken: &mut Vec<(u64, u64)>,
    writer: &mut Writer<W>,
) -> Result<u64> {
    tidy(copy.source, found, taken);
    let (more, bytes) = copy.runs(&found.runs, writer, Phase::Files)?;
    let (still_more, scattered_bytes) = copy.scattered(&found.scattered, writer)?;
    taken.extend(runs::joined(&found.runs));
    taken.sort_unstable();
    let named = std::mem::take(&mut found.named);
    *found = Found { named, ..Found::default() };
    found.extend(more);
    found.extend(still_more);
    Ok(bytes + scattered_bytes)
}

/// Copies inodes that no inode btree lists any more and that directories name, with what they lead
/// to. Returns the numbers of bytes and of inodes.
fn copy_named<W: Write>(
    copy: &Copy<'_>,
    mut found: Found,
    taken: &mut Vec<(u64, u64)>,
    writer: &mut Writer<W>,
) -> Result<(u64, u64)> {
    let geo = copy.source.geo;
    let (mut bytes, mut inodes) = (0, 0);
    loop {
        // Each round copies blocks that were not copied before, so there is a last one.
        let mut runs = walk::named_blocks(copy.source, &found.named, taken);
        runs::tidy(&mut runs, taken, geo, |_| {});
        if runs.is_empty() {
            return Ok((bytes, inodes));
        }
        let (more, copied) = copy.runs(&runs, writer, Phase::Groups)?;
        inodes += copied / geo.inodesize() as u64;
        taken.extend(runs::joined(&runs));
        taken.sort_unstable();
        found = more;
        bytes += copied + copy_found(copy, &mut found, taken, writer)?;
    }
}

/// Sorts what inodes led to, and removes what is copied already.
fn tidy(source: &Source<'_>, found: &mut Found, taken: &[(u64, u64)]) {
    runs::tidy(&mut found.runs, taken, source.geo, |run| conflict(source, run));
    let mut taken = taken.to_vec();
    taken.extend(runs::joined(&found.runs));
    taken.sort_unstable();
    let free = |run: &Run| {
        let first = taken.partition_point(|(_, end)| *end <= run.start.0);
        let free = taken.get(first).is_none_or(|(start, _)| *start >= run.end());
        if !free {
            conflict(source, run);
        }
        free
    };
    found.scattered.retain(|block: &Scattered| block.pieces.iter().all(free));
}

fn conflict(source: &Source<'_>, run: &Run) {
    source.sink.warn(WarningKind::Conflict, || {
        let owner = run.owner.map(|ino| format!(" of inode {ino}")).unwrap_or_default();
        let what = run.kind.describe();
        format!("{what}{owner} (sector {}): overlaps with other metadata", run.start)
    });
}
