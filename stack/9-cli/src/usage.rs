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
        let usage = if usage.is_empty() { usage } else { format!("\n{usage}\n") };
        eprint!("{}", show::harmless(&format!("error: {failure}\n{usage}")));
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
    let message = in_plain_words(&message);
    if error.kind() == ErrorKind::UnknownArgument && words.iter().any(is_negative) {
        return Failure::cannot(message).hint("Numbers and sizes are not negative.");
    }
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

/// Returns a message with what the standard library says of numbers in plain words.
fn in_plain_words(message: &str) -> String {
    let plain = [
        ("invalid digit found in string", "not a number"),
        ("cannot parse integer from empty string", "a number is missing"),
        ("number too large to fit in target type", "too large"),
        ("number too small to fit in target type", "too small"),
    ];
    plain.iter().fold(message.to_owned(), |message, (from, to)| message.replace(from, to))
}

/// Returns true for `-1`: a negative number where an option or an argument is expected.
fn is_negative(word: &OsString) -> bool {
    let number = word.to_str().and_then(|word| word.strip_prefix('-'));
    number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Returns the words of a request for help as clap has them: `xfskit help mount` is `xfskit mount
/// --help`.
pub(crate) fn with_help(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|word| word != "help") {
        return words;
    }
    let command = words.iter().skip(2).take_while(|word| !word.to_string_lossy().starts_with('-'));
    words.iter().take(1).chain(command).cloned().chain(["--help".into()]).collect()
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
    fn help_is_a_command_too() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let same = |asked: &str, meant: &str| assert_eq!(with_help(words(asked)), words(meant));
        same("xfskit help", "xfskit --help");
        same("xfskit help md scrub", "xfskit md scrub --help");
        same("xfskit ls help", "xfskit ls help");
    }

    #[test]
    fn numbers_that_are_none_are_told_in_plain_words() {
        for line in ["repair --memory -1 a.img", "path a.img -1", "check -t -2 a.img"] {
            let hint = hint(&format!("xfskit {line}"));
            assert!(hint.contains("not negative") && !hint.contains("-- -"), "{hint}");
        }
        assert!(hint("xfskit check -t x a.img").contains("not a number"));
        assert!(hint("xfskit check -t 99999999999999999999 a.img").contains("too large"));
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
