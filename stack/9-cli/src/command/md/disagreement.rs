//! The mismatches that a rebuild found.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit::raw::md::array::Array;
use xfskit::raw::target::ArrayName;
use xfskit::raw::units::ByteOffset;

use crate::exit::Failure;
use crate::out::Out;

/// Number of stripes and ranges that are printed.
const NAMED_MAX: usize = 1000;
/// Number of stripes that are printed in a note.
const NOTED_MAX: usize = 20;

/// The pages on which the members that a rebuild read disagreed.
#[derive(Debug, Default)]
pub(super) struct Disagreement {
    /// Pages of each role that were known to be wrong, and were not used.
    pub(super) corrected: BTreeMap<usize, u64>,
    /// Pages on which no member is known to be wrong.
    pub(super) undecided: u64,
    /// Their stripes, and the ranges of the array that may be wrong.
    pub(super) stripes: Vec<u64>,
    pub(super) bytes: Vec<Range<ByteOffset>>,
    /// Sectors of these pages that are not bad blocks of the rebuilt members, because their logs
    /// are full or missing.
    pub(super) unlisted_sectors: u64,
}

impl Disagreement {
    /// Returns the mismatches that an array's verified reads found.
    pub(super) fn of(array: &Array) -> Self {
        let report = array.verify_report();
        let unlisted_sectors = report.unlisted_sectors;
        let mut found = Self { undecided: report.more, unlisted_sectors, ..Self::default() };
        for page in &report.pages {
            let Some(role) = page.role else {
                found.undecided += 1;
                if found.stripes.last() != Some(&page.stripe) && found.stripes.len() < NAMED_MAX {
                    found.stripes.push(page.stripe);
                }
                if found.bytes.len() < NAMED_MAX {
                    found.bytes.extend(array.mismatch_ranges(page));
                }
                continue;
            };
            *found.corrected.entry(role).or_default() += 1;
        }
        found
    }

    /// Reports the members that were wrong.
    pub(super) fn say(&self, array: &Array, out: &Out) {
        for (role, pages) in &self.corrected {
            let name = array.member_name(*role).unwrap_or("a member");
            out.note(&format!(
                "{pages} pages of {name} are wrong, as the other members show; they were not used: \
                 `xfskit md scrub --repair` rewrites them"
            ));
        }
    }

    /// Returns the failure that names the stripes on which no member is known to be wrong.
    pub(super) fn failure(&self, name: &ArrayName) -> Option<Failure> {
        (self.undecided > 0).then_some(())?;
        let named: Vec<String> =
            self.stripes.iter().take(NOTED_MAX).map(ToString::to_string).collect();
        let more = if self.stripes.len() > NOTED_MAX { ", …" } else { "" };
        let outcome = match self.unlisted_sectors {
            0 => "they are bad blocks of the rebuilt members".to_owned(),
            sectors => format!(
                "{sectors} sectors of them are not in a bad-block log, which is full or missing: a \
                 later scrub cannot tell that they are doubtful"
            ),
        };
        let message = format!(
            "{name}: {} pages were rebuilt from members that disagree, and which of them is wrong \
             is not known: stripes {}{more}; {outcome}",
            self.undecided,
            named.join(", ")
        );
        Some(
            Failure::problem(message).hint(
                "Compare the files there with a backup; --json names the bytes of the array.",
            ),
        )
    }
}
