//! Ctrl-C, and the other signals that ask to end: what is being done is finished, and nothing else
//! begun.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use xfskit::raw::copy::stdin::Stdin;

use crate::exit::Failure;

/// Set when the user wants to stop.
#[derive(Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT ask to stop. A second one ends the program
    /// at once. What the program was started to ignore, as `nohup` has it, stays ignored.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            if ignored >> (signal - 1) & 1 == 1 {
                continue;
            }
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
                .map_err(|e| Failure::cannot(format!("signals: {e}")))?;
        }
        Ok(Self(asked))
    }

    /// Fails where the user wants to stop.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if !self.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Failure::stopped())
    }

    /// The same for what is told of progress.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.check().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Standard input, of which no more comes when the user wants to stop.
    pub(crate) fn stdin(&self) -> Stdin {
        Stdin::until(Arc::clone(&self.0))
    }
}

/// The signals that are ignored, a bit each, the first one lowest.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
