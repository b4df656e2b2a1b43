//! `xfskit restore`: makes an image of a file of metadata.

use std::fs::File;
use std::io::{self, BufReader, Read};

use xfskit::{ErrorKind, MetadumpContent, MetadumpFormat, MetadumpInfo, RestoreMetadump};

use super::metadump::refuse_own;
use super::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::metadump::Restore;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// `xfskit restore`: makes an image of a file of metadata.
pub(crate) fn run(args: &Restore, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(stop.stdin())
    } else {
        Box::new(File::open(&args.file).map_err(|error| not_readable(args, &error))?)
    };
    let source = BufReader::with_capacity(BUFFER, source);
    let Some(image) = args.image.as_ref().filter(|_| !args.info) else {
        let info = MetadumpInfo::read(source).map_err(|error| failure(args, &error))?;
        out.result(&info, describe)?;
        return Ok(ExitStatus::Success);
    };
    if image.as_os_str() == "-" {
        return Err(Failure::cannot("an image cannot be a stream: its blocks come in any order")
            .hint("Give the name of a new image: xfskit restore FILE IMAGE"));
    }
    for target in [Some(image), args.logdev.as_ref(), args.rtdev.as_ref()].into_iter().flatten() {
        refuse_own(&target.to_string_lossy(), &args.file)?;
    }
    let progress = Progress::new(out, "restore", Unit::Bytes);
    let size = args.file.metadata().map_or(0, |file| file.len());
    let mut restore = RestoreMetadump::new()
        .force(args.force)
        .partial(args.partial)
        .progress(|at| progress.set(at.done, size))
        .cancel(stop.token());
    if let Some(log) = &args.logdev {
        restore = restore.log(log);
    }
    if let Some(realtime) = &args.rtdev {
        restore = restore.realtime(realtime);
    }
    let restored = restore.run(source, image).map_err(|error| match error.kind() {
        ErrorKind::Cancelled => Failure::stopped_and("no whole image was made"),
        ErrorKind::AlreadyExists => Failure::cannot(format!("{}: {error}", image.display()))
            .hint("Give the name of a new image, or overwrite it: --force."),
        _ => failure(args, &error),
    })?;
    drop(restore);
    progress.finish();
    if restored.incomplete {
        out.note("the file is incomplete: the end of the metadata is missing in the image");
    }
    if out.json() {
        out.object(&restored)?;
    } else if !out.quiet() {
        let (volume, metadata) =
            (show::human(restored.volume_bytes), show::human(restored.metadata_bytes));
        out.line(format!("{}: a volume of {volume}, {metadata} of metadata", image.display()))?;
    }
    Ok(ExitStatus::of(!restored.incomplete))
}

fn not_readable(args: &Restore, error: &io::Error) -> Failure {
    let failure = Failure::cannot(format!("{}: {error}", args.file.display()));
    match error.kind() {
        io::ErrorKind::NotFound => failure.hint("Check the name; - reads standard input."),
        _ => failure,
    }
}

fn failure(args: &Restore, error: &xfskit::Error) -> Failure {
    // What cannot be opened or written is the image, and its error has its own words.
    if let (ErrorKind::StorageFull, Some(image)) = (error.kind(), &args.image) {
        return Failure::cannot(format!("{}: {error}", image.display()))
            .hint("No image was made. Free some space, or choose another place.");
    }
    let text = format!("{}: {}", args.file.display(), error.reason());
    open::hinted(Failure::cannot(text), error.hint())
}

/// Describes a file in words.
fn describe(info: &MetadumpInfo) -> String {
    let version = match info.format {
        MetadumpFormat::V1 => 1,
        MetadumpFormat::V2 => 2,
    };
    let words =
        info.content.map_or_else(|| vec!["the file does not say how it was made"], content_words);
    let volume = info.volume_bytes.map_or("of unknown size".to_owned(), show::human);
    format!("version {version}, a volume of {volume}\n  {}\n", words.join(", "))
}

fn content_words(content: MetadumpContent) -> Vec<&'static str> {
    let mut words = vec![
        if content.obfuscated { "names obfuscated" } else { "names as they are" },
        if content.full_blocks { "whole blocks" } else { "unused parts of blocks cleared" },
        if content.dirty_log { "dirty journal" } else { "clean journal" },
    ];
    words.extend(content.external_log.then_some("with an external journal"));
    words.extend(content.realtime.then_some("with metadata of a realtime device"));
    words
}
