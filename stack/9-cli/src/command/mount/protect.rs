//! Keeps the process that serves a mount from waiting for that mount.
//!
//! Memory of the kernel may be full of changes to files of the mount, which only this process can
//! write. Where it is privileged, its own requests for memory do not wait for such writes, and its
//! pages are not swapped out.

use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

/// Protects this thread, and all that it starts. Without the rights for it, nothing happens.
pub(super) fn protect() {
    // Takes CAP_SYS_RESOURCE.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // A limit would make later requests for memory fail.
    if !may_lock_everything() {
        return;
    }
    // Only pages that are used: the cache grows to its size, and thread stacks stay mostly empty.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let _ = rustix::mm::mlockall(flags);
}

/// Returns true if no limit applies to locked memory.
fn may_lock_everything() -> bool {
    let has_capability = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    has_capability || getrlimit(Resource::Memlock).current.is_none()
}
