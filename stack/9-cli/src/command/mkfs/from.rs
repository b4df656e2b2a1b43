//! `xfskit mkfs --from`: makes a volume with a tree.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xfskit::raw::copy::build::{self, Blueprint, BuildError, Free, WriteOptions};
use xfskit::raw::copy::source::{
    self, Labels, Limit, MapError, Owners, Source, SourceError, SourceOptions, Tree,
};
use xfskit::raw::copy::{Skipped, SkippedCount};
use xfskit::raw::format::timestamp::Timestamp;
use xfskit::raw::mkfs::{self, DeviceFacts, Options, Plan, Stamp, Summary};
use xfskit::raw::target::Target;
use xfskit::raw::units::ByteLen;

use super::super::open::{about, device_hint};
use super::{
    data_device, facts, failure, image_path, log_device, source_date_epoch, stamp, wanted_size,
};
use crate::exit::{Failure, Outcome};
use crate::grammar::make::Mkfs;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;
use crate::stop::Stop;

/// Free space of a volume whose size the tree decides, without `--free`.
const FREE: &str = "10%";

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

/// Returns true if the tree decides the volume's size: with `--size auto`, or if nothing else does.
fn tree_decides(args: &Mkfs, target: &Target, options: &Options) -> bool {
    let is_said = wanted_size(options).is_some() || options.agsize.is_some();
    is_auto(args) || (is_missing(target) && !is_said)
}

/// Returns true if the target is an image file that does not exist.
fn is_missing(target: &Target) -> bool {
    image_path(target).is_some_and(|path| !path.exists())
}

/// `xfskit mkfs --from`
pub(super) fn run(args: &Mkfs, target: &Target, options: &Options, out: &Out) -> Outcome {
    if let (Some(free), false) = (&args.free, tree_decides(args, target, options)) {
        let why =
            format!("--free {free}: the size of the volume is given, not taken from the tree");
        return Err(Failure::cannot(why).hint("Say `--size auto`, or leave --free out."));
    }
    let stop = Stop::on_signals()?;
    let tree = read(args, target, options, out, &stop)?;
    report_notes(&tree, out);
    let plan = plan(args, target, options, &tree)?;
    plan.notes.iter().for_each(|note| out.note(note));
    let blueprint = Blueprint::new(&tree, &plan).map_err(|e| build_failure(args, &e))?;
    blueprint.notes.iter().for_each(|note| out.note(note));
    if !options.dry_run {
        make(args, target, options, &blueprint, out, &stop)?;
    }
    let skipped = [tree.notes().skipped(), report_unread(&tree, out)].concat();
    if !out.quiet() {
        let made = Made {
            summary: Summary::of(&plan.geometry, &args.target, options.log_name.as_deref()),
            inodes: blueprint.inodes(),
            free_bytes: blueprint.free_bytes(),
            skipped,
        };
        out.result(&made, |made| {
            let free = show::human(made.free_bytes);
            format!("{}content  ={:<22} inodes={}, free {free}\n", made.summary, "", made.inodes)
        })?;
    }
    Ok(out.status())
}

/// Number of files of one kind that are named; more are counted.
const NAMED: usize = 20;

/// Prints notes on the reading of `tree`, and what was left out of it.
pub(crate) fn report_notes(tree: &Tree, out: &Out) {
    let notes = tree.notes();
    for error in notes.left_out.iter().take(NAMED) {
        out.fault_at("left out", error, None);
    }
    out.skipped(&notes.skipped());
    if notes.whiteouts > 0 {
        out.note(&format!(
            "names that begin with .wh. became files ({} of them); --whiteouts applies them instead",
            notes.whiteouts
        ));
    }
}

/// Names the files of `tree` that changed or failed while they were read, and returns their count.
pub(crate) fn report_unread(tree: &Tree, out: &Out) -> Vec<SkippedCount> {
    let unread = tree.take_unread();
    for file in unread.iter().take(NAMED) {
        out.fault_in(&file.path, file, None, None);
    }
    let skipped = Skipped::default();
    skipped.count_more("content (of files that changed or failed while read)", unread.len() as u64);
    let skipped = skipped.counts();
    out.skipped(&skipped);
    skipped
}

fn read(
    args: &Mkfs,
    target: &Target,
    options: &Options,
    out: &Out,
    stop: &Stop,
) -> Result<Tree, Failure> {
    if args.from.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::cannot("--from -: standard input can be read once only"));
    }
    let sources: Vec<Source> = args.from.iter().cloned().map(Source::named).collect();
    let epoch = source_date_epoch()?.map(|sec| Timestamp { sec, nsec: 0 });
    let how = SourceOptions {
        owners: owners(args)?,
        labels: args
            .selinux_contexts
            .as_deref()
            .map(|path| listed(path, Labels::parse))
            .transpose()?,
        whiteouts: args.whiteouts,
        exclude: image_path(target).map(PathBuf::from).into_iter().collect(),
        epoch,
        strict: args.strict,
        memory_limit: args.limit,
        content_limit: size(args, target, options)?,
        stdin: stop.stdin(),
        ..SourceOptions::default()
    };
    let progress = Progress::new(out, "reading", "names");
    let on_progress = |done: source::Progress| {
        progress.set(done.names, 0);
        stop.flow()
    };
    source::read_tree(&sources, &how, &on_progress).map_err(|error| {
        // If Ctrl-C also ended the writer of a stream, the stream is cut off.
        let error = if stop.flow().is_break() { SourceError::Stopped } else { error };
        build_failure(args, &BuildError::Source(error))
    })
}

