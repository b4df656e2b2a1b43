//! The table of all checks: every id that a [`Corruption`](crate::Corruption) can carry.
//!
//! A [`CheckId`] is made from a row of this table only. `docs/checks.md` is generated from it, and
//! `6-check` plants a fault for every row that it can plant one for: the fault yields the id, and
//! nothing but the ids listed beside it.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;

mod elsewhere;
mod groups;
mod inodes;
mod names;
mod volume;

/// The stable, dotted name of a check: `agf.flcount`. Reports, tests and repair go by it. Each is a
/// row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CheckId(pub &'static str, #[serde(skip)] FromTable);

/// Keeps other code from making ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FromTable;

impl CheckId {
    /// Returns the id of that name, which is a row of the table: `tests/layering` compares the
    /// names in the code with the table.
    pub fn new(id: &'static str) -> Self {
        debug_assert!(find(id).is_some(), "{id} is not in the table of checks");
        Self(id, FromTable)
    }

    /// Returns the row of the table.
    pub fn check(self) -> Option<&'static Check> {
        find(self.0)
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Untidy or worth knowing, but misleads no reader: a stale hint, a journal that is not
    /// replayed.
    Warning,
    /// The volume contradicts itself or the format.
    Error,
    /// A part of the volume could not be checked.
    Fatal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        })
    }
}

/// One check.
#[derive(Debug)]
pub struct Check {
    /// The stable dotted name.
    pub id: &'static str,
    /// The severities with which a check of a volume reports it, the usual one first. Empty for a
    /// check that only other parts of xfskit make.
    pub severities: &'static [Severity],
    /// The rule that is verified.
    pub verifies: &'static str,
    /// The words of `xfs_repair -n` 6.13 for the planted fault, with `N` for each number. `None` if
    /// it prints nothing, or there is no planted fault to show it.
    pub repair: Option<&'static str>,
    /// Ids that the planted fault yields as well.
    pub brings: &'static [&'static str],
    /// The reason why no fault is planted.
    pub unplanted: Option<&'static str>,
}

/// The checks of one structure, in the order in which they are documented.
#[derive(Debug)]
pub struct Section {
    /// The structure.
    pub title: &'static str,
    /// Its checks.
    pub checks: &'static [Check],
}

/// Makes a list of sections from rows of the form
/// `"id" Severity "rule", repair "words", brings ["id"], unplanted "reason";`, where the last
/// three are optional.
macro_rules! table {
    ($($title:literal { $(
        $id:literal $($severity:ident)* $verifies:literal
        $(, repair $repair:literal)? $(, brings [$($brings:literal)*])?
        $(, unplanted $unplanted:literal)?;
    )* })*) => {
        pub(super) const SECTIONS: &[$crate::checks::Section] = &[$($crate::checks::Section {
            title: $title,
            checks: &[$($crate::checks::Check {
                id: $id,
                severities: &[$($crate::checks::Severity::$severity),*],
                verifies: $verifies,
                repair: $crate::checks::optional(&[$($repair)?]),
                brings: &[$($($brings),*)?],
                unplanted: $crate::checks::optional(&[$($unplanted)?]),
            }),*],
        }),*];
    };
}
use table;

/// Returns the only word of a list of one, or `None` for an empty list.
const fn optional(words: &[&'static str]) -> Option<&'static str> {
    match words {
        [word] => Some(*word),
        _ => None,
    }
}

/// Returns the sections of the checks that a check of a volume makes.
pub fn sections() -> impl Iterator<Item = &'static Section> {
    [volume::SECTIONS, groups::SECTIONS, inodes::SECTIONS, names::SECTIONS].into_iter().flatten()
}

/// Returns the sections of the checks that only other parts make: journal replay, changes,
/// and readers that stop at the first damage.
pub fn sections_elsewhere() -> impl Iterator<Item = &'static Section> {
    elsewhere::SECTIONS.iter()
}

/// Returns all checks.
pub fn all() -> impl Iterator<Item = &'static Check> {
    sections().chain(sections_elsewhere()).flat_map(|section| section.checks)
}

/// Returns the check of that id.
pub fn find(id: &str) -> Option<&'static Check> {
    static BY_ID: LazyLock<HashMap<&str, &Check>> =
        LazyLock::new(|| all().map(|check| (check.id, check)).collect());
    BY_ID.get(id).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_dotted() {
        let mut seen = HashSet::new();
        for check in all() {
            assert!(check.id.contains('.') && seen.insert(check.id), "{} twice", check.id);
        }
    }

    #[test]
    fn rows_say_what_the_documentation_needs() {
        let reported: HashSet<&str> =
            sections().flat_map(|section| section.checks).map(|check| check.id).collect();
        for check in all() {
            let Check { id, brings, .. } = check;
            assert_eq!(check.severities.is_empty(), !reported.contains(id), "{id}: severities");
            assert!(!check.verifies.ends_with('.'), "{id}: a rule is no sentence");
            let others = brings.iter().all(|other| other != id && reported.contains(other));
            assert!(others, "{id}: brings {brings:?}, which are not all other checks");
            let asked = check.repair.is_some() || !brings.is_empty();
            assert!(!asked || check.unplanted.is_none(), "{id}: known from no planted fault");
        }
    }
}
