//! `xfskit mkfs`: makes a volume.

mod from;

pub(super) use from::{report_notes, report_unread, source_failure};

use std::path::Path;
use std::sync::Arc;

use xfskit::raw::block::{BlockDevice, FileDevice, OpenMode};
use xfskit::raw::mkfs::{self, DeviceFacts, Options, Stamp, Summary, compat};
use xfskit::raw::target::{self, Target};
use xfskit::raw::units::{ByteLen, Uuid};

use super::open::{about, device_hint, target_failure};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::make::Mkfs;
use crate::out::Out;
use crate::show;

/// `xfskit mkfs`
pub(crate) fn run(args: &Mkfs, out: &Out) -> Outcome {
    let target = Target::parse(&args.target).map_err(|e| target_failure(&args.target, &e))?;
    let mut options = options(args)?;
    choose_features(args, &mut options, out)?;
    if !args.from.is_empty() {
        return from::run(args, &target, &options, out);
    }
    let size = wanted_size(&options);
    let facts = facts(&target, &options, size)?;
    let plan = mkfs::plan(&options, &facts, stamp()?).map_err(|e| failure(args, &e))?;
    plan.notes.iter().for_each(|note| out.note(note));
    if !options.dry_run {
        let data = data_device(&target, plan.geometry.data_bytes())?;
        let log = log_device(&options)?;
        mkfs::make(&*data, log.as_deref(), &plan).map_err(|e| failure(args, &e))?;
    }
    if !out.quiet() {
        let summary = Summary::of(&plan.geometry, &args.target, options.log_name.as_deref());
        out.result(&summary, ToString::to_string)?;
    }
    Ok(ExitStatus::Success)
}

/// Converts the command line to options of the library.
fn options(args: &Mkfs) -> Result<Options, Failure> {
    let mut options = Options::default();
    let letters = [
        ("-b", &args.block),
        ("-s", &args.sector),
        ("-d", &args.data),
        ("-i", &args.inode),
        ("-l", &args.log),
        ("-n", &args.naming),
        ("-m", &args.metadata),
    ];
    let auto = from::is_auto(args);
    let size = args.size.as_deref().filter(|_| !auto).map(size_option).transpose()?;
    let pairs = letters
        .into_iter()
        .flat_map(|(letter, args)| args.iter().map(move |arg| (letter, arg.as_str())));
    let size = size.as_deref().map(|size| ("-d", size));
    let label = args.label.as_deref().map(|label| ("-L", label));
    let uuid = args.uuid.as_deref().map(|uuid| format!("uuid={uuid}"));
    let uuid = uuid.as_deref().map(|uuid| ("-m", uuid));
    for (letter, arg) in pairs.chain(size).chain(label).chain(uuid) {
        options.sub(letter, arg).map_err(|e| failure(args, &e.into()))?;
    }
    options.force = args.force;
    options.dry_run = args.dry_run;
    options.no_discard = args.no_discard;
    Ok(options)
}

/// Leaves out features that a reader of `--target` does not support, and prints them.
fn choose_features(args: &Mkfs, options: &mut Options, out: &Out) -> Result<(), Failure> {
    if args.readers.is_empty() {
        return Ok(());
    }
    let readers: Result<Vec<compat::Target>, _> =
        args.readers.iter().map(|name| name.parse()).collect();
    let readers = readers.map_err(|e| Failure::cannot(format!("--target: {e}")))?;
    let choice = compat::features_for(&readers, args.target_max);
    choice.left_out.iter().for_each(|left_out| out.note(&left_out.to_string()));
    choice.apply(options);
    Ok(())
}

/// Converts `--size 1.5G` to the suboption with the same meaning.
fn size_option(text: &str) -> Result<String, Failure> {
    if text == "auto" {
        return Err(Failure::cannot("--size auto: only with --from, whose tree decides the size"));
    }
    let size = show::parse_size(text).map_err(|e| Failure::cannot(format!("--size: {e}")))?;
    Ok(format!("size={size}"))
}

/// Returns the requested size, in bytes.
fn wanted_size(options: &Options) -> Option<ByteLen> {
    let block = options.block_size.unwrap_or(4096);
    let sector = options.sector_size.unwrap_or(512);
    options.data_size?.bytes(block, sector).map(ByteLen)
}

