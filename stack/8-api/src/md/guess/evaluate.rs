//! Is it the right array? The volume on it is checked, and its members are compared.
//!
//! The check reads no more than a part of a large volume: behind [`BYTES_MAX`] every read fails,
//! and what is found from then on does not count.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xfskit_block::{BlockDevice, Error, OpenMode, Result};
use xfskit_check as check;
use xfskit_md::Member;
use xfskit_md::guess::Guess;
use xfskit_target::{self as target, Target};
use xfskit_units::{ByteLen, ByteOffset};

use super::content::Content;
use super::{Confidence, GuessStep, Watch};
use crate::VolumeOptions;

/// Bytes of metadata that are read for a check.
const BYTES_MAX: u64 = 256 << 20;
/// Stripes whose members are compared.
const STRIPES: u64 = 256;
/// Pieces in place that a certain guess has at least, and contradictions that all others have.
const PIECES_CERTAIN: u64 = 8;
const MARGIN_CERTAIN: u64 = 3;

/// A guess, and what the check of its volume shows.
pub(super) struct EvaluatedGuess {
    pub(super) guess: Guess,
    pub(super) target: String,
    /// What the check of its volume found; none where there is no volume to check.
    pub(super) checked: Option<Checked>,
    /// Stripes that were compared, and those whose members do not agree.
    pub(super) stripes_compared: u64,
    pub(super) stripes_wrong: u64,
    /// The role that is wrong in most of these.
    pub(super) wrong_role: Option<usize>,
}

/// What the check of a volume found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub(super) errors: u64,
    /// Blocks that were bad, and sound in another way.
    pub(super) healed: u64,
    /// All of the volume was checked.
    pub(super) is_complete: bool,
    pub(super) content: Content,
}

impl EvaluatedGuess {
    /// Returns what its files hold.
    pub(super) fn content(&self) -> Content {
        self.checked.map_or_else(Content::default, |checked| checked.content)
    }

    /// Returns how much speaks against it; `None` if no volume comes out.
    pub(super) fn contradictions(&self) -> Option<u64> {
        let Checked { errors, healed, content, .. } = self.checked?;
        Some(self.guess.contradictions() as u64 + errors + healed + content.ends_wrong)
    }

    /// Returns how reliable it is, with so many others that are as good, where everything else has
    /// at least so many more contradictions.
    ///
    /// A quarter of the pieces astray, half of the files without their end, or errors in each of
    /// several equal guesses, are signs of another array: of one with more members, for example,
    /// whose data members alone resemble a smaller one.
    pub(super) fn confidence(&self, others: usize, margin: u64) -> Confidence {
        let (right, found) = (self.guess.right as u64, self.guess.found as u64);
        let Some(checked) = self.checked else { return Confidence::Doubtful };
        let agreement = self.guess.agreement;
        let is_doubtful = checked.errors > right / 10
            || right * 4 < found * 3
            || agreement.wrong * 2 > agreement.compared
            || checked.content.has_no_ends();
        if is_doubtful {
            return Confidence::Doubtful;
        }
        if others > 0 || self.guess.orders_omitted > 0 {
            return Confidence::Undecided;
        }
        let is_certain = self.contradictions() == Some(0)
            && self.stripes_wrong == 0
            && self.guess.agreement.located == 0
            && right >= PIECES_CERTAIN
            && margin >= MARGIN_CERTAIN;
        if is_certain { Confidence::Certain } else { Confidence::Likely }
    }

    /// Returns what speaks against it.
    pub(super) fn against(&self, others: usize, members: &[Option<Member>]) -> Vec<String> {
        let name = |role: usize| {
            let member = self.guess.order.get(role).copied().flatten();
            member.and_then(|i| members[i].as_ref()).map_or("a missing member", |m| m.name.as_str())
        };
        let mut against = Vec::new();
        if self.guess.astray() > 0 {
            against.push(format!("{} pieces lie where they should not", self.guess.astray()));
        }
        against.extend(self.found_against());
        let agreement = self.guess.agreement;
        if self.stripes_wrong > 0 {
            let whose = self.wrong_role.map_or_else(String::new, |role| {
                format!(", by the content of {} most often", name(role))
            });
            let (wrong, all) = (self.stripes_wrong, self.stripes_compared);
            against.push(format!("in {wrong} of {all} stripes the members do not agree{whose}"));
        } else if agreement.wrong + agreement.located > 0 {
            let (wrong, all) = (agreement.wrong + agreement.located, agreement.compared);
            against.push(format!("in {wrong} of {all} samples the members do not agree"));
        }
        if others > 0 && !self.guess.certain || self.guess.orders_omitted > 0 {
            let open: Vec<&str> = self.guess.open.iter().map(|role| name(*role)).collect();
            against.push(format!("nothing tells the place of {}", open.join(", ")));
        }
        if others > 0 {
            against.push(format!("{others} other guesses are as good"));
        }
        against
    }

