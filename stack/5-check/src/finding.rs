//! What a check found, and the sink that takes findings from all threads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use xfskit_format::{Corruption, VerifyResult};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Untidy, or worth knowing, but no reader is misled by it: a stale hint, a journal that waits
    /// for its replay.
    Warning,
    /// The volume contradicts itself or the format.
    Error,
    /// So much is missing that a part of the volume could not be judged.
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

/// What became of a block that was bad in the way it was read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Healing {
    /// Another way to obtain it gave a sound one, by which the volume was judged.
    Read,
    /// And the device holds that in every way now.
    Rewritten,
}

/// One thing that is wrong: how bad, and which check failed where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Which check, where, what was expected, what was found.
    #[serde(flatten)]
    pub corruption: Corruption,
    /// What became of it, where the device had a sound copy.
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

/// Where findings go: the caller's closure, behind a lock (a leaf: nothing is taken under it).
pub(crate) struct Sink<'a> {
    /// `None` where nobody listens.
    to: Option<Mutex<&'a mut (dyn FnMut(Finding) + Send)>>,
    counts: [AtomicU64; 3],
    healed: AtomicU64,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(to: &'a mut (dyn FnMut(Finding) + Send)) -> Self {
        Self { to: Some(Mutex::new(to)), counts: Default::default(), healed: AtomicU64::new(0) }
    }

    /// A sink for what has been reported already.
    pub(crate) fn quiet() -> Self {
        Self { to: None, counts: Default::default(), healed: AtomicU64::new(0) }
    }

    #[cold]
    pub(crate) fn report(&self, severity: Severity, fault: Box<Corruption>) {
        self.tell(severity, fault, None);
    }

    /// Reports a block that was bad, and sound in another way. What is rewritten is wrong no more.
    #[cold]
    pub(crate) fn report_healed(&self, fault: Box<Corruption>, healing: Healing) {
        self.healed.fetch_add(1, Ordering::Relaxed);
        let severity = match healing {
            Healing::Read => Severity::Error,
            Healing::Rewritten => Severity::Warning,
        };
        self.tell(severity, fault, Some(healing));
    }

    #[allow(clippy::boxed_local)] // as it comes from the verifiers
    fn tell(&self, severity: Severity, fault: Box<Corruption>, healed: Option<Healing>) {
        self.counts[severity as usize].fetch_add(1, Ordering::Relaxed);
        let Some(to) = &self.to else { return };
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        to(Finding { severity, corruption: *fault, healed });
    }

    /// Blocks that were sound in another way, so far.
    pub(crate) fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// Reports a failed check as an error. True where it passed.
    pub(crate) fn error(&self, verdict: VerifyResult) -> bool {
        verdict.map_err(|fault| self.report(Severity::Error, fault)).is_ok()
    }

    /// Reports a failed check as a warning. True where it passed.
    pub(crate) fn warning(&self, verdict: VerifyResult) -> bool {
        verdict.map_err(|fault| self.report(Severity::Warning, fault)).is_ok()
    }

    /// Findings of this severity so far.
    pub(crate) fn count(&self, severity: Severity) -> u64 {
        self.counts[severity as usize].load(Ordering::Relaxed)
    }

    /// All findings so far.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}
