//! Ctrl-C, and the other signals that request an end: the current step is finished, and no other is
//! begun.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use xfskit::{CancelToken, Stdin};

use crate::exit::Failure;

/// Cancelled when the user requests an end.
#[derive(Debug)]
pub(crate) struct Stop(CancelToken);

impl Stop {
    /// Handles SIGINT, SIGTERM, SIGHUP and SIGQUIT from now on. A second signal ends the program at
    /// once. Signals that the program was started to ignore, as with `nohup`, stay ignored.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            if ignored >> (signal - 1) & 1 == 1 {
                continue;
            }
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&requested))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&requested)))
                .map_err(|e| Failure::cannot(format!("signals: {e}")))?;
        }
        Ok(Self(requested.into()))
    }

    /// Fails if the user requested an end.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if !self.0.is_cancelled() {
            return Ok(());
        }
        Err(Failure::stopped())
    }

    /// Returns the token that the request cancels.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.0
    }

    /// Returns standard input, whose reads fail when the user requests an end.
    pub(crate) fn stdin(&self) -> Stdin {
        self.0.stdin()
    }
}

/// Returns the ignored signals as bits, the first signal in the lowest.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
