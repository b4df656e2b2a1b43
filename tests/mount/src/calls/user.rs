//! Calls of users other than root.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A group that all users have.
const COMMON: u32 = 5;

/// Makes a call as user `user`: in a thread of its own, which ends with it.
///
/// # Panics
/// The call panics, or this process may not become another user.
pub(super) fn of<T: Send>(user: u32, call: impl FnOnce() -> T + Send) -> T {
    if user == 0 {
        return call();
    }
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            set_thread_groups(&[Gid::from_raw(COMMON)]).expect("groups");
            set_thread_res_gid(gid, gid, gid).expect("a group");
            set_thread_res_uid(uid, uid, uid).expect("a user");
            call()
        });
        made.join().expect("no panic")
    })
}
