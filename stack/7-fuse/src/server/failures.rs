//! Failures that are not the program's: of the device, of a structure of the volume, of xfskit.
//!
//! A panic in the midst of a request is a bug of xfskit. It costs the request (EIO), and the volume
//! is shut down: what the panic left in memory is not written, and every later request fails. The
//! journal has what was durable, and the next mount replays it. A mount that is read-only has
//! nothing that could reach the device, and goes on.

use std::any::Any;
use std::fmt::Display;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_vfs::{self as vfs, Fs};

use super::Server;
use crate::operations::Reply;

/// Time without a full volume after which the next one is logged again.
const FULL_AGAIN: Duration = Duration::from_secs(60);

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    /// Returns what failed first: the device, or a structure of the volume.
    pub fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().clone()
    }

    /// Runs `work` of this process, and shuts the volume down if it panics. Returns `None` then.
    pub(crate) fn safely<T>(&self, during: &str, work: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(work))
            .inspect_err(|panic| self.shut_down_after(during, panic.as_ref()))
            .ok()
    }

    /// Runs `work` on the volume, and shuts the volume down if it panics: the error says so.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn guarded(
        &self,
        during: &str,
        work: impl FnOnce() -> vfs::Result<()>,
    ) -> vfs::Result<()> {
        // A checkpoint fails with the cause of the shutdown.
        let cause = || Ok(self.fs.volume().engine()?.checkpoint().map_err(Core::from)?);
        self.safely(during, work).unwrap_or_else(cause)
    }

    /// Records a panic during a request or other work, and shuts the volume down.
    pub(super) fn shut_down_after(&self, during: &str, panic: &(dyn Any + Send)) {
        let cause = format!("a bug in xfskit: panic during {during}: {}", message(panic));
        tracing::error!("{cause}");
        self.keep_failure(&cause);
        if let Ok(engine) = self.fs.volume().engine() {
            engine.shut_down(&cause);
        }
    }

    /// Fails if the volume was shut down.
    pub(super) fn check_not_shut_down(&self) -> Reply<()> {
        let Ok(engine) = self.fs.volume().engine() else { return Ok(()) };
        engine.check_not_shut_down().map_err(|shut| {
            self.keep_failure(&shut);
            Errno::IO
        })
    }

    /// Returns the errno of `error`. Logs and keeps the first failure that is not the program's.
    pub(super) fn failed(&self, error: &vfs::Error) -> Errno {
        let errno = Errno::from_raw_os_error(error.errno());
        match errno {
            Errno::IO | Errno::UCLEAN => {
                tracing::error!(%error, "an operation failed");
                self.keep_failure(error);
            }
            Errno::NOSPC if self.is_first_in_a_while() => {
                tracing::warn!(%error, "an operation failed");
            }
            _ => {}
        }
        errno
    }

    pub(super) fn keep_failure(&self, error: &dyn Display) {
        self.first_failure.lock().get_or_insert_with(|| error.to_string());
    }

    /// Returns true if the volume was not full for some time. Programs may try again and again.
    fn is_first_in_a_while(&self) -> bool {
        let (now, mut last) = (Instant::now(), self.last_full.lock());
        let is_first = last.is_none_or(|last| now.duration_since(last) >= FULL_AGAIN);
        *last = Some(now);
        is_first
    }
}

/// Returns what a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
