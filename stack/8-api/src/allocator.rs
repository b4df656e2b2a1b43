//! What glibc's allocator keeps for itself.
//!
//! Every thread gets an arena of its own, up to eight for each processor, and memory that another
//! thread frees goes back to the arena that it came from and stays there. Creates by eight threads,
//! whose objects the journal's thread frees, thus take half as much again as they use
//! (docs/design/journal.md, "Memory"). A user who limits the cache expects the process to keep the
//! limit.

#![allow(unsafe_code)] // mallopt

/// Bytes of a cache that are worth an arena.
const CACHE_OF_ARENA: usize = 256 << 20;

/// Bounds what the allocator keeps beside a cache of `cache_bytes`, for the whole process: fewer
/// arenas from now on where the cache is small. For programs to call once, before they start
/// threads; no part of the library does. Without glibc nothing happens.
pub fn keep_to(cache_bytes: usize) {
    #[cfg(target_env = "gnu")]
    {
        let arenas = (cache_bytes / CACHE_OF_ARENA).clamp(1, 64);
        // Eight for each processor are the most that glibc makes by itself.
        let most =
            std::thread::available_parallelism().map_or(8, |processors| 8 * processors.get());
        if arenas < most {
            limit_arenas(arenas);
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = cache_bytes;
}

#[cfg(target_env = "gnu")]
fn limit_arenas(arenas: usize) {
    use std::ffi::c_int;

    /// `M_ARENA_MAX` of `<malloc.h>`.
    const ARENA_MAX: c_int = -8;
    unsafe extern "C" {
        fn mallopt(param: c_int, value: c_int) -> c_int;
    }
    let arenas = c_int::try_from(arenas).unwrap_or(c_int::MAX);
    // SAFETY: mallopt takes two numbers and touches nothing but the allocator's own settings, under
    // its lock.
    unsafe { mallopt(ARENA_MAX, arenas) };
}
