//! Sync actions: work that goes over a whole array.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::thread;
use std::time::{Duration, Instant};

use xfskit_md::array::Array as RunningArray;
use xfskit_md::array::scrub::Mismatch;
use xfskit_md::array::sync_action::{self, Completion, ScrubProgress};

use super::Array;
use super::running::Running;
use crate::builder::{cancel_method, progress_method};
use crate::cause::array::ArrayError;
use crate::progress::{Control, Report};
use crate::{CancelToken, Error, Progress, Result};

/// Time between looks at a request to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Stripes and ranges that are listed one by one.
const LISTED_MAX: usize = 1000;

/// Work that goes over a whole array, by md's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncAction {
    /// Members are made to agree after a crash.
    Resync,
    /// Members that lack data, and replacements, are filled.
    Recover,
    /// Members are compared.
    Check,
}

/// Compares the members of an array, and corrects the wrong ones: a builder.
///
/// On RAID6 parity shows which single member is wrong; other mismatches are only found.
/// [`Compare`](super::Compare) decides more of them, by the volume on the array.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// use xfskit::md::{ArrayOptions, Scrub};
///
/// let mut array = ArrayOptions::new().write(true).open("md:a.img,b.img,c.img,d.img")?;
/// let scrubbed = Scrub::new().repair(true).run(&mut array)?;
/// println!("{} pages do not agree, {} repaired", scrubbed.pages, scrubbed.repaired);
/// array.close()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is compared until `run` is called"]
pub struct Scrub<'c> {
    repair: bool,
    from: u64,
    rate: Option<u64>,
    control: Control<'c>,
}

/// The result of a [`Scrub`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scrubbed {
    /// False if it was cancelled.
    pub finished: bool,
    /// The stripe [from](Scrub::from) which another scrub continues.
    pub next: u64,
    /// Sectors that do not agree, as md counts them in `mismatch_cnt`.
    pub mismatch_cnt: u64,
    /// Pages of 4 KiB that do not agree.
    pub pages: u64,
    /// Those of them that agree now.
    pub repaired: u64,
    /// Sectors that had nothing to be compared with.
    pub unchecked_sectors: u64,
}

impl<'c> Scrub<'c> {
    /// Returns a scrub that only compares, from the start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rewrites members that are known to be wrong. Off by default.
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Begins at this stripe.
    pub fn from(mut self, stripe: u64) -> Self {
        self.from = stripe;
        self
    }

    /// Reads at most so many bytes of each member in a second.
    pub fn rate(mut self, bytes: u64) -> Self {
        self.rate = Some(bytes);
        self
    }

    progress_method! {
        /// Receives the progress, in bytes of each member.
    }

    cancel_method! {
        /// Stops when the token is cancelled. What was done until then is returned.
    }

    /// Compares the members of `array`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where no redundancy is left to compare;
    /// [`Device`](crate::ErrorKind::Device) where members cannot be written.
    pub fn run(&self, array: &mut Array) -> Result<Scrubbed> {
        self.run_with(array, |_| {})
    }

    /// Compares the members of `array`, and passes each page that does not agree to `found`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &self,
        array: &mut Array,
        mut found: impl FnMut(&Mismatch),
    ) -> Result<Scrubbed> {
        let name = array.name();
        array.with_running(|running| self.scrub(running, name, &mut found))?
    }

    fn scrub(
        &self,
        running: &Running,
        name: String,
        found: &mut dyn FnMut(&Mismatch),
    ) -> Result<Scrubbed> {
        if !running.can_be_scrubbed() {
            return Err(ArrayError::NothingToCompare(name).error());
        }
        let mut result = Scrubbed { next: self.from, ..Scrubbed::default() };
        let mut throttle = Throttle::new(self.rate, &self.control.cancel);
        let watch = |at: ScrubProgress| {
            throttle.keep(at.progress.done.0);
            result.next = at.next;
            result.unchecked_sectors = at.progress.bad.0;
            for mismatch in &at.mismatches {
                result.pages += 1;
                result.mismatch_cnt += mismatch.counted.0;
                result.repaired += u64::from(mismatch.repaired);
                found(mismatch);
            }
            self.control.at(at.progress.done.0, at.progress.total.0)
        };
        let ended = running
            .scrub(self.from..running.scrub_stripes(), self.repair, watch)
            .map_err(Error::new)?;
        running.settle()?;
        result.finished = ended == Completion::Finished;
        Ok(result)
    }
}

/// Completes an array: resyncs it after a crash, gives roles without a member to spares, and fills
/// members that lack data, and replacements: a builder.
///
/// While redundancy is left, it is compared: wrong data of one member do not become the content of
/// another. A rebuild that was cancelled or killed continues the next time.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// use xfskit::md::{ArrayOptions, NewDevices, Rebuild};
///
/// let mut array = ArrayOptions::new().write(true).open("md:a.img,missing,c.img")?;
/// array.add("new.img", &NewDevices::new().create(1 << 30))?;
/// let rebuilt = Rebuild::new().run(&mut array)?;
/// assert_eq!(rebuilt.undecided_pages, 0);
/// array.close()?;
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "nothing is rebuilt until `run` is called"]
pub struct Rebuild<'c> {
    rate: Option<u64>,
    report: Report<'c, (SyncAction, Progress)>,
    cancel: CancelToken,
}

/// The result of a [`Rebuild`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Rebuilt {
    /// False if it was cancelled.
    pub finished: bool,
    /// Sectors that no member could deliver: they are bad blocks of the rebuilt members.
    pub bad_sectors: u64,
    /// Members that were found wrong, and whose wrong pages were not used.
    pub corrected: Vec<Corrected>,
    /// Pages that were rebuilt from members that disagree, where it is not known which is wrong.
    pub undecided_pages: u64,
    /// Their stripes, a thousand at most.
    pub undecided_stripes: Vec<u64>,
    /// Sectors of these pages that are not bad blocks of the rebuilt members, because their logs
    /// are full or missing.
    pub undecided_unlisted_sectors: u64,
    /// The bytes of the array that may be wrong, a thousand ranges at most.
    pub undecided_bytes: Vec<Range<u64>>,
}

