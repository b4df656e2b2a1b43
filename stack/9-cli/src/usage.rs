//! Errors in the command line: what is wrong, and what to write instead.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use serde_json::json;

use crate::exit::Failure;
use crate::grammar::Cli;
use crate::out::stdout_failed;
use crate::show;
use crate::standard::Stdout;

/// Prints help if it was requested, or else the error in the words of this process. Returns the
/// exit code.
pub(crate) fn report(error: &clap::Error, words: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return help(error);
    }
    let words = words.get(1..).unwrap_or_default();
    let mut grammar = Cli::command();
    grammar.build();
    let failure = failure(error, &grammar, words);
    if words.iter().take_while(|word| *word != "--").any(|word| word == "--json") {
        let Failure { message, hint, exit } = &failure;
        let object = json!({ "error": { "message": message, "hint": hint, "exit": exit } });
        if let Err(unwritten) = write(&format!("{object}\n")) {
            eprintln!("xfskit: {failure}; {unwritten}");
        }
    } else if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        let usage = paragraphs(error).find(|text| text.starts_with("Usage:")).unwrap_or_default();
        eprint!("{}", show::harmless(&format!("error: {failure}\n\n{usage}\n")));
    }
    failure.exit
}

/// Prints the requested help or version, and returns the exit code.
fn help(error: &clap::Error) -> u8 {
    match print(error) {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("xfskit: {failure}");
            failure.exit
        }
    }
}

/// Prints the requested help or version.
pub(crate) fn print(error: &clap::Error) -> Result<(), Failure> {
    let text = error.render();
    let text = if io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    write(&text)
}

fn write(text: &str) -> Result<(), Failure> {
    let written = Stdout.write_all(text.as_bytes()).and_then(|()| Stdout.flush());
    written.map_err(stdout_failed)
}

/// Returns the error in `words`, with a hint.
pub(crate) fn failure(error: &clap::Error, grammar: &Command, words: &[OsString]) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::cannot("a command is missing").hint("--help lists them.");
    }
    let mut paragraphs = paragraphs(error);
    let message = paragraphs.next().unwrap_or_default();
    let message = message.trim_start_matches("error: ");
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let tips = paragraphs.filter_map(|text| Some(text.trim().strip_prefix("tip: ")?.to_owned()));
    let meant = meant_as_long(grammar, words);
    // What clap takes for a cluster of letters is not a value that needs a `--` before it.
    let tips = tips.filter(|tip| meant.is_none() || !tip.starts_with("to pass '-"));
    let message = match meant {
        Some((word, _)) if error.kind() == ErrorKind::UnknownArgument => {
            format!("unexpected argument '{word}' found")
        }
        _ => message,
    };
    let hint = match meant {
        Some((word, true)) => Some(format!("Long options have two dashes: -{word}")),
        Some((word, false)) => Some(format!(
            "Long options have two dashes, and there is no -{word}; --help shows those there are."
        )),
        None => tips.reduce(|all, tip| format!("{all}\n  {tip}")),
    };
    Failure::cannot(message)
        .hint(hint.unwrap_or_else(|| "--help lists commands and options.".into()))
}

fn paragraphs(error: &clap::Error) -> impl Iterator<Item = String> {
    let text = error.to_string();
    text.split("\n\n").map(|text| text.trim_end().to_owned()).collect::<Vec<_>>().into_iter()
}

/// Returns the first of `words` that is written as find(1) writes its options, and whether the
/// command has a long option of that name.
fn meant_as_long<'w>(grammar: &Command, words: &'w [OsString]) -> Option<(&'w str, bool)> {
    let words = || words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let command =
        words().fold(grammar, |command, word| command.find_subcommand(word).unwrap_or(command));
    let single = |word: &&str| {
        let mut letters = word.chars();
        letters.next() == Some('-')
            && letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.next().is_some_and(|c| c.is_ascii_alphabetic())
    };
    let known = |word: &str| {
        let name = word.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        command.get_arguments().any(|argument| argument.get_long() == Some(name))
    };
    let all: Vec<&str> = words().filter(single).collect();
    let found = all.iter().find(|word| known(word)).map(|word| (*word, true));
    found.or_else(|| all.first().map(|word| (*word, false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn hint(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).unwrap_err();
        let mut grammar = Cli::command();
        grammar.build();
        failure(&error, &grammar, &words[1..]).to_string()
    }

    #[test]
    fn one_dash_too_few_is_told() {
        assert!(hint("xfskit find a.img / -name x").contains("two dashes: --name"));
        assert!(hint("xfskit find a.img / -newer=x").contains("two dashes: --newer=x"));
        let unknown = hint("xfskit find a.img / -maxdepth 3");
        assert!(!unknown.contains("-- -"), "{unknown}");
        assert!(unknown.contains("'-maxdepth'") && unknown.contains("no --maxdepth"), "{unknown}");
        assert!(
            hint("xfskit find a.img -Z").contains("-- -Z"),
            "what clap says of one letter stays"
        );
    }
}
