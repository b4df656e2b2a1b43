//! The commands, a module each: arguments in, an answer out.

mod manual;

use crate::exit::{Failure, Outcome};
use crate::grammar::Command;
use crate::out::Out;

/// Carries out one command.
pub(crate) fn run(command: Command, out: &Out) -> Outcome {
    match command {
        Command::Completions(args) => manual::completions(&args, out),
        Command::Man(args) => manual::man(&args),
        _ => Err(Failure::cannot("this command is being built")),
    }
}