/// A member with wrong data that were noticed and not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corrected {
    /// Its role.
    pub role: usize,
    /// Its name.
    pub member: Option<String>,
    /// How many of its pages of 4 KiB are wrong.
    pub pages: u64,
}

impl fmt::Debug for Rebuild<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuild").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl<'c> Rebuild<'c> {
    /// Returns a rebuild at full rate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads and writes at most so many bytes of each member in a second.
    pub fn rate(mut self, bytes: u64) -> Self {
        self.rate = Some(bytes);
        self
    }

    /// Receives the progress of each action, in bytes.
    pub fn progress(mut self, report: impl Fn(SyncAction, Progress) + Sync + 'c) -> Self {
        self.report = Report::new(move |(action, progress)| report(action, progress));
        self
    }

    /// Stops when the token is cancelled. What was done until then is returned.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Completes `array`, as far as it has members and spares: see
    /// [`missing`](Array::missing). Below an open volume, members and replacements are filled only,
    /// and redundancy that is left is not compared: that would slow the volume down until it is
    /// closed.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where members cannot be written.
    pub fn run(&self, array: &mut Array) -> Result<Rebuilt> {
        array.with_running(|running| self.complete(running))?
    }

    fn complete(&self, running: &Running) -> Result<Rebuilt> {
        running.activate_spares().map_err(Error::new)?;
        if running.is_below_volume() {
            let bad_sectors = self.fill(running)?;
            let finished = !self.cancel.is_cancelled();
            return Ok(Rebuilt { finished, bad_sectors, ..Rebuilt::default() });
        }
        let mut throttle = Throttle::new(self.rate, &self.cancel);
        running
            .resync(|done, total| {
                self.at(SyncAction::Resync, done.0, total.0);
                throttle.keep(done.0);
                !self.cancel.is_cancelled()
            })
            .map_err(Error::new)?;
        if running.needs_rebuild() && running.can_be_scrubbed() {
            running.verify_reads();
        }
        let bad_sectors = self.fill(running)?;
        running.settle()?;
        let finished = !self.cancel.is_cancelled();
        Ok(Rebuilt { finished, bad_sectors, ..Rebuilt::of(running) })
    }

    /// Fills members. Returns how many sectors no member could deliver.
    fn fill(&self, running: &RunningArray) -> Result<u64> {
        if self.cancel.is_cancelled() {
            return Ok(0);
        }
        let mut bad_sectors = 0;
        let mut throttle = Throttle::new(self.rate, &self.cancel);
        running
            .rebuild(|sync_action::Progress { done, total, bad }| {
                self.at(SyncAction::Recover, done.0, total.0);
                throttle.keep(done.0);
                bad_sectors = bad.0;
                if self.cancel.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .map_err(Error::new)?;
        Ok(bad_sectors)
    }

    fn at(&self, action: SyncAction, done: u64, total: u64) {
        self.report.report((action, Progress { done, total }));
    }
}

impl Rebuilt {
    /// Returns the mismatches that the verified reads of `array` found.
    fn of(array: &RunningArray) -> Self {
        let report = array.verify_report();
        let mut found = Self {
            undecided_pages: report.more,
            undecided_unlisted_sectors: report.unlisted_sectors,
            ..Self::default()
        };
        for page in report.pages.iter().filter(|page| page.role.is_none()) {
            found.undecided_pages += 1;
            let stripes = &mut found.undecided_stripes;
            if stripes.last() != Some(&page.stripe) && stripes.len() < LISTED_MAX {
                stripes.push(page.stripe);
            }
            if found.undecided_bytes.len() < LISTED_MAX {
                let ranges = array.mismatch_ranges(page);
                found.undecided_bytes.extend(ranges.iter().map(|r| r.start.0..r.end.0));
            }
        }
        Self { corrected: corrected(array, &report.pages), ..found }
    }
}

/// Returns the members that are wrong in some of these pages.
pub(super) fn corrected(array: &RunningArray, pages: &[Mismatch]) -> Vec<Corrected> {
    let mut roles = std::collections::BTreeMap::new();
    for role in pages.iter().filter_map(|page| page.role) {
        *roles.entry(role).or_insert(0) += 1;
    }
    let member = |role| array.member_name(role).map(str::to_owned);
    roles.into_iter().map(|(role, pages)| Corrected { role, member: member(role), pages }).collect()
}

/// Limits the rate of a sync action.
struct Throttle<'c> {
    rate: Option<u64>,
    begun: Option<(Instant, u64)>,
    cancel: &'c CancelToken,
}

impl<'c> Throttle<'c> {
    fn new(rate: Option<u64>, cancel: &'c CancelToken) -> Self {
        Self { rate: rate.filter(|rate| *rate > 0), begun: None, cancel }
    }

    /// Waits until `done` bytes are allowed by the rate, or the action is cancelled.
    fn keep(&mut self, done: u64) {
        let Some(rate) = self.rate else { return };
        let (begun, from) = *self.begun.get_or_insert_with(|| (Instant::now(), done));
        let micros = u128::from(done.saturating_sub(from)) * 1_000_000 / u128::from(rate);
        let due = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        while !self.cancel.is_cancelled()
            && let Some(left) = due.checked_sub(begun.elapsed())
            && !left.is_zero()
        {
            thread::sleep(left.min(LOOK));
        }
    }
}
