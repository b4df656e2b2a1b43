//! The parts of a study, measured one after the other.
//!
//! Each part has a name and gives one section. The section is handed over as soon as it is
//! finished, so a run that ends early leaves what it measured. A run that continues another one
//! leaves out the parts that are finished, and `--only` leaves out others.

use std::io;
use std::time::Duration;

use super::Observer;
use crate::report::Section;

/// Whether a part shall be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It shall be measured.
    Yes,
    /// The run that this one continues has finished it.
    Finished,
    /// The user left it out.
    No,
}

/// The steps of a part, which a study announces before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct PartPlan {
    /// The study and the part: `raid.states`.
    pub part: String,
    /// The length of each step, relative to the others of the part.
    pub steps: Vec<f64>,
    /// The time of all steps, if the options fix it.
    pub time: Option<Duration>,
}

impl PartPlan {
    /// Returns a part with `count` steps of about the same length.
    pub fn new(part: &str, count: usize) -> Self {
        Self { part: part.into(), steps: vec![1.0; count], time: None }
    }

    /// Returns a part with `count` steps of this time each.
    pub fn timed(part: &str, count: usize, each: Duration) -> Self {
        let time = each.checked_mul(u32::try_from(count).unwrap_or(u32::MAX));
        Self { time, ..Self::new(part, count) }
    }

    /// Returns a part whose steps take these times.
    pub fn of_times(part: &str, steps: impl IntoIterator<Item = Duration>) -> Self {
        let steps: Vec<Duration> = steps.into_iter().collect();
        let lengths = steps.iter().map(Duration::as_secs_f64).collect();
        Self { part: part.into(), steps: lengths, time: Some(steps.iter().sum()) }
    }

    /// Returns a part whose steps have these lengths, relative to each other.
    pub fn of_lengths(part: &str, steps: impl IntoIterator<Item = f64>) -> Self {
        Self { part: part.into(), steps: steps.into_iter().collect(), time: None }
    }
}

/// The parts of a running study.
pub(crate) struct Parts<'o> {
    study: &'static str,
    observer: &'o mut dyn Observer,
    /// A paragraph for the first section of the study.
    note: Option<String>,
}

impl<'o> Parts<'o> {
    /// Begins a study with these parts, in this order. Their names are without the study's. `note`
    /// is for the first section.
    ///
    /// # Errors
    /// If the observer stops the suite.
    pub(crate) fn begin(
        study: &'static str,
        plan: Vec<PartPlan>,
        note: Option<String>,
        observer: &'o mut dyn Observer,
    ) -> io::Result<Self> {
        let named = |plan: PartPlan| PartPlan { part: format!("{study}.{}", plan.part), ..plan };
        let plan: Vec<PartPlan> = plan.into_iter().map(named).collect();
        let first = plan.iter().map(|plan| observer.wants(&plan.part)).find(|w| *w != Wanted::No);
        // The section with the note is there already.
        let note = note.filter(|_| first != Some(Wanted::Finished));
        let wanted = plan.into_iter().filter(|plan| observer.wants(&plan.part) == Wanted::Yes);
        let wanted: Vec<PartPlan> = wanted.collect();
        observer.plan(study, wanted)?;
        Ok(Self { study, observer, note })
    }

    /// Returns true if the part shall be measured.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.observer.wants(&format!("{}.{part}", self.study)) == Wanted::Yes
    }

    /// Reports the steps of a part from now on. Returns the observer for them.
    pub(crate) fn start(&mut self, part: &str) -> &mut dyn Observer {
        self.observer.begin(&format!("{}.{part}", self.study));
        self.observer
    }

    /// Measures a part with `section`, if it is wanted, and hands over its section.
    ///
    /// # Errors
    /// The errors of `section`, and of the observer if it stops the suite.
    pub(crate) fn measure(
        &mut self,
        part: &str,
        section: impl FnOnce(&mut dyn Observer) -> io::Result<Section>,
    ) -> io::Result<()> {
        if !self.wants(part) {
            return Ok(());
        }
        let section = section(self.start(part))?;
        self.add(part, section)
    }

    /// Hands over the section of a part, unless the user left it out.
    ///
    /// # Errors
    /// If the observer stops the suite.
    pub(crate) fn add(&mut self, part: &str, mut section: Section) -> io::Result<()> {
        section.part = format!("{}.{part}", self.study);
        if self.observer.wants(&section.part) == Wanted::No {
            return Ok(());
        }
        section.text.splice(0..0, self.note.take());
        self.observer.section(section)
    }
}

#[cfg(test)]
mod tests;
