//! Members of an array compared, and the volume on it asked which of them is wrong.
//!
//! 1. All stripes are compared, as in a [`Scrub`](super::Scrub). Mismatches are recorded.
//! 2. The volume is checked. A block that fails verification is read from the other members, and
//!    with repair rewritten on the member that was wrong.
//! 3. A mismatch that is left is in blocks without a checksum. On RAID6, P and Q show which member
//!    is wrong. On other levels: if no file has content in a page, everything in it was verified,
//!    so the parity (or the other copy) is wrong and is rewritten. A page with content is reported,
//!    with the file and the offset.
//!
//! Arrays within arrays are compared one by one. Mismatches of the outer array are resolved first,
//! with the help of those within (`2-md/array/nested`). If the outer one agrees, the data of the
//! inner ones are right.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::OpenMode;
use xfskit_check::{FileRange, Finding, Mismatches};
use xfskit_core::superblock::read_superblock;
use xfskit_log::Log;
use xfskit_md::array::scrub::Mismatch;
use xfskit_md::array::sync_action::{Completion, ScrubProgress};
use xfskit_target::{self as target, Nested};
use xfskit_units::ByteOffset;

use super::stack::{ArrayStack, DoubtfulContent};
use super::sync::SyncAction;
use crate::cause::Cause;
use crate::cause::array::ArrayError;
use crate::progress::Report;
use crate::target::{Device, Target};
use crate::{CancelToken, Check, Checked, Error, Progress, Result, VolumeOptions};

/// Maximum number of mismatching pages that are examined; more wait for the next run.
const PAGES_MAX: usize = 100_000;
/// Number of pages that are reported one by one.
const REPORTED_MAX: usize = 1000;

type OnNote<'c> = Box<dyn Fn(&str) + Sync + 'c>;

/// Compares the members of an array that a volume is on, and decides by the volume which of them
/// are wrong: a builder. It takes three steps.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// use xfskit::{Check, md::Compare};
///
/// let name = "md:a.img,b.img,c.img";
/// if let Some(compared) = Compare::new().repair(true).run(name)? {
///     let checked = Check::new().run_compared(&compared, |finding| println!("{finding}"))?;
///     let resolved = compared.resolve(checked.is_clean())?;
///     println!("{} pages did not agree, {} repaired", resolved.pages, resolved.repaired);
/// }
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "nothing is compared until `run` is called"]
pub struct Compare<'c> {
    repair: bool,
    log: Option<PathBuf>,
    progress: Report<'c, (SyncAction, Progress)>,
    notes: Option<OnNote<'c>>,
    cancel: CancelToken,
}

impl fmt::Debug for Compare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compare").field("repair", &self.repair).finish_non_exhaustive()
    }
}

/// The members of an array, compared: what is wrong is decided by a check of the volume,
/// [`Check::run_compared`], and then [`resolve`](Self::resolve).
pub struct Compared {
    stack: ArrayStack,
    /// For each array of the stack what was found.
    levels: Vec<Level>,
    repair: bool,
    log: Option<PathBuf>,
    mismatches: Mismatches,
}

/// The pages of an array that did not agree, and what became of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Resolved {
    /// Pages of 4 KiB that did not agree.
    pub pages: usize,
    /// Those of them that agree now.
    pub repaired: usize,
    /// The pages that the check did not repair, a thousand at most.
    pub listed: Vec<ResolvedPage>,
}

/// A page of an array that did not agree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedPage {
    /// The array, if it is one within another.
    pub array: Option<String>,
    /// The sectors of the members.
    pub sectors: Range<u64>,
    /// The role that is wrong, if parity or the other copies show it.
    pub role: Option<usize>,
    /// True if the page agrees now.
    pub repaired: bool,
    /// True if the data of the page are right, as the array around it shows.
    pub agrees_above: bool,
    /// The content of files in the page; `None` if it is not known.
    pub files: Option<Vec<DoubtfulContent>>,
}

/// The mismatches of one of several nested arrays.
#[derive(Default)]
struct Level {
    /// True if all of it was compared.
    compared: bool,
    /// Mismatches, by stripe.
    pages: BTreeMap<u64, Vec<Mismatch>>,
    /// Number of mismatches, those beyond [`PAGES_MAX`] included.
    count: usize,
    /// Mismatches that are left at the end.
    left: Vec<Mismatch>,
}

impl<'c> Compare<'c> {
    /// Returns a comparison that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Corrects what is known to be wrong, here and in the check. The volume's journal must have
    /// been replayed: open the volume for writing and close it first. Off by default.
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Names the target with the journal, for a volume with an external log.
    pub fn log(mut self, target: impl AsRef<Path>) -> Self {
        self.log = Some(target.as_ref().to_owned());
        self
    }

    /// Receives the progress of each action, in bytes of each member.
    pub fn progress(mut self, report: impl Fn(SyncAction, Progress) + Sync + 'c) -> Self {
        self.progress = Report::new(move |(action, progress)| report(action, progress));
        self
    }

