//! Arrays whose superblocks are lost, found by the XFS volume on them.
//!
//! The members are searched for [evidence](xfskit_target::evidence), [`guess`] finds the arrays
//! that explain it, and [`evaluate`] checks the volumes on them. A doubtful guess is not a result.
//! Equally good guesses are not a result either; [`content`] shows whether they read the same.

mod content;
mod evaluate;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use xfskit_block::OpenMode;
use xfskit_md::Member;
use xfskit_md::guess::evidence::ScanProgress;
use xfskit_md::guess::{self, Evidence, Guess as Geometry, Guesses, MemberDevices};
use xfskit_target::{self as target, ArrayName, Base, Part};

use crate::cause::Cause;
use crate::cause::array::ArrayError;
use crate::target::Target;
use crate::{CancelToken, Error, Progress, Result};
use evaluate::EvaluatedGuess;

/// Bytes of each member that are searched, unless they are set.
const SCAN: u64 = 1 << 30;
/// Number of guesses that are checked.
const CHECKED_MAX: usize = 128;
/// Guesses with this many more contradictions are not reported.
const MARGIN: u64 = 3;
/// Number of members that may be missing without being named `missing`, for a hint.
const MORE_MAX: usize = 2;
/// Number of equal guesses whose stripes are compared.
const COMPARED_MAX: usize = 4;

/// How reliable a guess is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confidence {
    /// Nothing speaks against it, and much speaks against all others.
    Certain,
    /// It is better than all others.
    Likely,
    /// Others are as good.
    Undecided,
    /// It does not explain enough of what was found.
    Doubtful,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Undecided => "undecided",
            Self::Doubtful => "doubtful",
        })
    }
}

/// What a [`Guess`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GuessStep {
    /// Members are searched for pieces of a volume, in bytes.
    Search,
    /// Geometries are compared with what was found.
    Compare,
    /// The volume of a candidate is checked, in bytes of metadata.
    Check,
}

/// Finds order, level, layout, chunk and offset of members whose superblocks are lost, from the XFS
/// volume on them: a builder. Nothing is written.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let guessed = xfskit::md::Guess::new().run(["a.img", "missing", "c.img"])?;
/// for candidate in &guessed.candidates {
///     println!("{} is {}", candidate.target, candidate.confidence);
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is searched until `run` is called"]
pub struct Guess<'c> {
    scan: u64,
    progress: Option<Box<dyn Fn(GuessStep, Progress) + Sync + 'c>>,
    cancel: CancelToken,
}

/// The result of a [`Guess`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Guessed {
    /// The arrays that are better than all others: one, or several that are equally good. None
    /// where no array explains half of the pieces.
    pub candidates: Vec<Candidate>,
    /// At least so many other arrays may be as good, and were not checked.
    pub unchecked: usize,
    /// Pieces of a volume that were found; 0 where there is none.
    pub pieces_found: usize,
    /// What would explain more, where no candidate is certain or likely.
    pub with_missing: Option<WithMissing>,
}

/// An array with more members than were named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WithMissing {
    /// Members that are missing, besides those that were named.
    pub missing: usize,
    /// Pieces that would lie where they should.
    pub pieces_right: usize,
}

/// An array that explains what was found on its members.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The target of the volume on it.
    pub target: String,
    /// How reliable it is.
    pub confidence: Confidence,
    /// What speaks against it, in sentences.
    pub against: Vec<String>,
    /// Pieces that lie where they should.
    pub pieces_right: usize,
    /// Samples of members that were compared, and those of them that do not agree.
    pub samples: (usize, usize),
    /// Errors that a check of the volume finds; `None` if no volume comes out.
    pub check_errors: Option<u64>,
    /// True if all of the volume was checked.
    pub is_check_complete: bool,
    /// Ends of files that were looked at, and those behind which the file goes on.
    pub ends: (u64, u64),
    /// Stripes whose members were compared, and those whose members do not agree.
    pub stripes: (u64, u64),
    /// Files and bytes of them that were read.
    pub files: (u64, u64),
    /// True if all files were read.
    pub is_content_complete: bool,
    /// A digest of all names, sizes and bytes that were read: equal where two candidates read the
    /// same.
    pub digest: u64,
}

/// The callbacks of a guess.
pub(super) struct Watch<'w> {
    progress: Option<&'w (dyn Fn(GuessStep, Progress) + Sync + 'w)>,
    cancel: &'w CancelToken,
}