/// Returns the bytes of the volume; `None` if the tree decides.
fn size(args: &Mkfs, target: &Target, options: &Options) -> Result<Option<u64>, Failure> {
    if tree_decides(args, target, options) {
        return Ok(None);
    }
    let size = wanted_size(options);
    Ok(Some(size.map_or_else(|| facts(target, options, None).map(|facts| facts.size), Ok)?.0))
}

/// Returns the owners of `--owner` or `--owner-map`.
fn owners(args: &Mkfs) -> Result<Option<Owners>, Failure> {
    let Some(text) = &args.owner else {
        return args.owner_map.as_deref().map(|path| listed(path, Owners::parse)).transpose();
    };
    let pair = text
        .split_once(':')
        .and_then(|(uid, gid)| Some(Owners::all(uid.parse().ok()?, gid.parse().ok()?)));
    let bad = || Failure::cannot(format!("--owner {text}: not two numbers, UID:GID"));
    pair.map(Some).ok_or_else(bad)
}

/// Reads and parses a file of rules.
fn listed<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, MapError>) -> Result<T, Failure> {
    let bad = |why: &dyn Display| Failure::cannot(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|e| bad(&e))?;
    parse(&text).map_err(|e| bad(&e))
}

/// Parses the size of `--free`.
fn free(text: &str) -> Result<Free, Failure> {
    let bad = |why: &str| Failure::cannot(format!("--free {text}: {why}"));
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent) if percent < 100 => Ok(Free::Percent(percent)),
            _ => Err(bad("a share is from 0% to 99%")),
        },
        None => show::parse_size(text).map(Free::Bytes).map_err(|why| bad(&why)),
    }
}

fn plan(args: &Mkfs, target: &Target, options: &Options, tree: &Tree) -> Result<Plan, Failure> {
    let stamp: Stamp = stamp()?;
    if tree_decides(args, target, options) {
        let any = facts(target, options, Some(ByteLen(u64::MAX >> 1)))?;
        let sectors = if is_missing(target) {
            any
        } else {
            DeviceFacts { size: any.size, ..facts(target, options, None)? }
        };
        let free = free(args.free.as_deref().unwrap_or(FREE))?;
        return build::fit(tree, options, &sectors, stamp, free)
            .map_err(|e| build_failure(args, &e));
    }
    let facts = facts(target, options, wanted_size(options))?;
    mkfs::plan(options, &facts, stamp).map_err(|e| failure(args, &e))
}

/// Writes the volume. An unfinished new image is removed, unless it is to be kept.
fn make(
    args: &Mkfs,
    target: &Target,
    options: &Options,
    blueprint: &Blueprint<'_>,
    out: &Out,
    stop: &Stop,
) -> Result<(), Failure> {
    let new = image_path(target).filter(|path| !path.exists());
    let progress = Progress::new(out, "writing", "files");
    let on_progress = |done: build::Progress| {
        progress.set(done.inodes, done.total);
        stop.flow()
    };
    let made = (|| {
        let data = data_device(target, blueprint.data_bytes())?;
        let log = log_device(options)?;
        let how = WriteOptions { threads: args.threads };
        build::write(&*data, log.as_deref(), blueprint, how, &on_progress)
            .map_err(|e| build_failure(args, &e))
    })();
    if let (Err(_), Some(path), false) = (&made, new, args.keep) {
        // An image that cannot be removed is marked as unfinished.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn build_failure(args: &Mkfs, error: &BuildError) -> Failure {
    match error {
        BuildError::Mkfs(error) => failure(args, error),
        BuildError::NoSpace { more } => {
            let (target, more) = (&args.target, show::human(*more));
            let message = format!("{target}: the tree does not fit: about {more} more are needed");
            Failure::cannot(message)
                .hint("`--size auto` makes the volume as large as the tree needs.")
        }
        BuildError::Device(error) => {
            device_hint(Failure::cannot(about(&args.target, error)), error)
        }
        BuildError::Stopped | BuildError::Source(SourceError::Stopped) => {
            let what = if args.keep { "what was made is unfinished" } else { "no volume was made" };
            Failure { message: format!("stopped; {what}"), ..Failure::stopped() }
        }
        BuildError::Source(error) => source_failure(error),
        _ => Failure::cannot(error.to_string()),
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
