//! `xfskit md guess`: finds the array of members without superblocks, from the volume on them.
//!
//! A doubtful guess is not a result. Equally good guesses are all printed and are not a result
//! either; the notes say whether they read the same.

use parking_lot::Mutex;
use serde_json::json;
use xfskit::ErrorKind;
use xfskit::md::{Candidate, Confidence, Guess, GuessStep, Guessed};

use super::failed;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::stop::Stop;

/// `xfskit md guess`. Exit code 1 if there is no guess, if all are doubtful, or if several are
/// equally good.
pub(crate) fn run(names: &[String], scan: u64, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let shown = Mutex::new(None);
    let guess = Guess::new().scan(scan).cancel(stop.token()).progress(|step, at| {
        let mut shown = shown.lock();
        let progress = match &mut *shown {
            Some((now, progress)) if *now == step => &*progress,
            other => &other.insert((step, progress(step, out))).1,
        };
        progress.set(at.done, at.total);
    });
    let array = super::array_target(names)?.to_string();
    let guessed = guess.run(names).map_err(|e| match e.kind() {
        ErrorKind::Cancelled => Failure::stopped(),
        _ => failed(&array, &e),
    })?;
    drop(guess);
    drop(shown);
    if guessed.pieces_found == 0 {
        out.note("no XFS volume is found on them that could tell");
        return Ok(ExitStatus::Problem);
    }
    let mut is_answered = false;
    for candidate in &guessed.candidates {
        is_answered |= report(candidate, &guessed, out)?;
    }
    report_equals(&guessed, out);
    if !is_answered {
        let found = guessed.pieces_found;
        if guessed.candidates.is_empty() {
            out.note(&format!(
                "no array of these members explains half of the {found} pieces found"
            ));
        }
        if let Some(with) = guessed.with_missing {
            out.note(&format!(
                "with {} more, {} of {found} pieces would lie right: give the word missing for \
                 each member that is not there",
                with.missing, with.pieces_right
            ));
        }
    }
    Ok(ExitStatus::of(is_answered))
}

/// Begins the progress of a step.
fn progress(step: GuessStep, out: &Out) -> Progress {
    match step {
        GuessStep::Search => Progress::new(out, "searching", Unit::Bytes),
        GuessStep::Compare => Progress::new(out, "comparing", Unit::Count("geometries")),
        _ => Progress::new(out, "checking", Unit::Bytes),
    }
}

/// Returns true if the candidates are all of the best ones, and read the same.
fn reads_same(guessed: &Guessed) -> bool {
    guessed.unchecked == 0 && is_same(guessed)
}

/// Returns true if all candidates read the same.
fn is_same(guessed: &Guessed) -> bool {
    guessed.candidates.windows(2).all(|two| two[0].digest == two[1].digest)
}

/// Reports several equal guesses.
fn report_equals(guessed: &Guessed, out: &Out) {
    let Guessed { candidates, unchecked, .. } = guessed;
    if let [first, _, ..] = &candidates[..] {
        let what = comparison(first, is_same(guessed));
        out.note(&format!("undecided: these {} candidates {what}", candidates.len()));
    }
    if *unchecked > 0 && !candidates.is_empty() {
        out.note(&format!("at least {unchecked} more may be as good, and were not checked"));
    }
}

/// Returns what the comparison of the files shows, and what was compared.
fn comparison(first: &Candidate, is_same: bool) -> String {
    let (files, bytes) = first.files;
    let compared = format!("{files} files, {bytes} bytes");
    match (is_same, first.is_content_complete) {
        (false, _) => "differ in what their files hold: look at the files that each gives".into(),
        (true, true) => format!(
            "read the same, all files compared ({compared}): for reading, any of them will do"
        ),
        (true, false) => format!("read the same as far as files were compared: {compared}"),
    }
}

/// Prints a guess, unless it is doubtful, and the evidence against it. Returns true if it is the
/// result.
fn report(candidate: &Candidate, guessed: &Guessed, out: &Out) -> Result<bool, Failure> {
    let (target, confidence) = (&candidate.target, candidate.confidence);
    let others = guessed.candidates.len() - 1 + guessed.unchecked;
    let is_answer = matches!(confidence, Confidence::Certain | Confidence::Likely);
    if confidence != Confidence::Doubtful {
        let object = json!({
            "target": target,
            "confidence": confidence.to_string(),
            "certain": confidence == Confidence::Certain,
            "candidates": others + 1,
            "candidates_listed": guessed.candidates.len(),
            "candidates_unchecked": guessed.unchecked,
            "reads_same": reads_same(guessed),
            "files_compared": candidate.files.0,
            "bytes_compared": candidate.files.1,
            "files_complete": candidate.is_content_complete,
            "pieces_right": candidate.pieces_right,
            "pieces_found": guessed.pieces_found,
            "samples_compared": candidate.samples.0,
            "samples_wrong": candidate.samples.1,
            "check_errors": candidate.check_errors,
            "check_complete": candidate.is_check_complete,
            "ends_compared": candidate.ends.0,
            "ends_wrong": candidate.ends.1,
            "stripes_compared": candidate.stripes.0,
            "stripes_wrong": candidate.stripes.1,
            "against": candidate.against,
        });
        out.result(&object, |_| format!("{target}\n"))?;
    }
    let what = match confidence {
        Confidence::Doubtful => format!("no answer: doubtful is {target}"),
        Confidence::Undecided if others > 0 => return Ok(false),
        sure => format!("this is {sure}"),
    };
    let (right, found) = (candidate.pieces_right, guessed.pieces_found);
    out.note(&format!("{what}; {right} of {found} pieces that were found lie where they should"));
    for why in &candidate.against {
        out.note(&format!("against it: {why}"));
    }
    Ok(is_answer)
}
