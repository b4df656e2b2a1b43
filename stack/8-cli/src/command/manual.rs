//! `completions` and `man`: both generated from the grammar.

use std::fs;

use clap::CommandFactory;

use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::{Cli, Completions, Man};
use crate::out::Out;

/// `xfskit completions`
pub(crate) fn completions(args: &Completions, out: &Out) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "xfskit", &mut script);
    out.raw(&script)?;
    Ok(Answer::Yes)
}

/// `xfskit man`
pub(crate) fn man(args: &Man) -> Outcome {
    let failed = |e: std::io::Error| {
        Failure::cannot(format!("{}: {e}", args.dir.display()))
            .hint("Give a directory that you may write to.")
    };
    fs::create_dir_all(&args.dir).map_err(failed)?;
    // A page's date and version would make it differ from build to build for no reason.
    let command = Cli::command().version(None::<&str>);
    clap_mangen::generate_to(command, &args.dir).map_err(failed)?;
    Ok(Answer::Yes)
}
