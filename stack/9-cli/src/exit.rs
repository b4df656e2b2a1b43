//! The end of a command: four exit codes, and errors that say what to do next.

use std::fmt;

/// The status of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// No problem was found. Exit code 0.
    Success,
    /// A problem was found: corruption, a missing name, a difference. Exit code 1.
    Problem,
}

impl ExitStatus {
    /// Returns success if `ok`.
    pub(crate) fn of(ok: bool) -> Self {
        if ok { Self::Success } else { Self::Problem }
    }

    /// Returns the exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Problem => 1,
        }
    }
}

/// The reason why a command ended before its result was complete.
#[derive(Debug)]
pub(crate) struct Failure {
    /// 1: a problem was found. 2: could not run. 130: stopped by the user.
    pub exit: u8,
    /// The error, and its location.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// Makes the failure of a command that could not run.
    pub(crate) fn cannot(message: impl Into<String>) -> Self {
        Self { exit: 2, message: message.into(), hint: None }
    }

    /// Makes the failure of a command that found a problem.
    pub(crate) fn problem(message: impl Into<String>) -> Self {
        Self { exit: 1, message: message.into(), hint: None }
    }

    /// Makes the failure of a command that the user stopped.
    pub(crate) fn stopped() -> Self {
        Self { exit: 130, message: "stopped; changes made until then are kept".into(), hint: None }
    }

    /// Makes the failure of a command that the user stopped, with what becomes of its work.
    pub(crate) fn stopped_and(what: &str) -> Self {
        Self { message: format!("stopped; {what}"), ..Self::stopped() }
    }

    /// Adds a hint what to do next.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

/// The end of a command.
pub(crate) type Outcome = Result<ExitStatus, Failure>;
