//! `xfskit md guess`: finds the array of members without superblocks.
//!
//! The members are searched for [`evidence`](mod@target::evidence), [`guess`] finds the arrays that
//! explain it, and [`evaluate`] checks the volumes on them. A doubtful guess is not a result.
//! Equally good guesses are all printed and are not a result either; [`content`] shows whether they
//! read the same.

mod content;
mod evaluate;

use std::ops::ControlFlow;

use serde_json::json;
use xfskit::raw::block::OpenMode;
use xfskit::raw::md::Member;
use xfskit::raw::md::guess::{self, Evidence, Guess, Guesses, MemberDevices};
use xfskit::raw::target::{self, ArrayName, Base, Part, Target};

use crate::command::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::progress::Progress;
use crate::stop::Stop;
use content::Content;
use evaluate::{Confidence, EvaluatedGuess};

/// Number of guesses that are checked.
const CHECKED_MAX: usize = 128;
/// Guesses with this many more contradictions are not reported.
const MARGIN: u64 = 3;
/// Number of members that may be missing without being named `missing`, for a hint.
const MORE_MAX: usize = 2;

/// `xfskit md guess`. Exit code 1 if there is no guess, if all are doubtful, or if several are
/// equally good.
pub(crate) fn run(names: &[String], scan: u64, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let members = members(names)?;
    let device = |member: &Member| member.device.clone();
    let devices: Vec<_> = members.iter().map(|member| member.as_ref().map(device)).collect();
    let progress = Progress::new(out, "searching", "bytes");
    let told = |done, total| {
        progress.set(done, total);
        stop.flow()
    };
    let found = target::find_evidence(&devices, scan, &told);
    drop(progress);
    let evidence = match found {
        ControlFlow::Break(()) => return Err(Failure::stopped()),
        ControlFlow::Continue(None) => {
            out.note("no XFS volume is found on them that could tell");
            return Ok(ExitStatus::Problem);
        }
        ControlFlow::Continue(Some(evidence)) => evidence,
    };
    let mut best = best(guess::guess(&devices, &evidence), &members, &stop, out)?;
    let mut is_answered = false;
    for evaluated in best.equals.iter_mut().take(COMPARED_MAX) {
        evaluate::compare(evaluated, &members, &stop);
    }
    for evaluated in &best.equals {
        is_answered |= report(evaluated, &best, &members, out)?;
    }
    best.report_equals(out);
    if !is_answered {
        let found = evidence.found.len();
        if best.equals.is_empty() {
            out.note(&format!(
                "no array of these members explains half of the {found} pieces found"
            ));
        }
        let astray = best.equals.first().map_or(found, |evaluated| evaluated.guess.astray());
        hint_at_missing(&devices, &evidence, astray, out);
    }
    Ok(ExitStatus::of(is_answered))
}

/// Returns the members that these arguments name, with patterns expanded; `None` for `missing`.
fn members(names: &[String]) -> Result<Vec<Option<Member>>, Failure> {
    let name = super::array_target(names)?.to_string();
    let target = Target::parse(&name).map_err(|e| open::not_opened(&name, &e.into()))?;
    let Base::Array(array) = &target.base else {
        return Err(Failure::cannot(format!("{name}: not an array")));
    };
    target::members(array, OpenMode::ReadOnly).map_err(|e| open::not_opened(&name, &e.into()))
}

/// Number of equal guesses whose stripes are compared.
const COMPARED_MAX: usize = 4;

/// The guesses that are better than all others.
struct Best {
    equals: Vec<EvaluatedGuess>,
    /// By how many contradictions all others are worse.
    margin: u64,
    /// At least so many other guesses may be as good and were not checked.
    unchecked: usize,
}

impl Best {
    /// Returns true if these are all of the best guesses, and they read the same.
    fn reads_same(&self) -> bool {
        let digest = |guess: &EvaluatedGuess| guess.content().digest;
        self.unchecked == 0 && self.equals.windows(2).all(|two| digest(&two[0]) == digest(&two[1]))
    }

    /// Reports several equal guesses.
    fn report_equals(&self, out: &Out) {
        if self.equals.len() > 1 {
            let what = self.comparison();
            out.note(&format!("undecided: these {} candidates {what}", self.equals.len()));
        }
        if self.unchecked > 0 && !self.equals.is_empty() {
            let unchecked = self.unchecked;
            out.note(&format!("at least {unchecked} more may be as good, and were not checked"));
        }
    }

