//! The space cases and their names.
//!
//! ```text
//! n1000000-20-40-60-80-100-d25   sets a million, with values of 20, 40, … bytes in turn;
//!                                removes a quarter of every 500 again
//! n1000000-60-o25                … overwrites that quarter with the next size instead
//! n1000000--s-50-255--N-400000   sets a million, removes every second one,
//!                                then sets 400,000 in the gaps
//! n1000000--s-50-255--D-400000   … removes 400,000 more instead
//! ```
//!
//! Parts are separated by one or two hyphens. The number of a letter may be a part of its own
//! (`s-50`) or not (`s50`).

use std::fmt;
use std::io;
use std::str::FromStr;

/// Number of names after which some of them are removed or overwritten.
const CHURN_BATCH: u64 = 500;
/// Limit of the value size: larger values do not fit the format.
const VALUE_MAX: usize = 65_536;

/// What happens to a percentage of the last 500 names while attributes are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Churn {
    /// Nothing.
    Nothing,
    /// Removes them: `d25`.
    Removed(u64),
    /// Overwrites them with a value of the next size: `o25`.
    Overwritten(u64),
}

/// What happens after all attributes are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinning {
    /// Nothing.
    Nothing,
    /// Removes every `every`-th, and then one of:
    Thinned {
        /// 2 for `s-50`.
        every: u64,
        /// Attributes that are set again in the gaps (`N`).
        set: u64,
        /// Further attributes that are removed (`D`).
        removed: u64,
    },
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Number of attributes.
    pub count: u64,
    /// Bytes of the values, in rotation.
    pub sizes: Vec<usize>,
    /// Changes while attributes are set.
    pub churn: Churn,
    /// Changes after all are set.
    pub thinning: Thinning,
}

/// One call of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets the attribute with this number to a value of this size in bytes.
    Set(u64, usize),
    /// Removes the attribute with this number.
    Remove(u64),
}

