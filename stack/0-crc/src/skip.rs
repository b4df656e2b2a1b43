//! Skips checksums, for studies of their cost.
//!
//! While a [`Skipping`] exists, every checksum in this process is the same constant. Blocks are
//! written with it, and blocks that carry it verify. Everything else is version 5 of the format.
//! Other programs cannot read such a volume, so it must be thrown away. The flag belongs to the
//! process: it cannot spare one volume while another one is served.

use std::sync::Mutex;

use crate::routine;

/// The number of holders, and the routine in use before the first.
static HELD: Mutex<(usize, usize)> = Mutex::new((0, 0));
/// The holders of [`HELD`] only count and swap a number.
const NO_PANIC: &str = "no panic under the lock";

/// Checksums are skipped while a value of this type exists.
#[derive(Debug)]
pub struct Skipping(());

/// Skips checksums from now on, in all threads.
pub fn skip() -> Skipping {
    let mut held = HELD.lock().expect(NO_PANIC);
    if held.0 == 0 {
        held.1 = routine::stop_summing();
    }
    held.0 += 1;
    Skipping(())
}

impl Drop for Skipping {
    fn drop(&mut self) {
        let mut held = HELD.lock().expect(NO_PANIC);
        held.0 -= 1;
        if held.0 == 0 {
            routine::sum_again(held.1);
        }
    }
}