impl Watch<'_> {
    fn report(&self, step: GuessStep, done: u64, total: u64) {
        if let Some(report) = self.progress {
            report(step, Progress { done, total });
        }
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::new(Cause::Cancelled)) } else { Ok(()) }
    }

    /// Runs a step that asks, all the time, whether it continues.
    fn step<T>(
        &self,
        step: GuessStep,
        run: impl FnOnce(&ScanProgress<'_>) -> ControlFlow<(), T>,
    ) -> Result<T> {
        let progress = |done, total| {
            self.report(step, done, total);
            if self.cancel.is_cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        match run(&progress) {
            ControlFlow::Break(()) => Err(Error::new(Cause::Cancelled)),
            ControlFlow::Continue(result) => Ok(result),
        }
    }

    /// Returns the arrays that these members may form.
    fn guess(&self, members: &MemberDevices, evidence: &Evidence) -> Result<Guesses> {
        self.step(GuessStep::Compare, |progress| guess::guess(members, evidence, progress))
    }
}

impl Default for Guess<'_> {
    fn default() -> Self {
        Self { scan: SCAN, progress: None, cancel: CancelToken::new() }
    }
}

impl fmt::Debug for Guess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guess").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl<'c> Guess<'c> {
    /// Returns a search of the first gigabyte of each member.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches so many bytes of each member.
    pub fn scan(mut self, bytes: u64) -> Self {
        self.scan = bytes;
        self
    }

    /// Receives the progress of each step.
    pub fn progress(mut self, report: impl Fn(GuessStep, Progress) + Sync + 'c) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Finds the array of these members: targets, patterns, and `missing` for each that is lost, in
    /// any order.
    ///
    /// # Errors
    /// Those of opening the members.
    pub fn run<M: AsRef<Path>>(&self, members: impl IntoIterator<Item = M>) -> Result<Guessed> {
        let target = Target::array(members)?;
        let name = target.array_name();
        let name = name.ok_or_else(|| Error::new(ArrayError::NotArray(target.to_string())))?;
        let members = target::members(name, OpenMode::ReadOnly).map_err(Error::new)?;
        let device = |member: &Member| member.device.clone();
        let devices: Vec<_> = members.iter().map(|member| member.as_ref().map(device)).collect();
        let watch = Watch { progress: self.progress.as_deref(), cancel: &self.cancel };
        let evidence = watch.step(GuessStep::Search, |progress| {
            target::find_evidence(&devices, self.scan, progress)
        })?;
        let Some(evidence) = evidence else { return Ok(Guessed::default()) };
        let mut best = best(watch.guess(&devices, &evidence)?, &members, &watch)?;
        for evaluated in best.equals.iter_mut().take(COMPARED_MAX) {
            evaluate::compare(evaluated, &members, &watch);
        }
        watch.check_cancelled()?;
        best.guessed(&devices, &evidence, &members, &watch)
    }
}

/// The guesses that are better than all others.
struct Best {
    equals: Vec<EvaluatedGuess>,
    /// By how many contradictions all others are worse.
    margin: u64,
    /// At least so many other guesses may be as good and were not checked.
    unchecked: usize,
}

impl Best {
    fn guessed(
        &self,
        devices: &MemberDevices,
        evidence: &Evidence,
        members: &[Option<Member>],
        watch: &Watch<'_>,
    ) -> Result<Guessed> {
        let others = (self.equals.len() + self.unchecked).saturating_sub(1);
        let candidate = |guess: &EvaluatedGuess| guess.candidate(others, self.margin, members);
        let candidates: Vec<Candidate> = self.equals.iter().map(candidate).collect();
        let pieces_found = evidence.found.len();
        let is_result = |candidate: &Candidate| {
            matches!(candidate.confidence, Confidence::Certain | Confidence::Likely)
        };
        let with_missing = if candidates.iter().any(is_result) {
            None
        } else {
            let astray = self.equals.first().map_or(pieces_found, |guess| guess.guess.astray());
            with_missing(devices, evidence, astray, watch)?
        };
        Ok(Guessed { candidates, unchecked: self.unchecked, pieces_found, with_missing })
    }
}

impl EvaluatedGuess {
    fn candidate(&self, others: usize, margin: u64, members: &[Option<Member>]) -> Candidate {
        let (guess, content) = (&self.guess, self.content());
        Candidate {
            target: self.target.clone(),
            confidence: self.confidence(others, margin),
            against: self.against(others, members),
            pieces_right: guess.right,
            samples: (guess.agreement.compared, guess.agreement.wrong),
            check_errors: self.checked.map(|checked| checked.errors),
            is_check_complete: self.checked.is_some_and(|checked| checked.is_complete),
            ends: (content.ends_seen, content.ends_wrong),
            stripes: (self.stripes_compared, self.stripes_wrong),
            files: (content.files, content.bytes),
            is_content_complete: !content.is_partial,
            digest: content.digest,
        }
    }
}

