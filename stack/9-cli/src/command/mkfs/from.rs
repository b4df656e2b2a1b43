//! `xfskit mkfs --from`: makes a volume with a tree.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use xfskit::{
    Build, BuildError, ErrorKind, Limit, Notice, Problem, ProblemKind, SkippedCount, SourceError,
    Summary,
};

use super::{failure, source_date};
use crate::exit::{Failure, Outcome};
use crate::grammar::make::Mkfs;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// The result.
#[derive(Debug, Serialize)]
struct Made {
    #[serde(flatten)]
    summary: Summary,
    /// Inodes of the tree.
    inodes: u64,
    /// Free bytes of the volume, as its users see them.
    free_bytes: u64,
    /// The files that are not part of the tree.
    skipped: Vec<SkippedCount>,
}

/// Returns true if `--size auto` is given.
pub(super) fn is_auto(args: &Mkfs) -> bool {
    !args.from.is_empty() && args.size.as_deref() == Some("auto")
}

/// `xfskit mkfs --from`: makes a volume that holds a tree.
pub(super) fn run(args: &Mkfs, mkfs: xfskit::Mkfs, out: &Out) -> Outcome {
    let build = builder(args, mkfs)?;
    let tree_decides = build.tree_decides(&*args.target).map_err(|e| failure(args, &e))?;
    let build = match &args.free {
        Some(free) if !tree_decides => {
            let why =
                format!("--free {free}: the size of the volume is given, not taken from the tree");
            return Err(Failure::cannot(why).hint("Say `--size auto`, or leave --free out."));
        }
        Some(text) => free(build, text)?,
        None => build,
    };
    let stop = Stop::on_signals()?;
    let reading = Progress::new(out, "reading", Unit::Count("names"));
    let writing = Progress::new(out, "writing", Unit::Count("files"));
    let reported = Reported::new(out);
    let built = build
        .cancel(stop.token())
        .progress(|at| match at.total {
            0 => reading.set(at.done, 0),
            total => {
                reading.finish();
                writing.set(at.done, total);
            }
        })
        .notices(|notice: Notice<'_>| reported.notice(notice))
        .create(&*args.target)
        .map_err(|e| build_failure(args, &e))?;
    writing.finish();
    if !out.quiet() {
        let made = Made {
            summary: built.summary,
            inodes: built.inodes,
            free_bytes: built.free,
            skipped: built.skipped,
        };
        out.result(&made, |made| {
            let free = show::human(made.free_bytes);
            format!("{}content  ={:<22} inodes={}, free {free}\n", made.summary, "", made.inodes)
        })?;
    }
    Ok(out.status())
}

/// Converts the command line to options of the library.
fn builder<'c>(args: &Mkfs, mkfs: xfskit::Mkfs) -> Result<Build<'c>, Failure> {
    if args.from.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::cannot("--from -: standard input can be read once only"));
    }
    let mut build = Build::new()
        .mkfs(mkfs)
        .fit(is_auto(args))
        .dry_run(args.dry_run)
        .keep_unfinished(args.keep)
        .whiteouts(args.whiteouts)
        .strict(args.strict)
        .threads(args.threads.map_or(0, std::num::NonZero::get));
    build = args.from.iter().fold(build, Build::source);
    if let Some(time) = source_date()? {
        build = build.clamp_times(time);
    }
    if let Some(bytes) = args.limit {
        build = build.memory_limit(bytes);
    }
    if let Some(text) = &args.owner {
        let pair = text.split_once(':');
        let pair = pair.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let bad = || Failure::cannot(format!("--owner {text}: not two numbers, UID:GID"));
        let (uid, gid) = pair.ok_or_else(bad)?;
        build = build.owner(uid, gid);
    } else if let Some(path) = &args.owner_map {
        build = build.owner_map(content(path)?).map_err(|e| of_file(path, &e))?;
    }
    if let Some(path) = &args.selinux_contexts {
        build = build.selinux_contexts(content(path)?).map_err(|e| of_file(path, &e))?;
    }
    Ok(build)
}

fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| of_file(path, &error))
}

fn of_file(path: &Path, error: &dyn Display) -> Failure {
    Failure::cannot(format!("{}: {error}", path.display()))
}

/// Parses the size of `--free`.
fn free<'c>(build: Build<'c>, text: &str) -> Result<Build<'c>, Failure> {
    let bad = |why: &str| Failure::cannot(format!("--free {text}: {why}"));
    let Some(percent) = text.strip_suffix('%') else {
        let bytes = show::parse_size(text).map_err(|why| bad(&why))?;
        return Ok(build.free_bytes(bytes));
    };
    match percent.parse() {
        Ok(percent) if percent < 100 => Ok(build.free_percent(percent)),
        _ => Err(bad("a share is from 0% to 99%")),
    }
}

/// Number of files of one kind that are named; more are counted.
const NAMED: usize = 20;

/// Prints what a copy could not copy.
pub(crate) struct Reported<'a> {
    out: &'a Out,
    left_out: AtomicUsize,
    unread: AtomicUsize,
}

impl<'a> Reported<'a> {
    pub(crate) fn new(out: &'a Out) -> Self {
        Self { out, left_out: AtomicUsize::new(0), unread: AtomicUsize::new(0) }
    }

    /// Prints a notice, of files the first of each kind.
    pub(crate) fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Problem(problem) => self.problem(&problem),
            Notice::Skipped(skipped) => self.out.skipped(skipped),
            Notice::WhiteoutNames(count) => self.out.note(&format!(
                "names that begin with .wh. became files ({count} of them); --whiteouts applies \
                 them instead"
            )),
            Notice::Note(note) => self.out.note(note),
            _ => {}
        }
    }

    fn problem(&self, problem: &Problem) {
        let is_first = |count: &AtomicUsize| count.fetch_add(1, Ordering::Relaxed) < NAMED;
        match &problem.kind {
            ProblemKind::LeftOut(error) if is_first(&self.left_out) => {
                self.out.fault_at("left out", error, None);
            }
            ProblemKind::Unread(file) if is_first(&self.unread) => {
                self.out.fault_in(&file.path, file, None, None);
            }
            _ => {}
        }
    }
}

fn build_failure(args: &Mkfs, error: &xfskit::Error) -> Failure {
    let reason = error.reason();
    if let Some(error) = reason.downcast_ref::<SourceError>() {
        return source_failure(error);
    }
    match (error.kind(), reason.downcast_ref::<BuildError>()) {
        (ErrorKind::Cancelled, _) => {
            let what = if args.keep { "what was made is unfinished" } else { "no volume was made" };
            Failure { message: format!("stopped; {what}"), ..Failure::stopped() }
        }
        (_, Some(BuildError::NoSpace { more })) => {
            let (target, more) = (&args.target, show::human(*more));
            let message = format!("{target}: the tree does not fit: about {more} more are needed");
            Failure::cannot(message)
                .hint("`--size auto` makes the volume as large as the tree needs.")
        }
        (_, Some(BuildError::Unfit { .. })) => Failure::cannot(reason.to_string()),
        _ => failure(args, error),
    }
}

/// Returns the failure of reading a tree, with a hint.
pub(crate) fn source_failure(error: &SourceError) -> Failure {
    let failure = Failure::cannot(error.to_string());
    match error {
        SourceError::Limit { limit: Limit::Content(_), .. } => {
            failure.hint("Make the volume larger, or leave something out of the archive.")
        }
        SourceError::Limit { .. } => failure.hint(
            "An honest archive rarely asks for so much. Where this one is, `--limit SIZE` allows more memory, and \
             work with it.",
        ),
        SourceError::TooManyXattrs { .. } | SourceError::Changed { .. } => {
            failure.hint("Without --strict the rest is copied, and the exit code is 1.")
        }
        _ => failure,
    }
}
