//! The commands, a module each. [`work`] says which volume each needs, and in which way.

mod bench;
mod bulkstat;
mod cat;
pub(crate) mod change;
mod check;
mod compilebench;
mod dbench;
mod df;
mod du;
pub(crate) mod fields;
mod find;
mod fs_mark;
mod get;
mod ground;
mod identity;
mod info;
mod inspect;
mod log;
mod ls;
mod manual;
mod md;
mod mkfs;
mod open;
mod recover;
mod stat;
mod stats;
mod targets;
mod tree;
mod verify;
pub(crate) mod work;
mod xattr;

use crate::exit::Outcome;
use crate::grammar::Command;
use crate::out::Out;

use work::{Alone, Work};

/// Carries out one command.
pub(crate) fn run(command: &Command, out: &Out) -> Outcome {
    match Work::of(command) {
        Work::Look(target, look) if look.verifies() => verify::look(&target, look, out),
        Work::Look(target, look) => look.run(&open::volume(&target, out)?, out),
        Work::Change(target, change) if change.verifies() => verify::change(target, change, out),
        Work::Change(target, change) => change::run(target, change, out),
        Work::Alone(alone) => match alone {
            Alone::Mkfs(args) => mkfs::run(args, out),
            Alone::SetUuid(target, uuid) => identity::set_uuid(target, uuid, out),
            Alone::Info(args) => info::run(args, out),
            Alone::Bulkstat(args) => bulkstat::run(args, out),
            Alone::Check(args) => check::run(args, out),
            Alone::Targets(args) => targets::run(args, out),
            Alone::Completions(args) => manual::completions(args, out),
            Alone::Man(args) => manual::man(args),
            Alone::Inspect(args) => inspect::run(args, out),
            Alone::Log(args) => log::run(args, out),
            Alone::Md(args) => md::run(args, out),
            Alone::Bench(args) => bench::run(args, out),
            Alone::FsMark(args) => fs_mark::run(args, out),
            Alone::Dbench(args) => dbench::run(args, out),
            Alone::Compilebench(args) => compilebench::run(args, out),
            Alone::Recover(args) => recover::run(args, out),
        },
    }
}
