//! `xfskit shell`: runs many commands on one open volume.
//!
//! A line is parsed by the grammar of the whole program, with the target inserted, so every command
//! has the same meaning as outside.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStringExt;

use clap::{CommandFactory, FromArgMatches};

use super::Session;
use crate::command::open;
use crate::command::work::{Change, Work};
use crate::exit::{ExitStatus, Failure};
use crate::grammar::Cli;
use crate::grammar::change::Shell;
use crate::out::Out;
use crate::usage;

/// `xfskit shell`: runs many commands on one open volume, from standard input or a file.
pub(super) fn run(session: &Session<'_>, args: &Shell) -> Result<(), Failure> {
    let mut input: Box<dyn BufRead> = match &args.file {
        Some(path) => {
            let file = File::open(path)
                .map_err(|e| Failure::cannot(format!("{}: {e}", path.display())))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(BufReader::new(session.stop.stdin())),
    };
    let prompt = args.file.is_none() && io::stdin().is_terminal() && !session.out.quiet();
    let (mut number, mut failed) = (0_u64, false);
    // Made once, because that takes longer than most commands.
    let mut grammar = Cli::command();
    loop {
        session.stop.check()?;
        if prompt {
            let _ = io::stderr().write_all(b"xfskit> ");
        }
        let mut line = Vec::new();
        let read = input.read_until(b'\n', &mut line);
        session.stop.check()?;
        if read.map_err(|e| Failure::cannot(format!("the commands: {e}")))? == 0 {
            break;
        }
        number += 1;
        let out = Out::new(session.out.options()).of_line((!prompt).then_some(number));
        let session = Session { out: &out, ..*session };
        let ended = match words(&line).as_deref() {
            Ok([]) => continue,
            Ok([word]) if word == "quit" || word == "exit" => break,
            Ok(words) => one(&session, &mut grammar, &args.target.name, words),
            Err(failure) => Err(Failure::cannot(failure.message.clone())),
        };
        session.out.flush()?;
        match ended {
            Ok(ExitStatus::Success) => {}
            Ok(ExitStatus::Problem) => failed = true,
            Err(failure) if failure.exit == Failure::stopped().exit => return Err(failure),
            Err(failure) => {
                session.out.failure(&failure);
                failed = true;
            }
        }
        if failed && args.strict {
            return Err(Failure::problem(format!("line {number} failed")));
        }
    }
    if failed { Err(Failure::problem("some commands failed")) } else { Ok(()) }
}

/// Runs one line.
fn one(
    session: &Session<'_>,
    grammar: &mut clap::Command,
    target: &str,
    words: &[OsString],
) -> Result<ExitStatus, Failure> {
    match words {
        [word] if word == "sync" => {
            session.volume.sync().map_err(|e| open::failure(&e))?;
            return Ok(ExitStatus::Success);
        }
        [word] if word == "help" => return help(session),
        [word, command @ ..] if word == "help" => {
            return one(session, grammar, target, &[command, &["--help".into()]].concat());
        }
        _ => {}
    }
    let Some(Cli { command, output }) = parse(session.out, grammar, target, words)? else {
        return Ok(ExitStatus::Success);
    };
    // A line may have output options of its own.
    let out = Out::new(session.out.options().with(output)).of_line(session.out.at_line());
    let session = Session { out: &out, ..*session };
    let ended = match Work::of(&command) {
        Work::Change(_, Change::Shell(_)) => Err(Failure::cannot("shell: already in a shell")),
        Work::Change(_, change) if change.verifies() => not_verified(),
        Work::Read(_, command) if command.verifies() => not_verified(),
        Work::Change(_, change) => session.run_command(change),
        Work::Read(_, command) => command.run(session.volume, &out).map(|_| ()),
        Work::Standalone(_) => {
            Err(Failure::cannot(format!("{}: not in the shell", words[0].display()))
                .hint("`help` lists the commands."))
        }
    };
    let status = match ended {
        Ok(()) => out.status(),
        Err(failure) if failure.exit == Failure::stopped().exit => return Err(failure),
        Err(failure) => {
            out.failure(&failure);
            ExitStatus::Problem
        }
    };
    out.flush()?;
    Ok(status)
}

/// Refuses `--verify`.
fn not_verified() -> Result<(), Failure> {
    Err(Failure::cannot("--verify: not in the shell")
        .hint("`xfskit get --verify TARGET PATH DEST` opens the array for itself."))
}

/// Parses the words; `None` if they requested help, which is printed.
fn parse(
    out: &Out,
    grammar: &mut clap::Command,
    target: &str,
    words: &[OsString],
) -> Result<Option<Cli>, Failure> {
    // `xattr` has its target behind the second word.
    let head = if words[0] == "xattr" { 2 } else { 1 }.min(words.len());
    let mut line = vec![OsString::from("xfskit")];
    line.extend_from_slice(&words[..head]);
    line.push(target.into());
    line.extend_from_slice(&words[head..]);
    let matches = grammar.try_get_matches_from_mut(line);
    match matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if !error.use_stderr() => {
            out.flush()?;
            usage::print(&error).map(|()| None)
        }
        Err(error) => Err(usage::failure(&error, grammar, words)),
    }
}

fn help(session: &Session<'_>) -> Result<ExitStatus, Failure> {
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        if !OUTSIDE.contains(&command.get_name()) {
            session.out.line(format!("{:<10} {about}", command.get_name()))?;
        }
    }
    session.out.line("sync       All changes so far become durable")?;
    session.out.line("quit       The end")?;
    Ok(ExitStatus::Success)
}

/// Commands that do not work on an open volume.
const OUTSIDE: [&str; 9] =
    ["mkfs", "info", "inspect", "log", "bulkstat", "check", "targets", "completions", "shell"];

/// Splits a line at blanks. Quotes and backslashes keep blanks, `#` begins a comment.
fn words(line: &[u8]) -> Result<Vec<OsString>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(end), byte) if byte == end => quote = None,
            (None | Some(b'"'), b'\\') => {
                word.get_or_insert_default().extend(bytes.next());
            }
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\n' | b'\r') => words.extend(word.take()),
            (None, b'#') if word.is_none() => break,
            (_, byte) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(Failure::cannot("a quote is not closed"));
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let split = |line: &str| {
            let Ok(words) = words(line.as_bytes()) else { return vec!["bad".to_owned()] };
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(split(" put a\\ b '/x y' \"q\\\"\" # rest\n"), ["put", "a b", "/x y", "q\""]);
        assert_eq!(split("a#b '' "), ["a#b", ""]);
        assert_eq!(split("'open"), ["bad"]);
        assert!(split("# nothing\n").is_empty());
    }
}