    /// Receives what is not compared, and why, in a sentence.
    pub fn notes(mut self, receive: impl Fn(&str) + Sync + 'c) -> Self {
        self.notes = Some(Box::new(receive));
        self
    }

    /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Compares the members of the array of `target`. Returns `None` if it is no array, is being
    /// reshaped, or if nothing but its checksums is to be compared.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a repair of a volume whose journal
    /// waits for its replay; those of opening and reading the members.
    pub fn run(&self, target: impl AsRef<Path>) -> Result<Option<Compared>> {
        let target = Target::parse(target)?;
        let Some(name) = target.array_name() else { return Ok(None) };
        if target::is_reshaped(name).map_err(Error::new)? {
            self.note("the array is being reshaped: nothing but checksums is compared");
            return Ok(None);
        }
        let mode = if self.repair { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let Some(stack) = ArrayStack::open(&target, mode)? else { return Ok(None) };
        for nested in &stack.arrays {
            nested.array.read_first_copies();
        }
        if stack.arrays.iter().all(|nested| nested.array.scrub_stripes() == 0) && !self.repair {
            return Ok(None);
        }
        let options = options(self.log.as_deref());
        if self.repair {
            let volume = options.open_device(Arc::clone(&stack.device), options.log_device()?)?;
            if volume.owner.volume().replay().is_some_and(|replay| !replay.clean) {
                return Err(ArrayError::DirtyJournal(target.to_string()).error());
            }
        }
        let levels = stack.arrays.iter().map(|nested| self.compare(nested));
        let levels = levels.collect::<Result<Vec<_>>>()?;
        let (repair, log) = (self.repair, self.log.clone());
        let mut compared =
            Compared { stack, levels, repair, log, mismatches: Mismatches::default() };
        compared.mismatches = Mismatches::new(compared.ranges());
        if self.repair {
            compared.heal_journal()?;
        }
        Ok(Some(compared))
    }

    fn note(&self, note: &str) {
        if let Some(receive) = &self.notes {
            receive(note);
        }
    }

    fn report(&self, action: SyncAction, done: u64, total: u64) {
        self.progress.report((action, Progress { done, total }));
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::new(Cause::Cancelled)) } else { Ok(()) }
    }

    /// Compares all stripes of one array.
    fn compare(&self, nested: &Nested) -> Result<Level> {
        let (array, mut level) = (&nested.array, Level::default());
        if array.scrub_stripes() == 0 {
            return Ok(level);
        }
        if !array.can_be_scrubbed() {
            let name = match &nested.outer {
                Some(_) => format!("{}: ", nested.name),
                None => String::new(),
            };
            self.note(&format!(
                "{name}a member is missing or not complete: nothing but checksums is compared"
            ));
            return Ok(level);
        }
        if self.repair {
            let resynced = array.resync(|done, total| {
                self.report(SyncAction::Resync, done.0, total.0);
                !self.cancel.is_cancelled()
            });
            resynced.map_err(|source| failed(nested, source))?;
            self.check_cancelled()?;
        }
        let mut unchecked = 0;
        let watch = |found: ScrubProgress| {
            self.report(SyncAction::Check, found.progress.done.0, found.progress.total.0);
            unchecked = found.progress.bad.0;
            level.add(found.mismatches);
            if self.cancel.is_cancelled() {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        };
        let ended = array.scrub(0..array.scrub_stripes(), false, watch);
        let ended = ended.map_err(|source| failed(nested, source))?;
        if ended == Completion::Stopped {
            self.check_cancelled()?;
        }
        level.compared = unchecked == 0 && level.count <= PAGES_MAX;
        Ok(level)
    }
}

impl Level {
    fn add(&mut self, mismatches: Vec<Mismatch>) {
        for mismatch in mismatches {
            self.count += 1;
            if self.count <= PAGES_MAX {
                self.pages.entry(mismatch.stripe).or_default().push(mismatch);
            }
        }
    }
}

impl fmt::Debug for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compared").field("device", &self.stack.device).finish_non_exhaustive()
    }
}

impl Compared {
    /// Returns the device of the volume, through which it is read and rewritten.
    pub fn device(&self) -> Device {
        Device::new(Arc::clone(&self.stack.device))
    }

