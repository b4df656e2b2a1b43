//! `xfskit md`: Linux md arrays.
//!
//! | module | commands |
//! | --- | --- |
//! | [`create`] | `md create`: a new array |
//! | [`manage`] | `md fail`, `remove`, `add`, `replace`, `rebuild` |
//! | [`scrub`] | `md scrub`: compares members |
//! | [`examine`] | `md examine`: prints the superblock of a member |
//! | [`detail`] | `md assemble`, `md detail`: describe an array |
//! | [`guess`] | `md guess`: recovers the geometry of members without superblocks |
//! | [`copy`] | `md dump`, `md load`: copy content out and in |
//! | [`bench`] | `md bench`: measures parity routines |

mod bench;
mod copy;
mod create;
mod detail;
mod examine;
mod guess;
mod manage;
mod scrub;

use std::time::{Duration, SystemTime};

use xfskit::ErrorKind;
use xfskit::target::Target;

use super::mkfs::source_date_epoch;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::md::{Md, MdCommand};
use crate::out::{Out, chain};

/// `xfskit md`: runs the chosen command for arrays.
pub(crate) fn run(args: &Md, out: &Out) -> Outcome {
    match &args.what {
        MdCommand::Create(args) => create::run(args, out),
        MdCommand::Fail(args) => manage::fail(args, out),
        MdCommand::Remove(args) => manage::remove(args, out),
        MdCommand::Add(args) => manage::add(args, out),
        MdCommand::Replace(args) => manage::replace(args, out),
        MdCommand::Rebuild(args) => manage::rebuild(args, out),
        MdCommand::Scrub(args) => scrub::run(args, out),
        MdCommand::Examine { members } => examine::run(members, out),
        MdCommand::Assemble { members } => detail::assemble(members, out),
        MdCommand::Detail { array } => detail::detail(&array.target, out),
        MdCommand::Guess { members, scan } => guess::run(members, *scan, out),
        MdCommand::Dump { array, offset, length } => {
            copy::dump(&array.target, *offset, *length, out)
        }
        MdCommand::Load { array, file, offset, write } => {
            copy::load(&array.target, file, *offset, *write, out)
        }
        MdCommand::Bench { members, block } => bench::run(*members, *block, out),
    }
}

/// Returns the target with these members.
fn array_target(names: &[String]) -> Result<Target, Failure> {
    Target::array(names).map_err(|e| failed(&names.join(","), &e))
}

/// Returns the time, or SOURCE_DATE_EPOCH.
fn now() -> Result<SystemTime, Failure> {
    Ok(match source_date_epoch()? {
        Some(seconds) => {
            SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        }
        None => SystemTime::now(),
    })
}

/// Returns the failure of an operation on the array `name`. What a member does not allow is a
/// problem (exit code 1).
fn failed(name: &str, error: &xfskit::Error) -> Failure {
    let failure = match error.kind() {
        ErrorKind::Member => Failure::problem(chain(error)),
        _ => Failure::cannot(open::about(name, error)),
    };
    open::hinted(failure, error.hint())
}
