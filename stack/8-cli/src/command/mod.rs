//! The commands, a module each: arguments in, an answer out.

mod check;
mod manual;
mod mkfs;
mod open;
mod targets;

use crate::exit::{Failure, Outcome};
use crate::grammar::Command;
use crate::out::Out;

/// Carries out one command.
pub(crate) fn run(command: Command, out: &Out) -> Outcome {
    match command {
        Command::Mkfs(args) => mkfs::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Targets(args) => targets::run(&args, out),
        Command::Completions(args) => manual::completions(&args, out),
        Command::Man(args) => manual::man(&args),
        _ => Err(Failure::cannot("this command is being built")),
    }
}
