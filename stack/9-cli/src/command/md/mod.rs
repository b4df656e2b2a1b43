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
use xfskit::md::Array;
use xfskit::target::Target;

use super::action::{Action, Job};
use super::console::{Console, Terminal};
use super::mkfs::source_date_epoch;
use super::{mount, open};
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

/// Runs an action on an array that is open.
pub(crate) fn run_job(job: &Job, array: &mut Array, console: &dyn Console) -> Outcome {
    let rate = job.rate;
    match &job.action {
        Action::Detail => detail::show(array, console),
        Action::Fail { member, later } => manage::fail_member(array, member, *later, rate, console),
        Action::Add { devices, later } => {
            manage::add_devices(array, devices, *later, rate, console)
        }
        Action::Remove { member } => manage::remove_member(array, member, console),
        Action::Replace { member, with, later } => {
            manage::replace_member(array, (member, with.as_deref()), *later, rate, console)
        }
        Action::Rebuild => manage::rebuild_array(array, rate, console),
        Action::Scrub { repair, from } => scrub::scrub(array, *repair, *from, rate, console),
    }
}

/// Runs an action on `target`: an array, or the directory of a mount on one.
fn run_on(target: &str, job: &Job, out: &Out) -> Outcome {
    if let Some(status) = mount::run_on_array(target, job, out)? {
        return Ok(status);
    }
    let console = Terminal::new(out)?;
    let mut array = manage::open(target, job.writes())?;
    let status = run_job(job, &mut array, &console)?;
    array.close().map_err(|error| failed(target, &error))?;
    Ok(status)
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
