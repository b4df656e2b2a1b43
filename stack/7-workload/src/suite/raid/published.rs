//! Published figures of reads from a degraded RAID6, and of routines.

/// The system that they were measured on.
pub const ON: &str =
    "md of Linux, RAID6 of 24 SSDs, chunk 512 KiB, 50 dd, files around 500 MB, E5-2620 v3";

/// Readers of [`READ`].
pub const READERS: f64 = 50.0;
/// KiB of a chunk of [`READ`].
pub const CHUNK_KIB: f64 = 512.0;

/// State, md's stripe_cache_size if it matters, MB/s.
pub const READ: [(&str, Option<u64>, f64); 3] = [
    ("healthy, about", None, 8000.0),
    ("one failed", Some(256), 200.0),
    ("one failed", Some(16_384), 1000.0),
];

/// Where md itself was read for the shape: its times are an emulator's, so only ratios are shown.
pub const EMULATED_ON: &str = "md of Linux 6.12, emulated machine, RAID6 of 24 loop devices in memory, chunk 512 KiB, \
                               stripe_cache_size 256, 50 dd";

/// State, and its rate over that of the healthy array, each the median of two or three turns.
pub const EMULATED: [(&str, f64); 2] = [("one failed", 0.078), ("two failed", 0.11)];

/// Members of the array of [`ON`].
pub const MEMBERS: u64 = 24;
/// Bytes of a page, the part of a member in an entry of md's stripe cache.
pub const PAGE: u64 = 4096;

/// A member of the array with one failed member and the large cache: reads/s, MB/s of
/// 2^20 bytes, sectors per read, ms, % busy.
pub const MEMBER: [f64; 5] = [205.0, 51.0, 511.0, 30.0, 91.0];

/// Bytes of memory traffic per byte read from the healthy array, and per byte that was
/// reconstructed.
pub const TRAFFIC: (f64, f64) = (3.0, 44.0);

/// Rates of routines at boot in MB/s: xor, then P+Q.
pub const ROUTINES: [(&str, Option<f64>, Option<f64>); 7] = [
    ("avx", Some(24_064.0), None),
    ("sse2x1", None, Some(7636.0)),
    ("sse2x2", None, Some(3656.0)),
    ("sse2x4", None, Some(3917.0)),
    ("avx2x1", None, Some(5425.0)),
    ("avx2x2", None, Some(7593.0)),
    ("avx2x4", None, Some(8648.0)),
];

/// The system that the next figures were measured on.
pub const CHANGE_ON: &str = "md of Linux, RAID6 of 8+2 disks, chunk 128 KiB (change 9ffc8f7cb964)";

/// The ways in which they were measured.
pub const CHANGE_WAYS: [&str; 3] =
    ["healthy", "one failed", "one failed, through the stripe cache"];

/// Request size in KiB; MiB/s healthy, degraded, degraded through the stripe cache.
pub const CHANGE: [(u64, [f64; 3]); 5] = [
    (1024, [1608.0, 656.0, 995.0]),
    (128, [1636.0, 771.0, 983.0]),
    (32, [1580.0, 1420.0, 1004.0]),
    (8, [768.0, 647.0, 953.0]),
    (4, [411.0, 413.0, 850.0]),
];
