//! The commands, a module each. [`work`] says which volume each needs, and in which way.

mod action;
mod bench;
mod blocks;
mod bulkstat;
mod cat;
pub(crate) mod change;
mod check;
mod compilebench;
mod console;
mod dbench;
mod dest;
mod df;
mod driver;
mod du;
mod extents;
mod fields;
mod find;
mod fs_mark;
mod get;
mod identity;
mod info;
mod inspect;
mod log;
mod ls;
mod manual;
mod md;
mod metadump;
mod mkfs;
mod mount;
mod open;
mod path;
mod recover;
mod repair;
mod restore;
mod salvage;
mod stat;
mod stats;
mod targets;
mod tree;
mod undelete;
mod verify;
pub(crate) mod work;
mod xattr;

use crate::exit::Outcome;
use crate::grammar::Command;
use crate::out::Out;

use work::{ReadCommand, StandaloneCommand, Work};

/// Runs one command.
pub(crate) fn run(command: &Command, out: &Out) -> Outcome {
    match Work::of(command) {
        Work::Read(target, command) if command.verifies() => verify::read(&target, command, out),
        Work::Read(target, ReadCommand::Stats(_)) if mount::is_mounted(&target.name) => {
            mount::stats(&target.name, out)
        }
        Work::Read(target, command) => command.run(&mount::volume_to_read(&target, out)?, out),
        Work::Change(target, change) if change.verifies() => verify::change(target, change, out),
        Work::Change(target, change) => change::run(target, change, out),
        Work::Standalone(alone) => match alone {
            StandaloneCommand::Mkfs(args) => mkfs::run(args, out),
            StandaloneCommand::SetUuid(target, uuid) => identity::set_uuid(target, uuid, out),
            StandaloneCommand::Info(args) => info::run(args, out),
            StandaloneCommand::Bulkstat(args) => bulkstat::run(args, out),
            StandaloneCommand::Check(args) => check::run(args, out),
            StandaloneCommand::Repair(args) => match &args.salvage {
                Some(dest) => salvage::run(args, dest, out),
                None => repair::repair(args, out),
            },
            StandaloneCommand::Undo(args) => repair::undo(args, out),
            StandaloneCommand::Undelete(args) => undelete::restore(args, out),
            StandaloneCommand::Targets(args) => targets::run(args, out),
            StandaloneCommand::Completions(args) => manual::completions(args, out),
            StandaloneCommand::Man(args) => manual::man(args),
            StandaloneCommand::Inspect(args) => inspect::run(args, out),
            StandaloneCommand::Log(args) => log::run(args, out),
            StandaloneCommand::Md(args) => md::run(args, out),
            StandaloneCommand::Mount(args) => mount::mount(args, md::run_job, out),
            StandaloneCommand::Umount(args) => mount::umount(args, out),
            StandaloneCommand::Extents(args) => extents::run(args, out),
            StandaloneCommand::Clone(args) => mount::clone(args, out),
            StandaloneCommand::Freeze(args) => mount::freeze(args, out),
            StandaloneCommand::Thaw(args) => mount::thaw(args, out),
            StandaloneCommand::Bench(args) => bench::run(args, out),
            StandaloneCommand::FsMark(args) => fs_mark::run(args, out),
            StandaloneCommand::Dbench(args) => dbench::run(args, out),
            StandaloneCommand::Compilebench(args) => compilebench::run(args, out),
            StandaloneCommand::Recover(args) => recover::run(args, out),
            StandaloneCommand::Metadump(args) => metadump::run(args, out),
            StandaloneCommand::Restore(args) => restore::run(args, out),
        },
    }
}