/// Checks guesses, the best first, until the others are known to be worse.
fn best(
    Guesses { best: guesses, omitted }: Guesses,
    members: &[Option<Member>],
    watch: &Watch<'_>,
) -> Result<Best> {
    let last = guesses.last().map_or(u64::MAX, |guess| guess.contradictions() as u64);
    let mut evaluated: Vec<EvaluatedGuess> = Vec::new();
    let (mut least, mut next_least, mut unchecked) = (u64::MAX, u64::MAX, 0);
    for guess in guesses {
        watch.check_cancelled()?;
        let known = guess.contradictions() as u64;
        if known > least.saturating_add((least / 8).max(MARGIN)) {
            next_least = next_least.min(known);
            break;
        }
        if evaluated.len() == CHECKED_MAX {
            unchecked += usize::from(is_equal(known, least));
            continue;
        }
        let target = target(&guess, members)?;
        let guess = evaluate::evaluate(guess, target, watch);
        watch.check_cancelled()?;
        if let Some(contradictions) = guess.contradictions() {
            least = least.min(contradictions);
            evaluated.push(guess);
        }
    }
    let others = evaluated.iter().filter_map(EvaluatedGuess::contradictions);
    let others = others.filter(|contradictions| !is_equal(*contradictions, least));
    next_least = others.fold(next_least, u64::min);
    evaluated.retain(|guess| guess.contradictions().is_some_and(|c| is_equal(c, least)));
    // Blocks of files are seldom zero.
    let blank = |guess: &EvaluatedGuess| guess.content().blank;
    let fewest = evaluated.iter().map(blank).min().unwrap_or(0);
    evaluated.retain(|guess| blank(guess) <= fewest * 2 + BLANK_MIN);
    evaluated.sort_by_key(|guess| (guess.contradictions(), blank(guess)));
    let margin = next_least.saturating_sub(least);
    unchecked += if is_equal(last, least) { omitted } else { 0 };
    unchecked += orders_omitted(&evaluated);
    Ok(Best { equals: evaluated, margin, unchecked })
}

/// Returns how many orders of the members were not tried, in all geometries of these guesses.
fn orders_omitted(guesses: &[EvaluatedGuess]) -> usize {
    let geometry = |guess: &EvaluatedGuess| (guess.guess.manual, guess.guess.part.clone());
    let mut omitted: Vec<_> = Vec::new();
    for guess in guesses.iter().filter(|guess| guess.guess.orders_omitted > 0) {
        if !omitted.iter().any(|(known, _)| *known == geometry(guess)) {
            omitted.push((geometry(guess), guess.guess.orders_omitted));
        }
    }
    omitted.into_iter().map(|(_, orders)| orders).sum()
}

/// Number of zero blocks in files that does not show a wrong guess.
const BLANK_MIN: u64 = 8;

/// Returns true if the contradictions are hardly more than the least.
fn is_equal(contradictions: u64, least: u64) -> bool {
    contradictions <= least.saturating_add(least / 8)
}

/// Returns an array with missing members that leaves fewer than `astray` pieces unexplained.
fn with_missing(
    members: &MemberDevices,
    evidence: &Evidence,
    astray: usize,
    watch: &Watch<'_>,
) -> Result<Option<WithMissing>> {
    for missing in 1..=MORE_MAX {
        let with: Vec<_> =
            members.iter().cloned().chain(std::iter::repeat_n(None, missing)).collect();
        let guesses = watch.guess(&with, evidence)?;
        if let Some(best) = guesses.best.first().filter(|best| best.astray() < astray) {
            return Ok(Some(WithMissing { missing, pieces_right: best.right }));
        }
    }
    Ok(None)
}

/// Returns the target of a guess.
fn target(guess: &Geometry, members: &[Option<Member>]) -> Result<String> {
    let named = |role: &Option<usize>| match role.and_then(|i| members[i].as_ref()) {
        None => Ok(None),
        Some(member) => Ok(Some(Target::parse(&member.name)?.into_parsed())),
    };
    let members = guess.order.iter().map(named).collect::<Result<Vec<_>>>()?;
    let base = Base::Array(Box::new(ArrayName::new(Some(guess.manual), members)));
    Ok(target::Target { base, part: Part::parse(&guess.part) }.to_string())
}
