//! `completions` and `man`: generated from the grammar.

use std::fs;

use clap::CommandFactory;

use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::{Cli, Completions, Man};
use crate::out::Out;

/// `xfskit completions`: prints the completions for a shell.
pub(crate) fn completions(args: &Completions, out: &Out) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "xfskit", &mut script);
    out.raw(&script)?;
    Ok(ExitStatus::Success)
}

/// `xfskit man`: writes the manual pages to a directory.
pub(crate) fn man(args: &Man) -> Outcome {
    let failed = |e: std::io::Error| {
        Failure::cannot(format!("{}: {e}", args.dir.display()))
            .hint("Give a directory that you may write to.")
    };
    fs::create_dir_all(&args.dir).map_err(failed)?;
    // Date and version would make each build's pages differ.
    let command = Cli::command().version(None::<&str>);
    clap_mangen::generate_to(command, &args.dir).map_err(failed)?;
    Ok(ExitStatus::Success)
}
