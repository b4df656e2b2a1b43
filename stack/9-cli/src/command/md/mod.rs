//! `xfskit md`: Linux md arrays.
//!
//! | module | commands |
//! | --- | --- |
//! | [`create`] | `md create`: a new array |
//! | [`manage`] | `md fail`, `remove`, `add`, `replace`, `rebuild` |
//! | [`disagreement`] | reports where a rebuild found that members disagree |
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
mod disagreement;
mod examine;
mod guess;
mod manage;
mod scrub;

use xfskit::raw::block::OpenMode;
use xfskit::raw::md::Member;
use xfskit::raw::target::{self, Base, Target};

use super::mkfs::source_date_epoch;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::md::{Md, MdCommand};
use crate::out::Out;
use crate::show;

/// `xfskit md`
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

/// Returns the members that these arguments name, with patterns expanded; `None` for `missing`.
fn members(names: &[String]) -> Result<Vec<Option<Member>>, Failure> {
    let name = array_name(names);
    let target = Target::parse(&name).map_err(|e| open::target_failure(&name, &e))?;
    let Base::Array(array) = &target.base else {
        return Err(Failure::cannot(format!("{name}: not an array")));
    };
    target::members(array, OpenMode::ReadOnly).map_err(|e| open::target_failure(&name, &e))
}

/// Returns the target with these members.
fn array_name(names: &[String]) -> String {
    let quoted = |name: &String| match name.as_str() {
        "missing" => name.clone(),
        _ if name.contains([',', '[', '#']) || name.starts_with("md:") => format!("[{name}]"),
        _ => name.clone(),
    };
    format!("md:{}", names.iter().map(quoted).collect::<Vec<_>>().join(","))
}

/// Returns seconds since 1970, or SOURCE_DATE_EPOCH.
fn now() -> Result<u64, Failure> {
    let (seconds, _) = match source_date_epoch()? {
        Some(seconds) => (seconds, 0),
        None => show::now_exact(),
    };
    Ok(u64::try_from(seconds).unwrap_or(0))
}
