//! All that can be read of a damaged volume, copied out of it.

use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use xfskit_block::{BlockDevice, OpenMode, OverlayDevice};
use xfskit_copy::{self as copy, Event, GetOptions, SkippedCount};
use xfskit_recovery::{BeforeDamage, replay_before_damage};
use xfskit_target as target;
use xfskit_units::ByteLen;

use crate::builder::{cancel_method, progress_method};
use crate::cancel_device::CancelDevice;
use crate::cause::Cause;
use crate::extract::Cancellable;
use crate::progress::Control;
use crate::volume_options::parse;
use crate::{CancelToken, Error, ErrorKind, Progress, Result, Volume, VolumeOptions};

/// Maximum number of damages that are kept. A damaged volume may have any number.
const DAMAGES_MAX: usize = 100_000;
/// Memory for what the replay of a damaged journal changes; more goes to a file without a name.
const OVERLAY_MAX: ByteLen = ByteLen(256 << 20);

/// Copies all that can be read of a damaged volume: a builder. The target is opened for reading,
/// and nothing is repaired.
///
/// A lost primary superblock is replaced by a secondary in memory. A dirty journal is replayed in
/// memory, a damaged one up to its first damage. Files that no directory names any more go below
/// `lost+found` in the destination.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let salvaged = xfskit::Salvage::new().to_dir("disk.img", "./saved")?;
/// for damage in &salvaged.damages {
///     println!("{damage}"); // which file, which bytes of it, and why
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is copied until `to_dir` or `to_tar` is called"]
pub struct Salvage<'c> {
    threads: usize,
    log: Option<PathBuf>,
    control: Control<'c>,
}

/// What a [`Salvage`] copied, and what is damaged.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Salvaged {
    /// Files, directories, links and devices.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Files and directories that no directory named, without those below such directories.
    pub unnamed: u64,
    /// The directory in the destination with these; `None` if there are none.
    #[serde(serialize_with = "lossy")]
    pub lost_found: Option<PathBuf>,
    /// The counts of what the destination could not hold.
    pub skipped: Vec<SkippedCount>,
    /// The group of the superblock by which the volume was read, if the primary is damaged.
    pub secondary_superblock: Option<u32>,
    /// The part of the journal that was not replayed, and the reason. The newest changes are
    /// missing then, and what they touched may be inconsistent.
    pub journal: Option<String>,
    /// The damage, in the order in which it was met.
    pub damages: Vec<Damage>,
    /// The number of damages that were not kept.
    pub damages_more: u64,
}

/// Something that a [`Salvage`] could not read, or could not write to the destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Damage {
    /// The path in the volume; below [`lost_found`](Salvaged::lost_found), the path in the
    /// destination. `None` for an inode without a name, or if no file is damaged.
    #[serde(serialize_with = "lossy")]
    pub path: Option<PathBuf>,
    /// The inode number.
    pub inode: Option<u64>,
    /// The group whose inode btree is damaged: its inodes that no directory names may not be found.
    pub group: Option<u32>,
    /// The bytes of the file that are missing. They are zeroes in the copy.
    pub range: Option<Range<u64>>,
    /// The reason.
    pub reason: String,
}

/// Serialises a path, which need not be UTF-8, as text.
#[allow(clippy::ref_option)] // the signature that serde calls
fn lossy<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}

/// Returns `path` on one line.
fn line(path: &Path) -> String {
    path.to_string_lossy().replace('\n', "\\n")
}