    /// What the check found that speaks against it.
    fn found_against(&self) -> Vec<String> {
        let Some(Checked { errors, healed, content, .. }) = self.checked else {
            return vec!["no volume comes out that could be checked".into()];
        };
        let mut against = Vec::new();
        if errors > 0 {
            against.push(format!("a check of the volume finds {errors} errors"));
        }
        if healed > 0 {
            against.push(format!("{healed} blocks are only sound as the other members have them"));
        }
        if content.ends_wrong > 0 {
            let Content { ends_wrong, ends_seen, .. } = content;
            against.push(format!("{ends_wrong} of {ends_seen} files do not end where they should"));
        }
        against
    }
}

/// Checks the volume that comes out. Nothing is written.
pub(super) fn evaluate(guess: Guess, target: String, watch: &Watch<'_>) -> EvaluatedGuess {
    let checked = open(&target).and_then(|device| checked(device, watch));
    EvaluatedGuess {
        guess,
        target,
        checked,
        stripes_compared: 0,
        stripes_wrong: 0,
        wrong_role: None,
    }
}

fn open(target: &str) -> Option<Arc<dyn BlockDevice>> {
    let target = Target::parse(target).ok()?;
    target::open_unchecked(&target, OpenMode::ReadOnly).ok()
}

/// Checks the volume on a device, and looks at its files.
fn checked(device: Arc<dyn BlockDevice>, watch: &Watch<'_>) -> Option<Checked> {
    // With the journal replayed in memory, where that can be done.
    let volume = VolumeOptions::new().open_device(Arc::clone(&device), None).ok();
    let below = volume.as_ref().map_or(device, |volume| Arc::clone(volume.owner.volume().device()));
    let sample = Sample { below, read: AtomicU64::new(0), is_over: AtomicBool::new(false), watch };
    let (mut errors, mut healed) = (0, 0);
    let mut say = |finding: check::Finding| {
        if sample.is_over.load(Ordering::Relaxed) {
            return;
        }
        match (finding.healed, finding.severity) {
            (Some(_), _) => healed += 1,
            (None, check::Severity::Warning) => {}
            (None, _) => errors += 1,
        }
    };
    let options =
        check::Options { threads: crate::check::thread_count(0), ..check::Options::default() };
    check::check(&sample, None, &options, &mut say).ok()?;
    let is_complete = !sample.is_over.load(Ordering::Relaxed);
    let content =
        volume.map_or_else(Content::default, |volume| Content::read(&volume.owner, watch.cancel));
    Some(Checked { errors, healed, is_complete, content })
}

/// Compares the members in stripes from all over the array.
pub(super) fn compare(
    evaluated: &mut EvaluatedGuess,
    members: &[Option<Member>],
    watch: &Watch<'_>,
) {
    let member = |role: &Option<usize>| {
        let Member { name, device } = members[(*role)?].as_ref()?;
        Some(Member { name: name.clone(), device: Arc::clone(device) })
    };
    let slots: Vec<Option<Member>> = evaluated.guess.order.iter().map(member).collect();
    let Ok(array) = evaluated.guess.manual.open(&slots) else { return };
    let stripes = array.scrub_stripes();
    let mut wrong = vec![0u64; slots.len()];
    let step = usize::try_from(stripes / STRIPES).unwrap_or(1).max(1);
    for stripe in (0..stripes).step_by(step) {
        if watch.cancel.is_cancelled() {
            return;
        }
        let Ok(mismatches) = array.scrub_stripe(stripe, false) else { continue };
        evaluated.stripes_compared += 1;
        evaluated.stripes_wrong += u64::from(!mismatches.is_empty());
        for role in mismatches.iter().filter_map(|mismatch| mismatch.role).take(1) {
            wrong[role] += 1;
        }
    }
    let most = wrong.iter().copied().max().unwrap_or(0);
    evaluated.wrong_role = wrong.iter().position(|count| most > 0 && *count == most);
}

/// The first part of what is read of a device.
struct Sample<'a> {
    below: Arc<dyn BlockDevice>,
    read: AtomicU64,
    is_over: AtomicBool,
    watch: &'a Watch<'a>,
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").field("below", &self.below).finish_non_exhaustive()
    }
}

impl Sample<'_> {
    fn admit(&self, len: usize) -> Result<()> {
        let read = self.read.fetch_add(len as u64, Ordering::Relaxed);
        self.watch.report(GuessStep::Check, read, 0);
        if read > BYTES_MAX || self.watch.cancel.is_cancelled() {
            self.is_over.store(true, Ordering::Relaxed);
            return Err(Error::ReadOnly);
        }
        Ok(())
    }
}

impl BlockDevice for Sample<'_> {
    xfskit_block::plain!(
        lend,
        physical_block_size,
        topology,
        read_batch,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        heal
    );
    fn size(&self) -> ByteLen {
        self.below.size()
    }
    fn logical_block_size(&self) -> u32 {
        self.below.logical_block_size()
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.admit(buf.len())?;
        self.below.read_at(offset, buf)
    }
    fn write_at(&self, _: ByteOffset, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        self.below.alternatives(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.admit(buf.len())?;
        self.below.read_alternative(offset, buf, k)
    }
}
