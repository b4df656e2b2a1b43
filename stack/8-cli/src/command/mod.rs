//! The commands, a module each.

mod bench;
mod bulkstat;
mod cat;
pub(crate) mod change;
mod check;
mod compilebench;
mod dbench;
mod df;
mod driver;
mod du;
pub(crate) mod fields;
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
mod mkfs;
mod open;
mod recover;
mod stat;
mod stats;
mod targets;
mod tree;
mod verify;
mod xattr;

use xfskit::Volume;

use crate::exit::Outcome;
use crate::grammar::change::{Label, Uuid};
use crate::grammar::read::XattrCommand;
use crate::grammar::{Command, Target};
use crate::out::Out;

/// Runs one command.
pub(crate) fn run(command: &Command, out: &Out) -> Outcome {
    if let Some(target) = change::target(command) {
        return change::run(target, command, out);
    }
    if let Some(target) = read_target(command) {
        if verify::wanted(command) {
            return verify::run(&target, command, out);
        }
        return read(&open::volume(&target, out)?, command, out);
    }
    match command {
        Command::Mkfs(args) => mkfs::run(args, out),
        Command::Uuid(Uuid { target, uuid: Some(uuid) }) => identity::set_uuid(target, *uuid, out),
        Command::Info(args) => info::run(args, out),
        Command::Bulkstat(args) => bulkstat::run(args, out),
        Command::Check(args) => check::run(args, out),
        Command::Targets(args) => targets::run(args, out),
        Command::Completions(args) => manual::completions(args, out),
        Command::Man(args) => manual::man(args),
        Command::Inspect(args) => inspect::run(args, out),
        Command::Log(args) => log::run(args, out),
        Command::Md(args) => md::run(args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::FsMark(args) => fs_mark::run(args, out),
        Command::Dbench(args) => dbench::run(args, out),
        Command::Compilebench(args) => compilebench::run(args, out),
        Command::Recover(args) => recover::run(args, out),
        _ => unreachable!("commands on a volume are carried out above"),
    }
}

/// Returns the volume that a command reads files of; `None` for all other commands.
pub(crate) fn read_target(command: &Command) -> Option<Target> {
    let target = match command {
        Command::Label(Label { target, label: None })
        | Command::Uuid(Uuid { target, uuid: None }) => {
            return Some(target.to_read());
        }
        Command::Ls(args) => &args.target,
        Command::Tree(args) => &args.target,
        Command::Stat(args) => &args.target,
        Command::Cat(args) => &args.target,
        Command::Find(args) => &args.target,
        Command::Df(args) => &args.target,
        Command::Du(args) => &args.target,
        Command::Stats(args) => &args.target,
        Command::Get(args) => &args.target,
        Command::Xattr(args) => match &args.what {
            XattrCommand::List { target, .. } | XattrCommand::Get { target, .. } => target,
            XattrCommand::Set { .. } | XattrCommand::Rm { .. } => return None,
        },
        _ => return None,
    };
    Some(target.clone())
}

/// Runs a command that reads files of `volume`.
pub(crate) fn read(volume: &Volume, command: &Command, out: &Out) -> Outcome {
    match command {
        Command::Ls(args) => ls::run(volume, args, out),
        Command::Tree(args) => tree::run(volume, args, out),
        Command::Stat(args) => stat::run(volume, args, out),
        Command::Cat(args) => cat::run(volume, args, out),
        Command::Xattr(args) => xattr::run(volume, args, out),
        Command::Find(args) => find::run(volume, args, out),
        Command::Df(args) => df::run(volume, args, out),
        Command::Du(args) => du::run(volume, args, out),
        Command::Stats(args) => stats::run(volume, args, out),
        Command::Get(args) => get::run(volume, args, out),
        Command::Label(_) => identity::label(volume, out),
        Command::Uuid(_) => identity::uuid(volume, out),
        _ => unreachable!("not a command that looks at files"),
    }
}
