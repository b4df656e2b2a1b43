//! No sums at all, for studies of what sums cost.
//!
//! While somebody holds a [`Skipping`], every sum in this process is the same constant: what is written carries it,
//! and what was written so is found right. That is version 5 of the format in every respect but the computation.
//! Nobody else can read such a volume, so it must be thrown away; the flag is the process's, so one
//! volume cannot be spared while another one is served.

use std::sync::{Mutex, PoisonError};

use crate::routine;

/// How many hold it, and the routine from before the first.
static HELD: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// While it lives, nothing is summed.
#[derive(Debug)]
pub struct Skipping(());

/// Sums are skipped from now on, in all threads.
pub fn skip() -> Skipping {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.0 == 0 {
        held.1 = routine::stop_summing();
    }
    held.0 += 1;
    Skipping(())
}

impl Drop for Skipping {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 -= 1;
        if held.0 == 0 {
            routine::sum_again(held.1);
        }
    }
}
