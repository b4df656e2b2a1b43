//! Published figures of the test.

/// The system that the runs with two kinds of locks were measured on.
pub const LOCKS_ON: &str = "kernel XFS 4.2, 120 processors, RAID0 of 5 SSDs";

/// Output of fs_mark with 16 directories: lock, count, files/s, overhead in µs.
pub const LOCKS: [(&str, u64, f64, u64); 8] = [
    ("queued spinlock", 6_400_000, 286_491.9, 3_500_179),
    ("queued spinlock", 7_200_000, 293_229.5, 3_963_140),
    ("queued spinlock", 8_000_000, 271_182.4, 3_708_212),
    ("queued spinlock", 8_800_000, 300_592.0, 3_595_722),
    ("ticket spinlock", 6_400_000, 310_419.6, 3_343_821),
    ("ticket spinlock", 7_200_000, 348_346.5, 4_721_133),
    ("ticket spinlock", 8_000_000, 328_098.2, 3_235_753),
    ("ticket spinlock", 8_800_000, 316_765.3, 3_238_971),
];

/// Kernel change 8f80587bacb6, wall time in seconds: step, v4, v5, v5 with the change.
pub const STEPS: [(&str, [f64; 3]); 5] = [
    ("create", [237.0, 235.0, 234.0]),
    ("bulkstat", [161.0, 163.0, 160.0]),
    ("find and stat", [173.0, 205.0, 182.0]),
    ("ls -R", [201.0, 31.0, 29.0]),
    ("rm -rf", [299.0, 356.0, 317.0]),
];

/// The system of the test on a sparse device of 500 TB.
pub const SPARSE_ON: &str = "kernel XFS, sparse device of 500 TB";

/// Commits per second while files are created and removed.
pub const COMMITS: &str = "400,000 to 500,000";

/// Inodes per second of a bulkstat with cold caches.
pub const BULKSTAT: &str = "near 1,000,000";

/// The removal on the system of [`LOCKS_ON`], for each of its processes: wall time in seconds, of
/// the first and of the last one; user and system time in seconds.
pub const REMOVAL: (&str, f64, f64) = ("242.8 to 257.3", 3.4, 177.0);