/// Returns the properties of the devices. Nothing is made or changed yet.
fn facts(
    target: &Target,
    options: &Options,
    size: Option<ByteLen>,
) -> Result<DeviceFacts, Failure> {
    let log = match &options.log_name {
        Some(name) => Some(open(
            &Target::parse(name).map_err(|e| target_failure(name, &e))?,
            OpenMode::ReadOnly,
        )?),
        None => None,
    };
    match (image_path(target), size) {
        (Some(path), Some(size)) if !path.exists() || is_shorter_file(path, size) => {
            let file = DeviceFacts::file(size);
            Ok(match &log {
                Some(log) => DeviceFacts { log: DeviceFacts::of(log, Some(log)).log, ..file },
                None => file,
            })
        }
        (Some(path), None) if !path.exists() => {
            Err(Failure::cannot(format!("{}: no such file", path.display()))
                .hint("To make a new image, give its size: xfskit mkfs --size 1G IMAGE"))
        }
        _ => Ok(DeviceFacts::of(&open(target, OpenMode::ReadOnly)?, log.as_deref())),
    }
}

/// Returns the path of a target that is a whole file.
fn image_path(target: &Target) -> Option<&Path> {
    match (&target.base, &target.part) {
        (target::Base::File(path), None) => Some(path),
        _ => None,
    }
}

fn is_shorter_file(path: &Path, size: ByteLen) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() < size.0)
}

/// Opens the device to write to. A missing image is made, and a shorter one is extended.
fn data_device(target: &Target, size: ByteLen) -> Result<Arc<dyn BlockDevice>, Failure> {
    let name = target.to_string();
    match image_path(target) {
        Some(path) if !path.exists() => {
            target::create(target, size).map_err(|e| target_failure(&name, &e))
        }
        Some(path) if is_shorter_file(path, size) => {
            let longer = FileDevice::open(path, OpenMode::ReadWrite).and_then(|mut file| {
                file.resize(size)?;
                Ok(file)
            });
            longer
                .map(|file| Arc::new(file) as Arc<dyn BlockDevice>)
                .map_err(|error| device_hint(Failure::cannot(about(&name, &error)), &error))
        }
        _ => open(target, OpenMode::ReadWrite),
    }
}

fn log_device(options: &Options) -> Result<Option<Arc<dyn BlockDevice>>, Failure> {
    let Some(name) = &options.log_name else { return Ok(None) };
    let target = Target::parse(name).map_err(|e| target_failure(name, &e))?;
    open(&target, OpenMode::ReadWrite).map(Some)
}

fn open(target: &Target, mode: OpenMode) -> Result<Arc<dyn BlockDevice>, Failure> {
    target::open_unchecked(target, mode).map_err(|e| target_failure(&target.to_string(), &e))
}

/// Returns the time of new files from SOURCE_DATE_EPOCH, in seconds since 1970, or `None` for now.
pub(super) fn source_date_epoch() -> Result<Option<i64>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds.map(Some).ok_or_else(|| {
        Failure::cannot(format!("SOURCE_DATE_EPOCH: {} is not a time", text.display()))
            .hint("Give seconds since 1970.")
    })
}

/// Returns UUID, time and generation of a new volume.
fn stamp() -> Result<Stamp, Failure> {
    let (seconds, nanoseconds) = match source_date_epoch()? {
        Some(seconds) => (seconds, 0),
        None => show::now_exact(),
    };
    let uuid = Uuid::new_v4();
    let [g0, g1, g2, g3, ..] = *Uuid::new_v4().as_bytes();
    let generation = u32::from_be_bytes([g0, g1, g2, g3]);
    Ok(Stamp { uuid, seconds, nanoseconds, generation })
}

/// Returns the failure of making a volume, with a hint.
fn failure(args: &Mkfs, error: &mkfs::Error) -> Failure {
    let failure = Failure::cannot(about(&args.target, error));
    match error {
        mkfs::Error::Option(_) => failure.hint("`xfskit mkfs --help` lists the options."),
        mkfs::Error::Device(error) => device_hint(failure, error),
        mkfs::Error::LogDevice => failure.hint("Name one with -l logdev=DEVICE,size=SIZE."),
        mkfs::Error::Refused(_) | mkfs::Error::Occupied { .. } => failure,
    }
}
