//! Standard output, if there is one.
//!
//! If a program is started with standard output closed (`>&-`), Rust opens /dev/null in its place
//! before `main`, so that no file gets its number. Every write succeeds there, and the output is
//! lost. A function in `.init_array` runs earlier and records the state.
//!
//! If standard output is open for reading only (`1</dev/null`), the standard library ignores the
//! error of every write. So this module writes to the descriptor itself.

#![allow(unsafe_code)] // the loader calls it, and a descriptor is borrowed by its number

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls every pointer in this section, with arguments that may be ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Records whether standard output is closed. It runs before the standard library is ready, so it
/// uses nothing but a system call and an atomic.
extern "C" fn look() {
    // SAFETY: the number is passed to one call, which takes an invalid one too.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    let closed = rustix::io::fcntl_getfd(stdout) == Err(Errno::BADF);
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Standard output, without a buffer. Writing fails if it was closed when the program began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if CLOSED.load(Ordering::Relaxed) {
            return Err(Errno::BADF.into());
        }
        Ok(rustix::io::write(io::stdout().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
