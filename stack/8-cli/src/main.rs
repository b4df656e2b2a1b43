//! The command `xfskit`.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`grammar`] | every command, option and argument, and the words that teach them |
//! | [`exit`] | how a command ends: exit codes, errors that say what to do next |
//! | [`standard`] | standard output, and whether there is one |
//! | [`out`] | answers, faults and notes, as text or JSON |
//! | [`show`] | sizes, modes, times and names as people read and write them |
//! | [`quote`] | names on standard output, in the styles of `ls` |
//! | [`usage`] | command lines that the grammar does not take |
//! | [`progress`] | bars and lines for what takes longer than a second |
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
        Err(error) => return usage::tell(&error),
    };
    let out = Out::new(cli.voice);
    let ended = command::run(&cli.command, &out).and_then(|answer| {
        out.tell_healed()?;
        out.flush()?;
        Ok(answer)
    });
    match ended {
        Ok(answer) => answer.into(),
        Err(failure) => {
            // Where not even that can be said, the exit code still says it.
            let _ = out.tell_healed();
            out.failure(&failure);
            out.flush_quietly();
            ExitCode::from(failure.exit)
        }
    }
}
