//! Benchmark programs, for any directory and for volumes in this process.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// Measure the throughput of a file server's clients, as dbench does
#[derive(Debug, Args)]
#[command(after_help = "\
Options and output are those of dbench 4.0: clients run a loadfile again and again, each in a
directory of its own, after a warm-up of a fifth of the time. Clients are threads of one process.
Without -c the load is built in (--print-load prints it); dbench has a recorded one:
-c /usr/share/dbench/client.txt.

With --engine the volume is not mounted: xfskit itself works on it, in this process, and changes it.
mem:SIZE is a new volume in memory, mem: a sparse one of 1 TiB.

Examples:
  xfskit dbench -t 60 -D /mnt 8
  xfskit dbench -t 60 -c /usr/share/dbench/client.txt --engine mem: 8
  xfskit dbench -t 120 -x -D /mnt --json 8            a JSON object each second, and the result
  xfskit dbench --print-load > client.txt             write write the load, for dbench itself")]
pub(crate) struct Dbench {
    /// Number of clients
    #[arg(value_name = "CLIENTS", required_unless_present = "print_load", default_value = "1")]
    pub clients: NonZeroUsize,
    /// Seconds of the measured run
    #[arg(short = 't', long = "timelimit", value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub time: u64,
    /// Run the loadfile this many times, without a warm-up, instead of for a time
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Directory to work in; made if missing
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Work on this volume with xfskit itself, not in a directory
    #[arg(long, value_name = "TARGET", conflicts_with = "dir")]
    pub engine: Option<String>,
    /// The loadfile
    #[arg(short = 'c', long = "loadfile", value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// Maximum rate in MB/sec
    #[arg(short = 'R', long = "target-rate", value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Sync each write (dbench opens with `O_SYNC`)
    #[arg(short = 's', long = "sync")]
    pub sync: bool,
    /// Sync changes of directories
    #[arg(short = 'S', long = "sync-dir")]
    pub sync_dirs: bool,
    /// fsync after each write
    #[arg(short = 'F', long = "fsync")]
    pub fsync: bool,
    /// Use extended attributes, as Samba 4 does
    #[arg(short = 'x', long = "xattr")]
    pub xattr: bool,
    /// Do not look up names without case
    #[arg(long)]
    pub no_resolve: bool,
    /// Keep the files
    #[arg(long)]
    pub skip_cleanup: bool,
    /// Print the results of each client, too
    #[arg(long)]
    pub per_client_results: bool,
    /// Seed of the load and the attributes
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Print the built-in load, and exit
    #[arg(long)]
    pub print_load: bool,
}

/// Parses a rate.
fn rate(word: &str) -> Result<f64, String> {
    let rate: f64 = word.parse().map_err(|_| "not a number".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("must be larger than 0".into()) }
}

/// Age a filesystem with source trees, as compilebench does
#[derive(Debug, Args)]
#[command(after_help = "\
Operations, options and averages are those of compilebench 0.6: source trees are made, then
patched, compiled, cleaned, read, listed and deleted at random. Each time includes a sync and
begins with cold caches. The trees are made from the seed, with the figures of those that
compilebench has: 21,280 files, 233 MB; compiled 714 MB more. As in compilebench, they are kept.

With --engine the volume is not mounted: xfskit itself works on it, in this process, and changes it.
mem:SIZE is a new volume in memory, mem: a sparse one of 1 TiB.

Examples:
  xfskit compilebench -D /mnt
  xfskit compilebench -D /mnt -i 10 -r 30 --makej
  xfskit compilebench --engine disk.img -i 5 -r 20 --files 2000")]
pub(crate) struct Compilebench {
    /// Directory to work in; made if missing
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Work on this volume with xfskit itself, not in a directory
    #[arg(long, value_name = "TARGET", conflicts_with = "dir")]
    pub engine: Option<String>,
    /// Number of trees that are made first
    #[arg(short = 'i', long = "initial-dirs", value_name = "NUMBER", default_value_t = 30)]
    pub initial: usize,
    /// Number of operations after that
    #[arg(short = 'r', long = "runs", value_name = "NUMBER", default_value_t = 100)]
    pub runs: usize,
    /// KiB of a read or write
    #[arg(short = 'b', long = "buffer-size", value_name = "KIB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub buffer: u32,
    /// Neither sync nor drop caches
    #[arg(short = 'n', long = "no-sync")]
    pub no_sync: bool,
    /// Compile all trees, read three, delete all, instead of random operations
    #[arg(short = 'm', long = "makej")]
    pub makej: bool,
    /// Number of files in a tree
    #[arg(long, value_name = "NUMBER", default_value_t = 21_280)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub files: u32,
    /// Seed of the trees and the random operations
    #[arg(long, value_name = "NUMBER", default_value_t = 555)]
    pub seed: u64,
}
