//! The choice of a routine: the best one of this processor that agrees with the portable one.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::measure;
use crate::routine::{Routine, routines};

/// Index of the routine in use; [`UNCHOSEN`] before the first call.
static CHOSEN: AtomicUsize = AtomicUsize::new(UNCHOSEN);
const UNCHOSEN: usize = usize::MAX;

/// Returns the routine in use. The first call chooses the best one that agrees with the portable
/// one.
#[inline]
pub(crate) fn chosen() -> &'static Routine {
    routines().get(CHOSEN.load(Ordering::Relaxed)).unwrap_or_else(choose)
}

#[cold]
fn choose() -> &'static Routine {
    let good = |routine: &Routine| routine.available() && measure::matches_portable(routine);
    let best = routines().iter().position(good).unwrap_or(routines().len() - 1);
    CHOSEN.store(best, Ordering::Relaxed);
    &routines()[best]
}

/// Returns the name of the routine in use.
pub fn selected() -> &'static str {
    chosen().name
}

/// Uses the routine called `name` from now on, in all threads. Returns false, and changes nothing,
/// if there is no routine of that name or the processor does not support it. Does not test the
/// routine.
pub fn select(name: &str) -> bool {
    let found = routines().iter().position(|r| r.name == name && r.available());
    if let Some(i) = found {
        CHOSEN.store(i, Ordering::Relaxed);
    }
    found.is_some()
}
