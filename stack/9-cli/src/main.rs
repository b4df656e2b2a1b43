//! The command `xfskit`.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`grammar`] | every command, option and argument, with their help |
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let out = Out::new(cli.output);
    let ended = command::run(&cli.command, &out).and_then(|status| {
        out.report_healed()?;
        out.flush()?;
        Ok(status)
    });
    match ended {
        Ok(status) => status.into(),
        Err(failure) => {
            // If standard output fails too, the exit code still reports the failure.
            let _ = out.report_healed();
            out.failure(&failure);
            out.flush_quietly();
            ExitCode::from(failure.exit)
        }
    }
}