    /// Returns the mismatches, with the index of their array.
    fn pages(&self) -> impl Iterator<Item = (usize, &Mismatch)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(index, level)| level.pages.values().flatten().map(move |p| (index, p)))
    }

    /// Returns the ranges of the volume that mismatch.
    fn ranges(&self) -> Vec<Range<ByteOffset>> {
        self.pages().filter_map(|(index, page)| self.stack.places(index, page)).flatten().collect()
    }

    /// Resolves mismatches of the journal first: the check does not verify a clean journal.
    fn heal_journal(&self) -> Result<()> {
        let device = &*self.stack.device;
        let geo = read_superblock(device).map_err(Error::new)?.geometry();
        let Some(start) = geo.log_daddr() else { return Ok(()) };
        let first = start.byte_offset().0;
        let journal = first..first.saturating_add(u64::from(geo.log_bbs()) * 512);
        let doubtful = self
            .ranges()
            .into_iter()
            .map(|place| place.start.0.max(journal.start)..place.end.0.min(journal.end))
            .filter(|place| !place.is_empty())
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let Some(bytes) = doubtful else { return Ok(()) };
        Log::heal_blocks(device, start, &geo, bytes.start - first..bytes.end - first)
            .map_err(Error::new)?;
        Ok(())
    }

    /// Returns true if the page agrees with the other members of the array around it. Its data are
    /// right then, whichever member within is wrong.
    fn agrees_above(&self, index: usize, page: &Mismatch) -> bool {
        let nested = |i: usize| &self.stack.arrays[i];
        let agrees = |place: &Range<ByteOffset>| {
            let Some((above, Some(role), Some(place))) =
                target::range_in_outer(&nested, index, place)
            else {
                return false;
            };
            let (array, Level { compared, left, .. }) =
                (&self.stack.arrays[above].array, &self.levels[above]);
            let inside = array.array_ranges(role, &place).is_some();
            *compared
                && inside
                && !left.iter().any(|other| array.mismatch_overlaps(other, role, &place))
        };
        self.stack.arrays[index].array.mismatch_ranges(page).iter().all(agrees)
    }

    /// Resolves the mismatches, after the volume was checked: `is_clean` says whether without a
    /// finding. The outermost array comes first, because its right data show which member within is
    /// wrong.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where members cannot be read or written.
    pub fn resolve(mut self, is_clean: bool) -> Result<Resolved> {
        let files: Vec<FileRange> = self
            .pages()
            .filter_map(|(index, page)| self.stack.files(index, page, &self.mismatches))
            .flatten()
            .collect();
        let paths = self.stack.paths(&options(self.log.as_deref()), &files);
        let mut resolved = Resolved::default();
        for index in 0..self.levels.len() {
            let mut left = Vec::new();
            for (stripe, pages) in &self.levels[index].pages {
                let now = if self.repair {
                    let nested = &self.stack.arrays[index];
                    let compared = nested.array.compare_stripe(*stripe, true);
                    compared.map_err(|source| failed(nested, source))?.mismatches
                } else {
                    pages.clone()
                };
                // Pages that agree by now were rewritten by the check.
                resolved.repaired += pages.len().saturating_sub(now.len());
                for page in now {
                    let result = self.resolve_page(index, &page, is_clean, &paths)?;
                    resolved.repaired += usize::from(result.repaired);
                    if !result.repaired {
                        left.push(page);
                    }
                    if resolved.listed.len() < REPORTED_MAX {
                        resolved.listed.push(result);
                    }
                }
            }
            self.levels[index].left = left;
        }
        for nested in &self.stack.arrays {
            nested.array.close().map_err(|source| failed(nested, source))?;
        }
        resolved.pages = self.levels.iter().map(|level| level.count).sum();
        Ok(resolved)
    }

    /// Resolves one page.
    fn resolve_page(
        &self,
        index: usize,
        page: &Mismatch,
        is_clean: bool,
        paths: &BTreeMap<u64, PathBuf>,
    ) -> Result<ResolvedPage> {
        let nested = &self.stack.arrays[index];
        let files = self.stack.files(index, page, &self.mismatches);
        let agrees_above = self.agrees_above(index, page);
        let is_sound = files.as_ref().is_some_and(Vec::is_empty) || agrees_above;
        let repaired = page.repaired
            || (self.repair
                && is_clean
                && is_sound
                && nested.array.resync_page(page).map_err(|source| failed(nested, source))?);
        let content = |file: &FileRange| DoubtfulContent::new(file, paths);
        Ok(ResolvedPage {
            array: (index > 0).then(|| nested.name.to_string()),
            sectors: page.sectors.start.0..page.sectors.end.0,
            role: page.role,
            repaired,
            agrees_above: index > 0 && agrees_above,
            files: files.map(|files| files.iter().map(content).collect()),
        })
    }
}

impl Check<'_> {
    /// Checks the volume on an array whose members were compared, and finds the files with content
    /// where they disagree. Passes each finding to `found` as it is made. With
    /// [repair](Compare::repair), blocks that are bad on one member are rewritten.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_compared(
        &self,
        compared: &Compared,
        mut found: impl FnMut(Finding) + Send,
    ) -> Result<Checked> {
        let Compared { stack, repair, mismatches, .. } = compared;
        if *repair {
            return self.run_healing(&*stack.device, mismatches, &mut found);
        }
        self.run_on(Arc::clone(&stack.device), Some(mismatches), &mut found)
    }
}

/// Returns how the volume is opened.
fn options(log: Option<&Path>) -> VolumeOptions {
    log.into_iter().fold(VolumeOptions::new(), VolumeOptions::log)
}

fn failed(nested: &Nested, source: xfskit_block::Error) -> Error {
    ArrayError::Device { array: nested.name.to_string(), source }.error()
}
