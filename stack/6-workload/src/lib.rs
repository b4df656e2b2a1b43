//! Floor 6: the classic workloads and their reports. This room is laid out and still empty.
//!
//! fs_mark, dbench, compilebench, the concurrent inode test, degraded array reads and the attribute
//! study, each written once against a small trait of what programs ask of a filesystem (create, write,
//! read, stat, readdir, rename, unlink, xattr, fsync, sync, drop caches), with three drivers: the
//! engine in process (`5-vfs`), any mounted directory, and one that does nothing, which measures the
//! harness itself. Until then `bench/` holds the comparisons of what can be read and checked.
