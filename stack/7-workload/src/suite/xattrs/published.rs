//! Published figures of the space cases: one file, leaves of 4,096 bytes.
//!
//! By the published measure, a leaf's used space is its header, 8 bytes for each entry, and names
//! with values. *Below* counts leaves with less than 2,700 bytes used. *Wasted* is the free space
//! of these leaves.

/// Used bytes below which a leaf counts as wasteful.
pub const BELOW: usize = 2700;

/// One published row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the case.
    pub case: &'static str,
    /// Number of leaves.
    pub leaves: u64,
    /// Leaves with less than [`BELOW`] bytes used.
    pub below: u64,
    /// Bytes of all leaves, to two digits.
    pub total: f64,
    /// Free bytes in the leaves below, to two digits.
    pub wasted: f64,
    /// Wasted space in percent of the space of all leaves.
    pub wasted_percent: f64,
}

/// Creates a row in the order of the published columns.
const fn row(
    case: &'static str,
    leaves: u64,
    below: u64,
    total: f64,
    wasted: f64,
    percent: f64,
) -> Row {
    Row { case, leaves, below, total, wasted, wasted_percent: percent }
}

/// Cases that set attributes on a fresh volume.
pub const CLEAN: [Row; 24] = [
    row("n1000000-120-150-200-220-255-d25", 69_976, 54_618, 290e6, 100e6, 36.12),
    row("n1000000-120-150-200-220-255", 81_569, 51_571, 330e6, 91e6, 27.13),
    row("n1000000-120-150-200-220-255-o25", 91_423, 80_256, 370e6, 140e6, 38.29),
    row("n1000000-20-255-40-220-60-200-80-150-100-120-d25", 52_302, 35_637, 210e6, 63e6, 29.59),
    row("n1000000-20-255-40-220-60-200-80-150-100-120", 60_087, 40_117, 250e6, 74e6, 30.17),
    row("n1000000-20-255-40-220-60-200-80-150-100-120-o25", 67_755, 50_914, 280e6, 92e6, 33.16),
    row("n1000000-20-40-60-80-100-120-150-200-220-255-d25", 50_726, 45_259, 210e6, 80e6, 38.26),
    row("n1000000-20-40-60-80-100-120-150-200-220-255", 59_569, 36_207, 240e6, 66e6, 27.02),
    row("n1000000-20-40-60-80-100-120-150-200-220-255-o25", 61_984, 40_703, 250e6, 74e6, 29.05),
    row("n1000000-20-40-60-80-100-d25", 23_528, 9259, 96e6, 18e6, 18.22),
    row("n1000000-20-40-60-80-100", 31_934, 17_140, 130e6, 33e6, 25.11),
    row("n1000000-20-40-60-80-100-o25", 33_829, 21_750, 140e6, 41e6, 29.67),
    row("n1000000-255-220-200-150-120-100-80-60-40-20-d25", 50_031, 45_683, 200e6, 87e6, 42.45),
    row("n1000000-255-220-200-150-120-100-80-60-40-20", 58_432, 36_864, 240e6, 68e6, 28.54),
    row("n1000000-255-220-200-150-120-100-80-60-40-20-o25", 62_105, 46_118, 250e6, 87e6, 34.03),
    row("n1000000-255-d25", 100_674, 95_024, 410e6, 180e6, 44.82),
    row("n1000000-255", 106_567, 61_837, 440e6, 110e6, 24.19),
    row("n1000000-255-o25", 108_567, 65_837, 440e6, 110e6, 25.57),
    row("n1000000-40-d25", 20_082, 10_468, 82e6, 20e6, 24.36),
    row("n1000000-40", 24_445, 9051, 100e6, 18e6, 17.82),
    row("n1000000-40-o25", 24_445, 9051, 100e6, 18e6, 17.82),
    row("n1000000-60-d25", 23_520, 8975, 96e6, 17e6, 17.89),
    row("n1000000-60", 32_091, 17_444, 130e6, 33e6, 25.31),
    row("n1000000-60-o25", 33_473, 20_210, 140e6, 39e6, 28.36),
];

/// Cases that then remove half of them, and set or remove others.
pub const PARTIAL: [Row; 12] = [
    row("n1000000--s-50-120-150-200-220-255--D-400000", 10_000, 10_000, 41e6, 18e6, 45.11),
    row("n1000000--s-50-120-150-200-220-255--N-400000", 88_432, 83_729, 360e6, 150e6, 42.65),
    row(
        "n1000000--s-50-20-40-60-80-100-120-150-200-220-255--D-400000",
        8434,
        6369,
        35e6,
        15e6,
        42.42,
    ),
    row(
        "n1000000--s-50-20-40-60-80-100-120-150-200-220-255--N-400000",
        51_568,
        21_136,
        210e6,
        40e6,
        18.99,
    ),
    row("n1000000--s-50-20-40-60-80-100--D-400000", 4245, 2686, 17e6, 6.1e6, 35.21),
    row("n1000000--s-50-20-40-60-80-100--N-400000", 30_029, 14_263, 120e6, 28e6, 22.90),
    row("n1000000--s-50-255--D-400000", 12_567, 7701, 51e6, 16e6, 31.75),
    row("n1000000--s-50-255--N-400000", 102_433, 73_730, 420e6, 130e6, 31.97),
    row("n1000000--s-50-40--D-400000", 3310, 2478, 14e6, 5.4e6, 39.93),
    row("n1000000--s-50-40--N-400000", 24_445, 10_626, 100e6, 21e6, 20.97),
    row("n1000000--s-50-60--D-400000", 4464, 3230, 18e6, 7.4e6, 40.66),
    row("n1000000--s-50-60--N-400000", 30_460, 15_448, 120e6, 30e6, 24.28),
];

/// Seconds of system time to set one to ten million attributes with values of 40 bytes.
pub const SET: [f64; 10] =
    [96.40, 199.95, 297.34, 395.64, 500.88, 609.92, 706.61, 825.23, 943.66, 1070.73];
/// Seconds of system time to remove them.
pub const REMOVED: [f64; 10] =
    [75.39, 162.51, 240.63, 324.40, 402.35, 495.00, 572.34, 739.55, 826.72, 923.95];

/// Returns the published row of a case.
pub fn find(case: &str) -> Option<&'static Row> {
    CLEAN.iter().chain(&PARTIAL).find(|row| row.case == case)
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;

    #[test]
    fn every_published_name_is_a_case() {
        for row in CLEAN.iter().chain(&PARTIAL) {
            assert_eq!(row.case.parse::<Case>().expect(row.case).to_string(), row.case);
        }
    }
}
