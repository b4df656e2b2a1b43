//! `xfskit mkfs`: makes a volume.

mod from;

pub(super) use from::{Reported, source_failure};

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xfskit::{ErrorKind, MkfsError, compat};

use super::open::about;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::make::Mkfs;
use crate::out::Out;
use crate::show;

/// `xfskit mkfs`: makes an empty volume, or with `--from` one that holds a tree.
pub(crate) fn run(args: &Mkfs, out: &Out) -> Outcome {
    let mkfs = choose_features(args, builder(args)?, out)?;
    if !args.from.is_empty() {
        return from::run(args, mkfs, out);
    }
    let plan = mkfs.plan(&*args.target).map_err(|e| failure(args, &e))?;
    plan.notes().iter().for_each(|note| out.note(note));
    if !args.dry_run {
        plan.write().map_err(|e| failure(args, &e))?;
    }
    if !out.quiet() {
        out.result(&plan.summary(&args.target), ToString::to_string)?;
    }
    Ok(ExitStatus::Success)
}

/// Converts the command line to options of the library.
fn builder(args: &Mkfs) -> Result<xfskit::Mkfs, Failure> {
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
    let mut mkfs = xfskit::Mkfs::new().force(args.force).discard(!args.no_discard);
    for (letter, arg) in pairs.chain(size).chain(label).chain(uuid) {
        mkfs = mkfs.option(letter, arg).map_err(|e| failure(args, &e))?;
    }
    Ok(match source_date()? {
        Some(time) => mkfs.time(time),
        None => mkfs,
    })
}

/// Leaves out features that a reader of `--target` does not support, and prints them.
fn choose_features(args: &Mkfs, mkfs: xfskit::Mkfs, out: &Out) -> Result<xfskit::Mkfs, Failure> {
    if args.readers.is_empty() {
        return Ok(mkfs);
    }
    let readers: Result<Vec<compat::Target>, _> =
        args.readers.iter().map(|name| name.parse()).collect();
    let readers = readers.map_err(|e| Failure::cannot(format!("--target: {e}")))?;
    let (mkfs, left_out) = mkfs.readers(&readers, args.target_max);
    for left_out in &left_out {
        out.note(&left_out.to_string());
    }
    Ok(mkfs)
}

/// Converts `--size 1.5G` to the suboption with the same meaning.
fn size_option(text: &str) -> Result<String, Failure> {
    if text == "auto" {
        return Err(Failure::cannot("--size auto: only with --from, whose tree decides the size"));
    }
    let size = show::parse_size(text).map_err(|e| Failure::cannot(format!("--size: {e}")))?;
    Ok(format!("size={size}"))
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

/// Returns the time of new files, as [`source_date_epoch`] has it. One that the system cannot
/// express is the nearest that it can: 1970.
fn source_date() -> Result<Option<SystemTime>, Failure> {
    let time = |seconds: i64| {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        let time = match seconds {
            ..0 => UNIX_EPOCH.checked_sub(distance),
            0.. => UNIX_EPOCH.checked_add(distance),
        };
        time.unwrap_or(UNIX_EPOCH)
    };
    Ok(source_date_epoch()?.map(time))
}

/// Returns the failure of making a volume, with a hint.
fn failure(args: &Mkfs, error: &xfskit::Error) -> Failure {
    let failure = Failure::cannot(about(&args.target, error.reason()));
    let hint = match error.reason().downcast_ref::<MkfsError>() {
        Some(MkfsError::Option(_)) => "`xfskit mkfs --help` lists the options.",
        Some(MkfsError::LogDevice) => "Name one with -l logdev=DEVICE,size=SIZE.",
        _ if error.kind() == ErrorKind::NotFound && !Path::new(&*args.target).exists() => {
            return Failure::cannot(format!("{}: no such file", args.target))
                .hint("To make a new image, give its size: xfskit mkfs --size 1G IMAGE");
        }
        _ => return Failure { hint: error.hint(), ..failure },
    };
    failure.hint(hint)
}
