//! Calls by other users than root.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Calls `with` as this user and group, in a thread of its own.
///
/// # Panics
/// The caller is not root, or `with` panics.
pub fn acting<T: Send>(uid: u32, gid: u32, with: impl FnOnce() -> T + Send) -> T {
    let run = move || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&[]).expect("no groups");
        set_thread_res_gid(gid, gid, gid).expect("a group");
        set_thread_res_uid(uid, uid, uid).expect("a user");
        with()
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("a result"))
}