    /// Returns what the comparison of the files shows, and what was compared.
    fn comparison(&self) -> String {
        let Content { digest, files, bytes, is_partial, .. } = self.equals[0].content();
        let compared = format!("{files} files, {bytes} bytes");
        let is_same = self.equals.iter().all(|guess| guess.content().digest == digest);
        match (is_same, is_partial) {
            (false, _) => {
                "differ in what their files hold: look at the files that each gives".into()
            }
            (true, false) => format!(
                "read the same, all files compared ({compared}): for reading, any of them will do"
            ),
            (true, true) => format!("read the same as far as files were compared: {compared}"),
        }
    }
}

/// Checks guesses, the best first, until the others are known to be worse.
fn best(
    Guesses { best: guesses, omitted }: Guesses,
    members: &[Option<Member>],
    stop: &Stop,
    out: &Out,
) -> Result<Best, Failure> {
    let last = guesses.last().map_or(u64::MAX, |guess| guess.contradictions() as u64);
    let mut evaluated: Vec<EvaluatedGuess> = Vec::new();
    let (mut least, mut next_least, mut unchecked) = (u64::MAX, u64::MAX, 0);
    for guess in guesses {
        stop.check()?;
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
        let guess = evaluate::evaluate(guess, target, stop, out);
        stop.check()?;
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

/// Prints a guess, unless it is doubtful, and the evidence against it. Returns true if it is the
/// result.
fn report(
    evaluated: &EvaluatedGuess,
    best: &Best,
    members: &[Option<Member>],
    out: &Out,
) -> Result<bool, Failure> {
    let (guess, target) = (&evaluated.guess, &evaluated.target);
    let others = best.equals.len() - 1 + best.unchecked;
    let confidence = evaluated.confidence(others, best.margin);
    let against = evaluated.against(others, members);
    let is_answer = matches!(confidence, Confidence::Certain | Confidence::Likely);
    if confidence != Confidence::Doubtful {
        let content = evaluated.content();
        let object = json!({
            "target": target,
            "confidence": confidence.word(),
            "certain": confidence == Confidence::Certain,
            "candidates": others + 1,
            "candidates_listed": best.equals.len(),
            "candidates_unchecked": best.unchecked,
            "reads_same": best.reads_same(),
            "files_compared": content.files,
            "bytes_compared": content.bytes,
            "files_complete": !content.is_partial,
            "pieces_right": guess.right,
            "pieces_found": guess.found,
            "samples_compared": guess.agreement.compared,
            "samples_wrong": guess.agreement.wrong,
            "check_errors": evaluated.checked.map(|checked| checked.errors),
            "check_complete": evaluated.checked.is_some_and(|checked| checked.is_complete),
            "ends_compared": content.ends_seen,
            "ends_wrong": content.ends_wrong,
            "stripes_compared": evaluated.stripes_compared,
            "stripes_wrong": evaluated.stripes_wrong,
            "against": against,
        });
        out.result(&object, |_| format!("{target}\n"))?;
    }
    let what = match confidence {
        Confidence::Doubtful => format!("no answer: doubtful is {target}"),
        Confidence::Undecided if others > 0 => return Ok(false),
        sure => format!("this is {}", sure.word()),
    };
    let (right, found) = (guess.right, guess.found);
    out.note(&format!("{what}; {right} of {found} pieces that were found lie where they should"));
    for why in &against {
        out.note(&format!("against it: {why}"));
    }
    Ok(is_answer)
}

/// Prints a hint if an array with missing members leaves fewer than `astray` pieces
/// unexplained.
fn hint_at_missing(members: &MemberDevices, evidence: &Evidence, astray: usize, out: &Out) {
    for more in 1..=MORE_MAX {
        let with: Vec<_> = members.iter().cloned().chain(std::iter::repeat_n(None, more)).collect();
        let guesses = guess::guess(&with, evidence);
        if let Some(best) = guesses.best.first().filter(|best| best.astray() < astray) {
            out.note(&format!(
                "with {more} more, {} of {} pieces would lie right: give the word missing for each member \
                 that is not there",
                best.right, best.found
            ));
            return;
        }
    }
}

/// Returns the target of a guess.
fn target(guess: &Guess, members: &[Option<Member>]) -> Result<String, Failure> {
    let named = |role: &Option<usize>| match role.and_then(|i| members[i].as_ref()) {
        None => Ok(None),
        Some(member) => Target::parse(&member.name).map(Some),
    };
    let members: Result<Vec<_>, _> = guess.order.iter().map(named).collect();
    let members = members.map_err(|e| Failure::cannot(e.to_string()))?;
    let base = Base::Array(Box::new(ArrayName::new(Some(guess.manual), members)));
    Ok(Target { base, part: Part::parse(&guess.part) }.to_string())
}
