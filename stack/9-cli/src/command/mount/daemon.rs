//! The process that serves a mount in the background.
//!
//! The command starts itself again with `--detach` and waits until that process says that the
//! mount is there, or ends: errors appear where the user typed the command.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::status_of;
use crate::exit::{Failure, Outcome};
use crate::helper;
use crate::out::Out;

/// What the new process writes when the mount is there.
const READY: &str = "mounted";

/// Starts this command again in the background, and waits for its mount.
pub(super) fn start(out: &Out) -> Outcome {
    let cannot = |error: std::io::Error| Failure::cannot(format!("a new process: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut child = Command::new(program)
        .args(words()?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    out.flush()?;
    let lines = child.stdout.take().map(|pipe| BufReader::new(pipe).lines());
    for line in lines.into_iter().flatten() {
        let line = line.map_err(cannot)?;
        if line == READY {
            return Ok(out.status());
        }
        // Faults and errors as JSON.
        out.line(&line)?;
    }
    let ended = child.wait().map_err(cannot)?;
    match ended.code() {
        Some(code @ (0 | 1)) => Ok(status_of(code)),
        // The process has said why.
        Some(code) => {
            out.flush()?;
            let code = helper::exit_code(u8::try_from(code).unwrap_or(u8::MAX));
            std::process::exit(code.into())
        }
        None => Err(Failure::cannot(format!("the process that serves the mount: {ended}"))),
    }
}

/// Returns the arguments of the new process: those of this one, and `--detach` before its operands.
fn words() -> Result<Vec<OsString>, Failure> {
    let words = helper::words().map_err(|error| Failure::cannot(error.to_string()))?;
    let mut words: Vec<OsString> = words.into_iter().skip(1).collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(end, "--detach".into());
    Ok(words)
}

/// Tells the parent that the mount is there, and detaches from its terminal and directory.
pub(super) fn detach() -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::cannot(format!("detach: {error}"));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}").and_then(|()| stdout.flush()).map_err(cannot)?;
    // Fails in a process that leads its group, which the shell's child may be.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/").map_err(|error| cannot(error.into()))?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(cannot)?;
    redirect(&null).map_err(|error| cannot(error.into()))
}

fn redirect(null: &File) -> rustix::io::Result<()> {
    rustix::stdio::dup2_stdin(null)?;
    rustix::stdio::dup2_stdout(null)?;
    rustix::stdio::dup2_stderr(null)
}
