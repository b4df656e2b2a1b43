//! The space cases by their names.
//!
//! ```text
//! n1000000-20-40-60-80-100-d25        a million, values of 20, 40, … bytes in turn; while they are set, after
//!                                     every 500 a quarter of these is removed again
//! n1000000-60-o25                     … set again with the next size instead
//! n1000000--s-50-255--N-400000        a million; half of them, every second one, removed; then 400,000 set at
//!                                     the places removed
//! n1000000--s-50-255--D-400000        … 400,000 more removed instead
//! ```
//!
//! Parts stand between hyphens, one or two; letters before a number may stand alone (`s-50`) or not (`s50`).

use std::fmt;
use std::io;
use std::str::FromStr;

/// Names after which some of them are removed or set again.
const LOOK_BACK: u64 = 500;
/// Longest value: it would not stand in a leaf any more.
const VALUE_MAX: usize = 65_536;

/// What happens to a part of the last 500 names, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// Nothing.
    Nothing,
    /// Removed: `d25`.
    Removed(u64),
    /// Set again with a value of the next size: `o25`.
    Overwritten(u64),
}

/// What happens when all are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Nothing.
    Nothing,
    /// Every `every`-th is removed, and then …
    Thinned {
        /// 2 for `s-50`.
        every: u64,
        /// … so many are set anew where others were removed (`N`), …
        set: u64,
        /// … or so many more are removed (`D`).
        removed: u64,
    },
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Attributes.
    pub count: u64,
    /// Bytes of their values, in turn.
    pub sizes: Vec<usize>,
    /// While they are set.
    pub meanwhile: Meanwhile,
    /// When they are.
    pub afterwards: Afterwards,
}

/// One call of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Attribute of this number gets a value of so many bytes.
    Set(u64, usize),
    /// Attribute of this number goes.
    Remove(u64),
}

/// The name of attribute `n`: 15 bytes behind the prefix.
pub fn name(n: u64) -> Vec<u8> {
    format!("trusted.name{n:011}").into_bytes()
}

impl Case {
    /// Bytes of the value of attribute `n`; of its `turn`-th value.
    fn size(&self, n: u64, turn: u64) -> usize {
        let sizes = self.sizes.len().max(1) as u64;
        usize::try_from((n + turn) % sizes).ok().and_then(|n| self.sizes.get(n)).map_or(0, |n| *n)
    }

    /// All calls in order, until one fails.
    ///
    /// # Errors
    /// The first of `call`.
    pub fn operations(&self, call: &mut dyn FnMut(Operation) -> io::Result<()>) -> io::Result<()> {
        for n in 0..self.count {
            call(Operation::Set(n, self.size(n, 0)))?;
            if (n + 1).is_multiple_of(LOOK_BACK) {
                self.look_back(n + 1 - LOOK_BACK, call)?;
            }
        }
        let Afterwards::Thinned { every, set, removed } = self.afterwards else { return Ok(()) };
        let gone = || (0..self.count).filter(|n| n.is_multiple_of(every));
        gone().try_for_each(|n| call(Operation::Remove(n)))?;
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        gone().take(index(set)).try_for_each(|n| call(Operation::Set(n, self.size(n, 0))))?;
        let left = (0..self.count).filter(|n| !n.is_multiple_of(every));
        left.take(index(removed)).try_for_each(|n| call(Operation::Remove(n)))
    }

    fn look_back(
        &self,
        first: u64,
        call: &mut dyn FnMut(Operation) -> io::Result<()>,
    ) -> io::Result<()> {
        let (percent, remove) = match self.meanwhile {
            Meanwhile::Nothing => return Ok(()),
            Meanwhile::Removed(percent) => (percent, true),
            Meanwhile::Overwritten(percent) => (percent, false),
        };
        let step = LOOK_BACK / (LOOK_BACK * percent / 100).max(1);
        (first..first + LOOK_BACK).filter(|n| (n - first).is_multiple_of(step)).try_for_each(|n| {
            call(if remove { Operation::Remove(n) } else { Operation::Set(n, self.size(n, 1)) })
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.count)?;
        let thinned = match self.afterwards {
            Afterwards::Thinned { every, .. } => format!("--s-{}", 100 / every),
            Afterwards::Nothing => String::new(),
        };
        f.write_str(&thinned)?;
        self.sizes.iter().try_for_each(|size| write!(f, "-{size}"))?;
        match self.meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Removed(percent) => write!(f, "-d{percent}")?,
            Meanwhile::Overwritten(percent) => write!(f, "-o{percent}")?,
        }
        match self.afterwards {
            Afterwards::Thinned { set, .. } if set > 0 => write!(f, "--N-{set}"),
            Afterwards::Thinned { removed, .. } if removed > 0 => write!(f, "--D-{removed}"),
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
            meanwhile: Meanwhile::Nothing,
            afterwards: Afterwards::Nothing,
        };
        let mut parts = text.split('-').filter(|part| !part.is_empty());
        while let Some(part) = parts.next() {
            let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
            let digits = match &part[letters.len()..] {
                "" => parts.next().unwrap_or_default(),
                digits => digits,
            };
            let number: u64 = digits.parse().map_err(|_| no(text, part))?;
            case.take(letters, number).ok_or_else(|| no(text, part))?;
        }
        if case.count == 0 || case.sizes.is_empty() {
            return Err(format!("{text}: a case has a count and sizes, like n1000000-40-60"));
        }
        Ok(case)
    }
}

fn no(text: &str, part: &str) -> String {
    format!("{text}: {part} is no part of a case; they look like n1000000-120-150-d25")
}

impl Case {
    /// One part of the name; `None` where it makes no sense.
    fn take(&mut self, letters: &str, number: u64) -> Option<()> {
        let percent = || (1..=100).contains(&number).then_some(number);
        match (letters, &mut self.afterwards) {
            ("n", _) if self.count == 0 => self.count = number,
            ("", _) => {
                self.sizes.push(usize::try_from(number).ok().filter(|n| *n <= VALUE_MAX)?);
            }
            ("d", _) => self.meanwhile = Meanwhile::Removed(percent()?),
            ("o", _) => self.meanwhile = Meanwhile::Overwritten(percent()?),
            ("s", Afterwards::Nothing) => {
                let every = 100 / percent()?;
                self.afterwards = Afterwards::Thinned { every, set: 0, removed: 0 };
            }
            ("N", Afterwards::Thinned { set, .. }) => *set = number,
            ("D", Afterwards::Thinned { removed, .. }) => *removed = number,
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
    fn names_of_cases_are_read_and_written() {
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
    fn a_quarter_of_the_last_500_is_removed_or_set_again() {
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
