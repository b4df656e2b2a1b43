//! Findings, and the sink that takes them from all threads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use xfskit_format::corruption::Severity;
use xfskit_format::{Corruption, VerifyResult};

/// How a damaged block was healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Healing {
    /// A sound alternative copy was read, and the volume was checked with it.
    Read,
    /// The sound copy was also written over the damaged ones.
    Rewritten,
}

/// One problem: its severity, and which check failed where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The check id, the location, the expected value, and the value found.
    #[serde(flatten)]
    pub corruption: Corruption,
    /// How it was healed, if the device had a sound copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healed: Option<Healing>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.corruption)?;
        f.write_str(match self.healed {
            None => "",
            Some(Healing::Read) => "; sound as the other members have it",
            Some(Healing::Rewritten) => "; healed from the other members",
        })
    }
}

/// Passes findings to the caller's closure, under a lock (a leaf: no lock is taken under it).
pub(crate) struct Sink<'a> {
    /// `None` discards findings.
    to: Option<Mutex<&'a mut (dyn FnMut(Finding) + Send)>>,
    counts: [AtomicU64; 3],
    healed: AtomicU64,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(to: &'a mut (dyn FnMut(Finding) + Send)) -> Self {
        Self { to: Some(Mutex::new(to)), counts: Default::default(), healed: AtomicU64::new(0) }
    }

    /// Makes a sink that discards findings, for reading what was reported already.
    pub(crate) fn quiet() -> Self {
        Self { to: None, counts: Default::default(), healed: AtomicU64::new(0) }
    }

    #[cold]
    pub(crate) fn report(&self, severity: Severity, corruption: Box<Corruption>) {
        self.send(severity, corruption, None);
    }

    /// Reports a damaged block that has a sound copy. A rewritten block is no longer an error.
    #[cold]
    pub(crate) fn report_healed(&self, corruption: Box<Corruption>, healing: Healing) {
        self.healed.fetch_add(1, Ordering::Relaxed);
        let severity = match healing {
            Healing::Read => Severity::Error,
            Healing::Rewritten => Severity::Warning,
        };
        self.send(severity, corruption, Some(healing));
    }

    #[allow(clippy::boxed_local)] // as it comes from the verifiers
    fn send(&self, severity: Severity, corruption: Box<Corruption>, healed: Option<Healing>) {
        debug_assert!(is_in_table(severity, &corruption, healed), "{severity}: {corruption}");
        self.counts[severity as usize].fetch_add(1, Ordering::Relaxed);
        let Some(to) = &self.to else { return };
        let mut to = to.lock();
        to(Finding { severity, corruption: *corruption, healed });
    }

    /// Returns the number of healed blocks so far.
    pub(crate) fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// Reports a failed check as an error. Returns true if it passed.
    pub(crate) fn error(&self, result: VerifyResult) -> bool {
        result.map_err(|corruption| self.report(Severity::Error, corruption)).is_ok()
    }

    /// Reports a failed check as a warning. Returns true if it passed.
    pub(crate) fn warning(&self, result: VerifyResult) -> bool {
        result.map_err(|corruption| self.report(Severity::Warning, corruption)).is_ok()
    }

    /// Returns the number of findings of this severity so far.
    pub(crate) fn count(&self, severity: Severity) -> u64 {
        self.counts[severity as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of all findings so far.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}

/// Returns true if the table of checks has this severity. A rewritten block is a warning always.
fn is_in_table(severity: Severity, corruption: &Corruption, healed: Option<Healing>) -> bool {
    let check = corruption.check.check();
    healed.is_some() || check.is_some_and(|check| check.severities.contains(&severity))
}
