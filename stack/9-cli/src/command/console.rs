//! Where an action on an array prints, and what stops it.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xfskit::CancelToken;

use crate::exit::Failure;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::stop::Stop;

/// A part of an action that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Resync,
    Rebuild,
    Scrub,
}

/// The console of an action. Threads may use it at the same time.
pub(crate) trait Console: Sync {
    /// Prints something worth knowing.
    fn note(&self, text: &str);
    /// Prints a result, in one of its two forms.
    fn result(&self, json: &Value, text: &str) -> Result<(), Failure>;
    /// Shows how much of a step is done, in bytes.
    fn progress(&self, step: Step, done: u64, total: u64);
    /// Returns what stops the action.
    fn token(&self) -> &CancelToken;

    /// Fails if the action was stopped.
    fn check(&self) -> Result<(), Failure> {
        if self.token().is_cancelled() { Err(Failure::stopped()) } else { Ok(()) }
    }
}

/// The streams of this process, and its signals.
pub(crate) struct Terminal<'o> {
    shown: Shown<'o>,
    stop: Stop,
}

impl<'o> Terminal<'o> {
    pub(crate) fn new(out: &'o Out) -> Result<Self, Failure> {
        Ok(Self { shown: Shown::new(out), stop: Stop::on_signals()? })
    }
}

impl Console for Terminal<'_> {
    fn note(&self, text: &str) {
        self.shown.note(text);
    }

    fn result(&self, json: &Value, text: &str) -> Result<(), Failure> {
        self.shown.result(json, text)
    }

    fn progress(&self, step: Step, done: u64, total: u64) {
        self.shown.progress(step, done, total);
    }

    fn token(&self) -> &CancelToken {
        self.stop.token()
    }
}

/// The output of an action.
pub(crate) struct Shown<'o> {
    out: &'o Out,
    steps: [OnceLock<Progress>; 3],
}

impl<'o> Shown<'o> {
    pub(crate) fn new(out: &'o Out) -> Self {
        Self { out, steps: Default::default() }
    }

    pub(crate) fn note(&self, text: &str) {
        self.aside(|| self.out.note(text));
    }

    pub(crate) fn result(&self, json: &Value, text: &str) -> Result<(), Failure> {
        self.aside(|| self.out.result(json, |_| text.to_owned()))
    }

    pub(crate) fn progress(&self, step: Step, done: u64, total: u64) {
        let (index, name) = match step {
            Step::Resync => (0, "resync"),
            Step::Rebuild => (1, "rebuild"),
            Step::Scrub => (2, "scrub"),
        };
        let progress = self.steps[index].get_or_init(|| Progress::new(self.out, name, Unit::Bytes));
        progress.set(done, total);
    }

    /// Prints without a bar on the screen.
    fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match self.steps.iter().rev().find_map(OnceLock::get) {
            Some(progress) => progress.aside(print),
            None => print(),
        }
    }
}
