//! The benchmarks, one in each file.

use std::process::ExitCode;

/// A benchmark, which reads its own arguments.
pub(crate) struct Benchmark {
    /// The first argument of the program
    pub name: &'static str,
    pub title: &'static str,
    pub main: fn() -> ExitCode,
}

macro_rules! benchmarks {
    ($($name:ident)*) => {
        $(mod $name;)*

        /// All of them, by name.
        pub(crate) const BENCHMARKS: &[Benchmark] = &[$(Benchmark {
            name: stringify!($name),
            title: $name::TITLE,
            main: $name::main,
        }),*];
    };
}

benchmarks! {
    against batch bulkstat check crc create degraded fill find from get growth journal metadump mount
    parity rebuild repair scale
}
