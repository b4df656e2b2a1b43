//! The commands, a module each: arguments in, an answer out.

mod bulkstat;
mod cat;
mod check;
mod df;
mod find;
mod get;
mod info;
mod inspect;
mod log;
mod ls;
mod manual;
mod mkfs;
mod open;
mod stat;
mod targets;
mod tree;
mod xattr;

use crate::exit::Outcome;
use crate::grammar::Command;
use crate::out::Out;

/// Carries out one command.
pub(crate) fn run(command: Command, out: &Out) -> Outcome {
    match command {
        Command::Mkfs(args) => mkfs::run(&args, out),
        Command::Info(args) => info::run(&args, out),
        Command::Ls(args) => ls::run(&args, out),
        Command::Tree(args) => tree::run(&args, out),
        Command::Stat(args) => stat::run(&args, out),
        Command::Cat(args) => cat::run(&args, out),
        Command::Xattr(args) => xattr::run(&args, out),
        Command::Find(args) => find::run(&args, out),
        Command::Df(args) => df::run(&args, out),
        Command::Get(args) => get::run(&args, out),
        Command::Bulkstat(args) => bulkstat::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Targets(args) => targets::run(&args, out),
        Command::Completions(args) => manual::completions(&args, out),
        Command::Man(args) => manual::man(&args),
        Command::Inspect(args) => inspect::run(&args, out),
        Command::Log(args) => log::run(&args, out),
    }
}
