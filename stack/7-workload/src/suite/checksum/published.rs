//! Published figures of the study.

/// The system that they were measured on.
pub const ON: &str = "kernel XFS of 2013, 8 processors, software CRC32c";

/// fs_mark, 8 processes, 50 million files: phase, without, with, difference in percent.
pub const FS_MARK: [(&str, f64, f64, f64); 5] = [
    ("create, time (s)", 483.0, 510.0, 5.2),
    ("create, rate (1/s)", 109_000.0, 105_000.0, -3.8),
    ("walk, time (s)", 339.0, 494.0, 30.3),
    ("walk, processor (s)", 1134.0, 1324.0, 14.4),
    ("unlink, time (s)", 692.0, 959.0, 27.8),
];

/// dbench, 8 clients: inode sizes, then throughput (MB/s) and worst latency (ms), each without,
/// with, difference.
pub const DBENCH: [(&str, [f64; 3], [f64; 3]); 2] = [
    ("inodes of 256 and 512 bytes", [1098.06, 1229.65, 10.0], [22.385, 22.661, 1.3]),
    ("inodes of 512 and 512 bytes", [1273.22, 1229.65, -3.5], [25.455, 22.661, -12.4]),
];

/// compilebench: operation, without, with.
pub const COMPILEBENCH: [(&str, f64, f64); 11] = [
    ("initial create", 92.12, 90.24),
    ("create", 61.91, 61.13),
    ("patch", 41.04, 38.00),
    ("compile", 278.74, 262.00),
    ("clean", 1355.30, 1296.17),
    ("read tree", 25.68, 25.40),
    ("read compiled tree", 48.74, 48.65),
    ("delete tree", 2.97, 3.05),
    ("delete compiled tree", 2.96, 3.05),
    ("stat tree", 1.33, 1.36),
    ("stat compiled tree", 1.86, 1.64),
];

/// Share of processor time in CRC32c, in percent.
pub const SHARES: [(&str, f64); 2] = [("create", 1.65), ("walk", 2.93)];

/// The kernel's self-test: bytes, and microseconds.
pub const SELF_TEST: (u64, f64) = (225_944, 212.0);
