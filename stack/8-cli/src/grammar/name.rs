//! The target of a command, and the flags that say how it is opened.
//!
//! `--force` and `--overlay FILE` become parts of the name (`md:force,overlay=FILE:a,b`), so that
//! whoever opens it, or speaks of it, knows. Commands with a `--force` of their own call this one
//! `--force-array`.

use std::fmt;
use std::ops::Deref;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use xfskit::raw::target::{self, Target};

/// A target, by its whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    whole: String,
    overlay: Option<String>,
}

/// The words of the command line.
#[derive(Debug, Args)]
struct Words {
    /// Where the volume is: a file, a block device, IMAGE#pN, IMAGE#lv:VG/LV, md:MEMBER,… or
    /// mem:SIZE
    #[arg(value_name = "TARGET")]
    target: String,
    /// Of an array take stale members too, where there are not enough others, and believe doubtful
    /// parity
    #[arg(id = "force_array", long = "force", help_heading = "How it is opened")]
    force: bool,
    /// Writes go to FILE, made where it does not exist, and are found there the next time; the
    /// target (of an array, every member) is only read
    #[arg(long, value_name = "FILE", help_heading = "How it is opened")]
    overlay: Option<String>,
}

impl Name {
    /// Another device of the same volume, by its name: writes go aside there, too.
    pub(crate) fn beside(&self, device: &str) -> String {
        match &self.overlay {
            Some(overlay) => format!("overlay={overlay}.log:{device}"),
            None => device.to_owned(),
        }
    }

    /// True where writes go to a file.
    pub(crate) fn is_overlaid(&self) -> bool {
        self.overlay.is_some()
    }

    /// The name with what the flags say.
    fn of(words: Words) -> target::Result<Self> {
        let Words { target, force, overlay } = words;
        if !force && overlay.is_none() {
            return Ok(Self { whole: target, overlay });
        }
        let mut named = Target::parse(&target)?;
        if force {
            named = named.with_force()?;
        }
        if let Some(path) = &overlay {
            named = named.with_overlay(path)?;
        }
        Ok(Self { whole: named.to_string(), overlay })
    }
}

impl FromArgMatches for Name {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::of(Words::from_arg_matches(matches)?)
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Name {
    fn augment_args(command: Command) -> Command {
        Words::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Words::augment_args_for_update(command)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.whole
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}
