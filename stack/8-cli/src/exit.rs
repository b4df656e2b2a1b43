//! How a command ends: four exit codes, and errors that say what to do next.

use std::fmt;
use std::process::ExitCode;

/// The answer of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done; the answer is yes. Exit code 0.
    Yes,
    /// The answer is no: corrupt, not found, differs. Exit code 1.
    No,
}

impl Answer {
    /// Yes where `ok`.
    pub(crate) fn of(ok: bool) -> Self {
        if ok { Self::Yes } else { Self::No }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::from(0),
            Answer::No => Self::from(1),
        }
    }
}

/// Why a command ended before its answer was complete.
#[derive(Debug)]
pub(crate) struct Failure {
    /// 1: the answer is no. 2: could not run. 130: stopped by the user.
    pub exit: u8,
    /// What is wrong, and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// The command could not run.
    pub(crate) fn cannot(message: impl Into<String>) -> Self {
        Self { exit: 2, message: message.into(), hint: None }
    }

    /// The answer is no: what was asked for is not there.
    pub(crate) fn no(message: impl Into<String>) -> Self {
        Self { exit: 1, message: message.into(), hint: None }
    }

    /// The user wanted to stop.
    pub(crate) fn stopped() -> Self {
        Self { exit: 130, message: "stopped; what was done until then is done".into(), hint: None }
    }

    /// The same failure, with what to do next.
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

/// What a command comes to.
pub(crate) type Outcome = Result<Answer, Failure>;
