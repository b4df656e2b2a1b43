//! The command `xfskit`.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`grammar`] | every command, option and argument, with their help |
//! | [`helper`] | the program as a helper of mount(8) and umount(8) |
//! | [`exit`] | exit codes, and errors that say what to do next |
//! | [`standard`] | standard output, if there is one |
//! | [`out`] | results, faults and notes, as text or JSON |
//! | [`show`] | parses and formats sizes, modes, times and names |
//! | [`quote`] | names on standard output, in the styles of `ls` |
//! | [`usage`] | command lines that are not valid |
//! | [`progress`] | progress of work that takes longer than a second |
//! | [`stop`] | Ctrl-C |
//! | [`command`] | the commands, a module each |

mod command;
mod exit;
mod grammar;
mod helper;
mod out;
mod progress;
mod quote;
mod show;
mod standard;
mod stop;
mod usage;

use std::process::ExitCode;

use clap::Parser;

use crate::grammar::Cli;
use crate::out::Out;

fn main() -> ExitCode {
    let code = match helper::words() {
        Ok(words) => {
            let words = usage::with_help(words);
            match Cli::try_parse_from(&words) {
                Ok(cli) => run(&cli),
                Err(error) => usage::report(&error, &words),
            }
        }
        Err(error) => return ExitCode::from(helper::report(&error)),
    };
    ExitCode::from(helper::exit_code(code))
}

/// Runs the command, and returns its exit code.
fn run(cli: &Cli) -> u8 {
    let out = Out::new(cli.output);
    let ended = command::run(&cli.command, &out).and_then(|status| {
        out.report_healed()?;
        out.flush()?;
        Ok(status)
    });
    match ended {
        Ok(status) => status.code(),
        Err(failure) => {
            // If standard output fails too, the exit code still reports the failure.
            let _ = out.report_healed();
            out.failure(&failure);
            out.flush_quietly();
            failure.exit
        }
    }
}