impl Salvaged {
    /// Returns true if everything of the volume was read, and written to the destination.
    pub fn is_complete(&self) -> bool {
        self.damages.is_empty()
            && self.secondary_superblock.is_none()
            && self.journal.is_none()
            && self.skipped.iter().all(|skipped| skipped.usual)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.inode, self.group) {
            (Some(path), Some(inode), _) => write!(f, "{} (inode {inode})", line(path))?,
            (Some(path), None, _) => f.write_str(&line(path))?,
            (None, Some(inode), _) => write!(f, "inode {inode}, without a name")?,
            (None, None, Some(group)) => {
                write!(f, "group {group}, of which inodes without a name may not be found")?;
            }
            (None, None, None) => f.write_str("the volume")?,
        }
        if let Some(Range { start, end }) = self.range {
            write!(f, ", bytes {start} to {}", end.saturating_sub(1))?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, bytes, unnamed, .. } = self;
        writeln!(
            f,
            "{files} files and directories, {} copied",
            target::size::format(ByteLen(*bytes))
        )?;
        if let Some(agno) = self.secondary_superblock {
            writeln!(f, "the primary superblock is damaged; read by the copy in group {agno}")?;
        }
        if let Some(reason) = &self.journal {
            writeln!(f, "the journal: {reason}")?;
        }
        if let Some(lost_found) = &self.lost_found {
            writeln!(f, "{unnamed} that no directory names, in {}", lost_found.display())?;
        }
        for damage in &self.damages {
            writeln!(f, "damaged: {damage}")?;
        }
        match self.damages_more {
            0 => Ok(()),
            more => writeln!(f, "damaged: and {more} more"),
        }
    }
}

/// A running salvage.
#[derive(Debug)]
struct Run<'r, 'c> {
    control: &'r Control<'c>,
    volume: Volume,
    /// Inodes in use, by the counters.
    total: u64,
    done: AtomicU64,
    /// A leaf lock.
    report: Mutex<Salvaged>,
}

impl<'c> Salvage<'c> {
    /// Returns a salvage with one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Names the target with the journal, for a volume with an external log.
    pub fn log(mut self, target: impl AsRef<Path>) -> Self {
        self.log = Some(target.as_ref().to_owned());
        self
    }

    progress_method! {
        /// Receives the progress, in files.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). What was
        /// copied is still there.
    }

    /// Copies to the directory `dest`, which does not exist or is empty.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for the destination, those of writing it,
    /// and those of opening the target if no superblock can be read. Damage is no error: see
    /// [`Salvaged::damages`].
    pub fn to_dir(&self, target: impl AsRef<Path>, dest: impl AsRef<Path>) -> Result<Salvaged> {
        let run = self.open(target.as_ref())?;
        let options =
            GetOptions { threads: self.threads, cancelled: Some(self.control.cancel.flag()) };
        let take = |event: Event<'_>| run.take(event);
        let done = copy::salvage(&run.volume.owner, dest.as_ref(), options, &take);
        run.end(done)
    }

    /// Writes a tar archive to `out`.
    ///
    /// # Errors
    /// Those of `out`; as [`to_dir`](Self::to_dir).
    pub fn to_tar(&self, target: impl AsRef<Path>, out: impl Write) -> Result<Salvaged> {
        let run = self.open(target.as_ref())?;
        let take = |event: Event<'_>| run.take(event);
        let out = Cancellable::new(out, &self.control.cancel);
        let done = copy::salvage_to_archive(&run.volume.owner, out, &take);
        run.end(done)
    }

