//! Actions on a running array, by this process or by the one that serves a mount on it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xfskit::md::Array;

use super::console::Console;
use crate::exit::Outcome;

/// An action on an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Describes it.
    Detail,
    /// Takes a member out of use; a spare is filled, unless `later`.
    Fail { member: String, later: bool },
    /// Adds devices; roles without a member are filled, unless `later`.
    Add { devices: NewMembers, later: bool },
    /// Removes a spare or a failed member.
    Remove { member: String },
    /// Replaces a member by a spare.
    Replace { member: String, with: Option<String>, later: bool },
    /// Completes the array.
    Rebuild,
    /// Compares the members, from a stripe on.
    Scrub { repair: bool, from: u64 },
}

/// Devices to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewMembers {
    pub names: Vec<String>,
    /// Where the names of files begin that are no members yet. `None`: in the working directory.
    pub from: Option<PathBuf>,
    pub force: bool,
    /// Size of files that are missing and made.
    pub member_size: Option<u64>,
}

/// An action and its rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub action: Action,
    /// Maximum bytes per second of each member.
    pub rate: Option<u64>,
}

impl Job {
    pub(crate) fn new(action: Action, rate: Option<u64>) -> Self {
        Self { action, rate }
    }

    /// Returns true if the array is written.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.action, Action::Detail | Action::Scrub { repair: false, .. })
    }
}

/// Runs a job on an array that is open.
pub(crate) type Runner = fn(&Job, &mut Array, &dyn Console) -> Outcome;
