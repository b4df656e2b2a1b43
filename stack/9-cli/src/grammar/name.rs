//! The target of a command, and the options of opening it.
//!
//! `--force` and `--overlay FILE` become parts of the name (`md:force,overlay=FILE:a,b`), so that
//! every use of the name has them. Commands with a `--force` of their own have `--force-array`
//! instead.

use std::fmt;
use std::ops::Deref;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use xfskit::target::Target;

/// A target's name, with the options of opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    whole: String,
    overlay: Option<String>,
}

/// The arguments of the command line.
#[derive(Debug, Args)]
struct TargetArgs {
    /// The volume: a file, a block device, IMAGE#pN, IMAGE#lv:VG/LV, md:MEMBER,… or mem:SIZE
    #[arg(value_name = "TARGET")]
    target: String,
    /// Assemble an array with stale members if there are too few fresh ones, and trust parity that
    /// may be out of date
    #[arg(id = "force_array", long = "force", help_heading = "Opening")]
    force: bool,
    /// Write all changes to FILE, which is made if missing and used again the next time; the target
    /// (all members of an array) is only read
    #[arg(long, value_name = "FILE", help_heading = "Opening")]
    overlay: Option<String>,
}

impl Name {
    /// Returns the name of another device of the same volume, with an overlay if this one has one.
    pub(crate) fn beside(&self, device: &str) -> String {
        match &self.overlay {
            Some(overlay) => format!("overlay={overlay}.log:{device}"),
            None => device.to_owned(),
        }
    }

    /// Adds `--overlay`.
    pub(crate) fn with_overlay(self, path: &str) -> xfskit::Result<Self> {
        let target = self.whole;
        Self::of(TargetArgs { target, force: false, overlay: Some(path.to_owned()) })
    }

    /// Adds `--force`.
    pub(crate) fn with_force(self) -> xfskit::Result<Self> {
        let whole = Target::parse(&self.whole)?.with_force()?.to_string();
        Ok(Self { whole, ..self })
    }

    /// Combines the name and the options.
    fn of(words: TargetArgs) -> xfskit::Result<Self> {
        let TargetArgs { target, force, overlay } = words;
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
        Self::of(TargetArgs::from_arg_matches(matches)?)
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Name {
    fn augment_args(command: Command) -> Command {
        TargetArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        TargetArgs::augment_args_for_update(command)
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