/// Returns the name of attribute `n`: 15 bytes after the prefix.
///
/// The decimal digits are written without `format!`, which takes a twentieth of the time of a call
/// of the engine. A number of more than eleven digits loses its first ones; no study has that many.
pub fn name(n: u64) -> [u8; 23] {
    let mut name = *b"trusted.name00000000000";
    let mut rest = n;
    for digit in name[12..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    name
}

impl Case {
    /// Returns the size of the `turn`-th value of attribute `n` in bytes.
    fn size(&self, n: u64, turn: u64) -> usize {
        let sizes = self.sizes.len().max(1) as u64;
        usize::try_from((n + turn) % sizes).ok().and_then(|n| self.sizes.get(n)).map_or(0, |n| *n)
    }

    /// Passes all calls in order to `call`, until one fails.
    ///
    /// # Errors
    /// The first error of `call`.
    pub fn operations(&self, call: &mut dyn FnMut(Operation) -> io::Result<()>) -> io::Result<()> {
        for n in 0..self.count {
            call(Operation::Set(n, self.size(n, 0)))?;
            if (n + 1).is_multiple_of(CHURN_BATCH) {
                self.churn_batch(n + 1 - CHURN_BATCH, call)?;
            }
        }
        let Thinning::Thinned { every, set, removed } = self.thinning else { return Ok(()) };
        let removed_names = || (0..self.count).filter(|n| n.is_multiple_of(every));
        removed_names().try_for_each(|n| call(Operation::Remove(n)))?;
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        removed_names()
            .take(index(set))
            .try_for_each(|n| call(Operation::Set(n, self.size(n, 0))))?;
        let left = (0..self.count).filter(|n| !n.is_multiple_of(every));
        left.take(index(removed)).try_for_each(|n| call(Operation::Remove(n)))
    }

    fn churn_batch(
        &self,
        first: u64,
        call: &mut dyn FnMut(Operation) -> io::Result<()>,
    ) -> io::Result<()> {
        let (percent, remove) = match self.churn {
            Churn::Nothing => return Ok(()),
            Churn::Removed(percent) => (percent, true),
            Churn::Overwritten(percent) => (percent, false),
        };
        let step = CHURN_BATCH / (CHURN_BATCH * percent / 100).max(1);
        (first..first + CHURN_BATCH).filter(|n| (n - first).is_multiple_of(step)).try_for_each(
            |n| {
                call(if remove { Operation::Remove(n) } else { Operation::Set(n, self.size(n, 1)) })
            },
        )
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.count)?;
        let thinned = match self.thinning {
            Thinning::Thinned { every, .. } => format!("--s-{}", 100 / every),
            Thinning::Nothing => String::new(),
        };
        f.write_str(&thinned)?;
        self.sizes.iter().try_for_each(|size| write!(f, "-{size}"))?;
        match self.churn {
            Churn::Nothing => {}
            Churn::Removed(percent) => write!(f, "-d{percent}")?,
            Churn::Overwritten(percent) => write!(f, "-o{percent}")?,
        }
        match self.thinning {
            Thinning::Thinned { set, .. } if set > 0 => write!(f, "--N-{set}"),
            Thinning::Thinned { removed, .. } if removed > 0 => write!(f, "--D-{removed}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut case = Self {
            count: 0,
            sizes: Vec::new(),
            churn: Churn::Nothing,
            thinning: Thinning::Nothing,
        };
        let mut parts = text.split('-').filter(|part| !part.is_empty());
        while let Some(part) = parts.next() {
            let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
            let digits = match &part[letters.len()..] {
                "" => parts.next().unwrap_or_default(),
                digits => digits,
            };
            let number: u64 = digits.parse().map_err(|_| invalid_part(text, part))?;
            case.apply_part(letters, number).ok_or_else(|| invalid_part(text, part))?;
        }
        if case.count == 0 || case.sizes.is_empty() {
            return Err(format!("{text}: a case needs a count and sizes, as in n1000000-40-60"));
        }
        Ok(case)
    }
}

fn invalid_part(text: &str, part: &str) -> String {
    format!("{text}: {part} is not a valid part of a case such as n1000000-120-150-d25")
}

impl Case {
    /// Applies one part of a name; returns `None` if the part is invalid.
    fn apply_part(&mut self, letters: &str, number: u64) -> Option<()> {
        let percent = || (1..=100).contains(&number).then_some(number);
        match (letters, &mut self.thinning) {
            ("n", _) if self.count == 0 => self.count = number,
            ("", _) => {
                self.sizes.push(usize::try_from(number).ok().filter(|n| *n <= VALUE_MAX)?);
            }
            ("d", _) => self.churn = Churn::Removed(percent()?),
            ("o", _) => self.churn = Churn::Overwritten(percent()?),
            ("s", Thinning::Nothing) => {
                let every = 100 / percent()?;
                self.thinning = Thinning::Thinned { every, set: 0, removed: 0 };
            }
            ("N", Thinning::Thinned { set, .. }) => *set = number,
            ("D", Thinning::Thinned { removed, .. }) => *removed = number,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(case: &str) -> Vec<Operation> {
        let case: Case = case.parse().expect("a case");
        let mut all = Vec::new();
        case.operations(&mut |op| {
            all.push(op);
            Ok(())
        })
        .expect("no errors");
        all
    }

    #[test]
    fn case_names_are_parsed_and_formatted() {
        for name in [
            "n1000000-120-150-200-220-255-d25",
            "n1000000-40",
            "n500-60-o25",
            "n1000000--s-50-40--D-400000",
            "n1000000--s-50-20-40--N-400000",
        ] {
            assert_eq!(name.parse::<Case>().expect(name).to_string(), name);
        }
        let short: Case = "n10-s50-40-N4".parse().expect("letters with their numbers");
        assert_eq!(short.to_string(), "n10--s-50-40--N-4");
        for odd in ["", "n0-40", "n10", "n10-x", "n10-40-d0", "n10-40-N5", "n10-70000"] {
            assert!(odd.parse::<Case>().is_err(), "{odd}");
        }
    }

    #[test]
    fn a_quarter_of_the_last_500_is_removed_or_overwritten() {
        let removed = operations("n1000-20-40-d25");
        assert_eq!(removed.len(), 1000 + 250);
        assert_eq!(removed[500..502], [Operation::Remove(0), Operation::Remove(4)]);
        let again = operations("n500-20-40-o25");
        assert_eq!(again[500..502], [Operation::Set(0, 40), Operation::Set(4, 40)]);
    }

    #[test]
    fn half_are_removed_and_others_set_or_removed() {
        let set = operations("n10--s-50-40--N-2");
        assert_eq!(set.len(), 10 + 5 + 2);
        assert_eq!(
            set[10..],
            [0, 2, 4, 6, 8]
                .map(Operation::Remove)
                .into_iter()
                .chain([Operation::Set(0, 40), Operation::Set(2, 40)])
                .collect::<Vec<_>>()
        );
        assert_eq!(operations("n10--s-50-40--D-2")[15..], [1, 3].map(Operation::Remove));
    }
}