    /// Opens the volume, with its journal replayed in memory as far as that can be done.
    fn open(&self, target: &Path) -> Result<Run<'_, 'c>> {
        let device =
            target::open(&parse(target.as_os_str())?, OpenMode::ReadOnly).map_err(Error::new)?;
        let cancel = &self.control.cancel;
        let device: Arc<dyn BlockDevice> = Arc::new(CancelDevice::new(device, cancel.clone()));
        let options = self.log.iter().fold(VolumeOptions::new(), VolumeOptions::log);
        let mut report = Salvaged::default();
        let replayed = options.open_device(Arc::clone(&device), options.log_device()?);
        let volume = match replayed {
            Err(_) if cancel.is_cancelled() => return Err(Error::new(Cause::Cancelled)),
            Err(error) if !matches!(error.kind(), ErrorKind::NotXfs | ErrorKind::InvalidInput) => {
                // The first error tells more, if this fails too.
                let options = options.recovery(false);
                let Ok(volume) = options.open_device(Arc::clone(&device), None) else {
                    return Err(error);
                };
                let part = (self.log.is_none()).then(|| replay_part(&volume, &device, &options));
                let (volume, reason) = part.flatten().unwrap_or_else(|| {
                    (volume, format!("not replayed, its changes are missing: {error}"))
                });
                report.journal = Some(reason);
                volume
            }
            opened => opened?,
        };
        let core = volume.owner.volume();
        report.secondary_superblock = core.secondary_superblock().map(|copy| copy.agno.0);
        let faults = core.faults().iter().map(|fault| Damage {
            path: None,
            inode: None,
            group: None,
            range: None,
            reason: fault.to_string(),
        });
        report.damages.extend(faults);
        let counts = core.counts();
        let total = counts.icount.saturating_sub(counts.ifree);
        let (done, report) = (AtomicU64::new(0), Mutex::new(report));
        Ok(Run { control: &self.control, volume, total, done, report })
    }
}

/// Replays the damaged journal of `volume` up to the damage, in memory. Returns the volume then,
/// and what is missing; `None` if nothing can be replayed.
fn replay_part(
    volume: &Volume,
    device: &Arc<dyn BlockDevice>,
    options: &VolumeOptions,
) -> Option<(Volume, String)> {
    let sb = volume.owner.volume().superblock();
    let view = || {
        let overlay = OverlayDevice::new(Arc::clone(device));
        Ok(Arc::new(overlay.limited_to(OVERLAY_MAX, &std::env::temp_dir())))
    };
    let (overlay, done) = replay_before_damage(&sb, view).ok()?;
    let BeforeDamage { replay, damage, lost } = done;
    let (replay, damage) = (replay.filter(|replay| replay.transactions > 0)?, damage?);
    let volume = options.open_device(overlay, None).ok()?;
    let reason = format!(
        "{} transactions were replayed, {} behind the damage were not: {}",
        replay.transactions, lost.transactions, damage.fault
    );
    Some((volume, reason))
}

impl Run<'_, '_> {
    fn take(&self, event: Event<'_>) {
        let damage = |path: &[u8], reason: String| Damage {
            path: (!path.is_empty()).then(|| OsStr::from_bytes(path).into()),
            inode: None,
            group: None,
            range: None,
            reason,
        };
        let damage = match event {
            // The copy counts what it skips.
            Event::Found(_) | Event::Skipped { .. } => return,
            Event::Done { .. } => {
                let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                return self.control.report(done, self.total.max(done));
            }
            Event::Damaged { path, ino, range, error } => Damage {
                inode: Some(ino.0),
                range: range.map(|range| range.start.0..range.end.0),
                ..damage(path, error.to_string())
            },
            Event::GroupDamaged { agno, error } => {
                Damage { group: Some(agno.0), ..damage(b"", error.to_string()) }
            }
            Event::Refused { path, error } => damage(path, error.to_string()),
        };
        let mut report = self.report.lock();
        if report.damages.len() < DAMAGES_MAX {
            report.damages.push(damage);
        } else {
            report.damages_more = report.damages_more.saturating_add(1);
        }
    }

    fn end<E: Into<Cause>>(self, done: std::result::Result<copy::Salvaged, E>) -> Result<Salvaged> {
        if self.control.cancel.is_cancelled() {
            return Err(Error::new(Cause::Cancelled));
        }
        let copy::Salvaged { copied, unnamed, lost_found } = done.map_err(Error::new)?;
        let copy::Report { files, bytes, skipped } = copied;
        let lost_found = lost_found.map(|name| OsStr::from_bytes(&name).into());
        let report = self.report.into_inner();
        Ok(Salvaged { files, bytes, unnamed, lost_found, skipped, ..report })
    }
}
