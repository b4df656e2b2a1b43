//! Programs that filesystems are measured with, for any directory and for volumes in this process.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// Measure what a file server's clients get, as dbench does
#[derive(Debug, Args)]
#[command(after_help = "\
The options and the lines are those of dbench 4.0: clients go through a loadfile over and over, each in
a directory of its own; a fifth of the time goes before as a warm-up. Clients are threads of one
process. Without -c the load is one of our own making (--print-load shows it); a recorded one comes
with dbench: -c /usr/share/dbench/client.txt.

With --engine the volume is not mounted: xfskit itself works on it, in this process, and changes it.
mem:SIZE is a fresh volume in memory, mem: a sparse one of 1 TiB.

Examples:
  xfskit dbench -t 60 -D /mnt 8
  xfskit dbench -t 60 -c /usr/share/dbench/client.txt --engine mem: 8
  xfskit dbench -t 120 -x -D /mnt --json 8            an object each second, and the result
  xfskit dbench --print-load > client.txt             the load, for dbench itself")]
pub(crate) struct Dbench {
    /// Clients at once
    #[arg(value_name = "CLIENTS", required_unless_present = "print_load", default_value = "1")]
    pub clients: NonZeroUsize,
    /// Seconds that count
    #[arg(short = 't', long = "timelimit", value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub time: u64,
    /// Not for a time, but so many times through the loadfile, without a warm-up
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Directory to work in; made where it is missing
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Not in a directory, but on this volume, by xfskit itself
    #[arg(long, value_name = "TARGET", conflicts_with = "dir")]
    pub engine: Option<String>,
    /// The loadfile
    #[arg(short = 'c', long = "loadfile", value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// At most so many MB/sec
    #[arg(short = 'R', long = "target-rate", value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Each write is synced (dbench opens with `O_SYNC`)
    #[arg(short = 's', long = "sync")]
    pub sync: bool,
    /// Changes of directories are synced
    #[arg(short = 'S', long = "sync-dir")]
    pub sync_dirs: bool,
    /// fsync after each write
    #[arg(short = 'F', long = "fsync")]
    pub fsync: bool,
    /// Extended attributes, as Samba 4 keeps them
    #[arg(short = 'x', long = "xattr")]
    pub xattr: bool,
    /// Names are not looked for without minding case
    #[arg(long)]
    pub no_resolve: bool,
    /// What was made stays
    #[arg(long)]
    pub skip_cleanup: bool,
    /// What each client did, too
    #[arg(long)]
    pub per_client_results: bool,
    /// The same number makes the same load and the same attributes
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Print the load that is built in, and end
    #[arg(long)]
    pub print_load: bool,
}

/// A rate that can be kept.
fn rate(word: &str) -> Result<f64, String> {
    let rate: f64 = word.parse().map_err(|_| "not a number".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("more than nothing, please".into()) }
}

/// Age a filesystem with source trees, as compilebench does
#[derive(Debug, Args)]
#[command(after_help = "\
The operations, options and averages are those of compilebench 0.6: trees of source code are made, then
patched, compiled, cleaned, read, looked at and deleted at random, with cold caches and a sync in each
time. The trees are made from the seed, after the figures of those that compilebench brings: 21,280
files, 233 MB; compiled 714 MB more. They stay, as there.

With --engine the volume is not mounted: xfskit itself works on it, in this process, and changes it.
mem:SIZE is a fresh volume in memory, mem: a sparse one of 1 TiB.

Examples:
  xfskit compilebench -D /mnt
  xfskit compilebench -D /mnt -i 10 -r 30 --makej
  xfskit compilebench --engine disk.img -i 5 -r 20 --files 2000")]
pub(crate) struct Compilebench {
    /// Directory to work in; made where it is missing
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Not in a directory, but on this volume, by xfskit itself
    #[arg(long, value_name = "TARGET", conflicts_with = "dir")]
    pub engine: Option<String>,
    /// Trees that are made first
    #[arg(short = 'i', long = "initial-dirs", value_name = "NUMBER", default_value_t = 30)]
    pub initial: usize,
    /// Operations after that
    #[arg(short = 'r', long = "runs", value_name = "NUMBER", default_value_t = 100)]
    pub runs: usize,
    /// KiB in a read or write
    #[arg(short = 'b', long = "buffer-size", value_name = "KIB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub buffer: u32,
    /// Neither syncs nor cold caches
    #[arg(short = 'n', long = "no-sync")]
    pub no_sync: bool,
    /// Not operations at random, but all trees compiled, three read, all deleted
    #[arg(short = 'm', long = "makej")]
    pub makej: bool,
    /// Files in a tree
    #[arg(long, value_name = "NUMBER", default_value_t = 21_280)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub files: u32,
    /// The same number makes the same trees and the same choices
    #[arg(long, value_name = "NUMBER", default_value_t = 555)]
    pub seed: u64,
}
