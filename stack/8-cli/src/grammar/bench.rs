//! Commands that measure: the programs that filesystems are measured with, for any directory.

use std::path::PathBuf;

use clap::Args;

/// Measure how fast small files are made, as fs_mark does
#[derive(Debug, Args)]
#[command(after_help = "\
The options and the lines are those of fs_mark 3.3: a thread for each directory makes files, syncs
them as -S says, and removes them unless -k is given. Files/sec counts the time in calls only.
  -S 0  no sync                        -S 1  fsync before close
  -S 2  sync, one fsync per directory
  -S 3  all opened again and synced, last first     -S 4  sync, then 3
  -S 5  all opened again and synced, in order       -S 6  sync, then 5

Examples:
  xfskit fs_mark -d /mnt/a -d /mnt/b -n 10000 -s 0 -S 0 -L 4
  xfskit fs_mark -d /mnt/mail -s 4096 -S 1 -D 16 -N 100 -n 1000 -k
  xfskit fs_mark --json -d /mnt -s 0 -S 0 -F        one object per iteration, until full")]
pub(crate) struct FsMark {
    /// Directory to work in; made where it is missing. Once for each thread
    #[arg(short = 'd', value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Subdirectories of each
    #[arg(short = 'D', value_name = "NUMBER", default_value_t = 0)]
    pub subdirs: usize,
    /// Files in a subdirectory before the next one is taken, in turn. Without it they change with time
    #[arg(short = 'N', value_name = "NUMBER", default_value_t = 0)]
    pub per_subdir: u64,
    /// Files of each thread in an iteration
    #[arg(short = 'n', value_name = "NUMBER", default_value_t = 1000)]
    pub files: u64,
    /// Iterations
    #[arg(short = 'L', value_name = "NUMBER", default_value_t = 1)]
    pub loops: u64,
    /// Bytes in a file
    #[arg(short = 's', value_name = "BYTES", default_value_t = 51_200)]
    pub size: u64,
    /// Bytes in a write
    #[arg(short = 'w', value_name = "BYTES", default_value_t = 16_384)]
    pub write_size: usize,
    /// Threads; a multiple of the directories
    #[arg(short = 't', value_name = "NUMBER", default_value_t = 1)]
    pub threads: usize,
    /// Bytes in a name
    #[arg(short = 'p', value_name = "BYTES", default_value_t = 40)]
    pub name_len: usize,
    /// Random ones among them
    #[arg(short = 'r', value_name = "BYTES", default_value_t = 24)]
    pub random_len: usize,
    /// How files are made durable
    #[arg(short = 'S', value_name = "METHOD", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=6))]
    pub sync: u8,
    /// Keep the files of each iteration
    #[arg(short = 'k')]
    pub keep: bool,
    /// Go on until the filesystem is full
    #[arg(short = 'F')]
    pub until_full: bool,
    /// Append the output to this file as well
    #[arg(short = 'l', value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The same number makes the same names
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
}
