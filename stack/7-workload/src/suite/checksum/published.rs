//! Published figures of the study.

/// The system that they were measured on.
pub const ON: &str = "kernel XFS of 2013, 8 processors, software CRC32c";

/// Its name in the legend of a plot.
pub const SHORT_ON: &str = "kernel XFS of 2013";

/// A figure without and with checksums.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The figure, with its unit.
    pub name: &'static str,
    /// Without checksums.
    pub off: f64,
    /// With checksums.
    pub on: f64,
    /// The difference in the publication's own words. Most of its percentages are parts of the
    /// figure with checksums, or of the larger one; some follow from neither.
    pub as_published: &'static str,
}

impl Pair {
    /// Returns the difference in percent of the figure without checksums, as for measured figures.
    pub fn difference_percent(&self) -> f64 {
        (self.on / self.off - 1.0) * 100.0
    }

    /// Returns both figures with their names in a legend.
    pub fn sides(&self) -> [(&'static str, f64); 2] {
        [("without checksums", self.off), ("with checksums", self.on)]
    }
}

const fn pair(name: &'static str, off: f64, on: f64, as_published: &'static str) -> Pair {
    Pair { name, off, on, as_published }
}

/// Files of [`FS_MARK`].
pub const FS_MARK_FILES: f64 = 50e6;

/// fs_mark, 8 processes, [`FS_MARK_FILES`].
pub const FS_MARK: [Pair; 5] = [
    pair("create, time (s)", 483.0, 510.0, "+5.2 %"),
    pair("create, rate (1/s)", 109_000.0, 105_000.0, "-3.8 %"),
    pair("walk, time (s)", 339.0, 494.0, "30.3 % slower"),
    pair("walk, system time (s)", 1134.0, 1324.0, "+14.4 %"),
    pair("unlink, time (s)", 692.0, 959.0, "27.8 % slower"),
];

/// Where version 4 and version 5 were compared: its times are an emulator's, and say nothing beside
/// those of a machine.
pub const EMULATED_ON: &str =
    "kernel XFS 6.12, version 5 over version 4, emulated machine, 8 pairs";

/// The difference in the time of fs_mark on [`EMULATED_ON`]: step; percent, median, least and most
/// of the pairs.
pub const EMULATED: [(&str, [f64; 3]); 3] = [
    ("create, time (s)", [-11.0, -36.0, 71.0]),
    ("walk, time (s)", [-1.0, -43.0, 42.0]),
    ("unlink, time (s)", [-6.0, -25.0, 22.0]),
];

/// dbench, 8 clients.
pub const DBENCH: [Pair; 4] = [
    pair("inodes of 256 and 512 bytes, throughput (MB/s)", 1098.06, 1229.65, "+10 %"),
    pair("inodes of 256 and 512 bytes, worst latency (ms)", 22.385, 22.661, "+1.3 %"),
    pair("inodes of 512 and 512 bytes, throughput (MB/s)", 1273.22, 1229.65, "-3.5 %"),
    pair("inodes of 512 and 512 bytes, worst latency (ms)", 25.455, 22.661, "-12.4 %"),
];

/// compilebench: 30 initial trees, 100 runs.
pub const COMPILEBENCH: [Pair; 11] = [
    pair("initial create (MB/s)", 92.12, 90.24, ""),
    pair("create (MB/s)", 61.91, 61.13, ""),
    pair("patch (MB/s)", 41.04, 38.00, ""),
    pair("compile (MB/s)", 278.74, 262.00, ""),
    pair("clean (MB/s)", 1355.30, 1296.17, ""),
    pair("read tree (MB/s)", 25.68, 25.40, ""),
    pair("read compiled tree (MB/s)", 48.74, 48.65, ""),
    pair("delete tree (s)", 2.97, 3.05, ""),
    pair("delete compiled tree (s)", 2.96, 3.05, ""),
    pair("stat tree (s)", 1.33, 1.36, ""),
    pair("stat compiled tree (s)", 1.86, 1.64, ""),
];

/// Share of processor time in CRC32c, in percent.
pub const SHARES: [(&str, f64); 2] = [("create", 1.65), ("walk", 2.93)];

/// The kernel's self-test: bytes, and microseconds.
pub const SELF_TEST: (u64, f64) = (225_944, 212.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_follow_from_the_figures() {
        let percent: Vec<String> = FS_MARK
            .iter()
            .chain(&DBENCH)
            .map(|pair| format!("{:+.1}", pair.difference_percent()))
            .collect();
        let expected =
            ["+5.6", "-3.7", "+45.7", "+16.8", "+38.6", "+12.0", "+1.2", "-3.4", "-11.0"];
        assert_eq!(percent, expected);
    }
}
