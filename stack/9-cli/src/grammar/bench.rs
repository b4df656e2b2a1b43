//! Commands that measure: whole studies, and benchmark programs for any directory.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Serialize, Serializer};
use xfskit_workload::suite::xattrs::case::Case;

/// Measure the rate of making small files, as fs_mark does
#[derive(Debug, Args)]
#[command(after_help = "\
Options and output are those of fs_mark 3.3: a thread for each directory makes files, syncs them by
method -S, and removes them unless -k, -L or -F is given. Files/sec is the sum over all threads; App
Overhead is the time outside of calls.
  -S 0  no sync                        -S 1  fsync before close
  -S 2  sync, one fsync per directory
  -S 3  all opened again and synced, last first     -S 4  sync, then 3
  -S 5  all opened again and synced, in order       -S 6  sync, then 5

Examples:
  xfskit fs_mark -d /mnt/a -d /mnt/b -n 10000 -s 0 -S 0 -L 4
  xfskit fs_mark -d /mnt/mail -s 4096 -S 1 -D 16 -N 100 -n 1000 -k
  xfskit fs_mark --json -d /mnt -s 0 -S 0 -F        one object per iteration, until full
  xfskit fs_mark --engine mem: -d a -d b -n 100000 -s 0 -S 0

With --engine the volume is not mounted: xfskit itself works on it, in this process, and changes
it. mem:SIZE is a new volume in memory, mem: a sparse one of 1 TiB. Directories are those on the
volume.")]
pub(crate) struct FsMark {
    /// Directory to work in; made if missing. Given once for each thread
    #[arg(short = 'd', value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Work on this volume with xfskit itself, not in mounted directories
    #[arg(long, value_name = "TARGET")]
    pub engine: Option<String>,
    /// Number of subdirectories of each
    #[arg(short = 'D', value_name = "NUMBER", default_value_t = 0)]
    pub subdirs: usize,
    /// Number of files in a subdirectory before the next one is used, in turn. Without it the
    /// subdirectory changes with time
    #[arg(short = 'N', value_name = "NUMBER", default_value_t = 0)]
    pub per_subdir: u64,
    /// Number of files of each thread in an iteration
    #[arg(short = 'n', value_name = "NUMBER", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub files: u64,
    /// Number of iterations [default: 1]; with it files are kept, as in fs_mark
    #[arg(short = 'L', value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Bytes of a file
    #[arg(short = 's', value_name = "BYTES", default_value_t = 51_200)]
    pub size: u64,
    /// Bytes of a write
    #[arg(short = 'w', value_name = "BYTES", default_value_t = 16_384)]
    pub write_size: usize,
    /// Number of threads; a multiple of the number of directories
    #[arg(short = 't', value_name = "NUMBER", default_value_t = 1)]
    pub threads: usize,
    /// Bytes of a name
    #[arg(short = 'p', value_name = "BYTES", default_value_t = 40)]
    pub name_len: usize,
    /// Random bytes of a name
    #[arg(short = 'r', value_name = "BYTES", default_value_t = 24)]
    pub random_len: usize,
    /// Method of making files durable
    #[arg(short = 'S', value_name = "METHOD", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=6))]
    pub sync: u8,
    /// Keep the files of each iteration
    #[arg(short = 'k')]
    pub keep: bool,
    /// Continue until the filesystem is full; files are kept
    #[arg(short = 'F')]
    pub until_full: bool,
    /// Append the output to this file as well
    #[arg(short = 'l', value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Seed of the names
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
}

/// Repeat published studies of filesystems, with xfskit and the kernel
#[derive(Debug, Args)]
#[command(after_help = "\
Each suite makes its own volumes, in memory or with --dir in a directory, runs the workload of a
published study, and reports its figures beside the published ones (marked as such: other
hardware). With --against kernel the kernel's XFS does the same on a loop image of the same disk,
in turn; that needs root. With --against mount xfskit is measured through its own mount, too, as
other programs use it; --against kernel,mount is both. Reports are text; --html writes a page with
plots, --csv a figure on each line, --json an object for each result as soon as it is measured, and
the report at the end. --report writes the report as data.

The files are written after each section, so a run that is stopped leaves what it measured; until
the end they say that they are incomplete. --resume continues such a run, if nothing else is
different. Ctrl-C stops it after its current step, and at once if it is pressed again.

Examples:
  xfskit bench all --quick --html report.html
  xfskit bench all --report all.json --html all.html     stopped, by Ctrl-C or a full disk …
  xfskit bench all --resume all.json --html all.html     … and continued
  xfskit bench compare before.json after.json
  xfskit bench inodes --against kernel --repetitions 3
  xfskit bench xattrs --quick                          a few thousand attributes, in seconds
  xfskit bench xattrs n1000000-40-d25                  one space case by its name
  xfskit bench xattrs --against kernel --html out.html")]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub suite: Suite,
}

/// The studies.
#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    Checksum(Checksum),
    Inodes(Inodes),
    Locks(Locks),
    Raid(Raid),
    Xattrs(Xattrs),
    CrcUpdate(CrcUpdate),
    All(All),
    Compare(Compare),
    Claims(super::claims::Claims),
}

/// Set two runs side by side, and say what differs beyond the noise
#[derive(Debug, Args)]
#[command(after_help = "\
Reads reports that --report or --json wrote. Circumstances that differ come first: machine,
kernel, version, options. Then come the figures that both runs have, found by section, table, row
and column. A figure differs if the 95 percent confidence interval of the ratio excludes 1. Runs
of fewer than four turns decide nothing, and a single turn shows no spread (--repetitions). The
exit code is 0 whether or not they differ, and 2 if the reports have no figure in common.

Examples:
  xfskit bench raid --repetitions 5 --report before.json
  xfskit bench compare before.json after.json
  xfskit bench compare --html changes.html before.json after.json")]
pub(crate) struct Compare {
    /// Report of the first run
    #[arg(value_name = "A.json")]
    pub a: PathBuf,
    /// Report of the second run
    #[arg(value_name = "B.json")]
    pub b: PathBuf,
    /// Write the comparison to this file, a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Measure the cost of metadata checksums: fs_mark, dbench and compilebench without and with them
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
\"Without\" is version 5 of the format without computing checksums, which no other program can read:
volumes are made for the study and removed. \"With\" is the fastest routine of this processor, and the
portable one beside it. The kernel's column (--against kernel) has checksums on. dbench runs with
inodes of 512, 1024 and 2048 bytes in turn. With the kernel the original programs fs_mark and dbench
run on its XFS, too, beside those of xfskit; one that is not installed is named and skipped.

Examples:
  xfskit bench checksum --quick
  xfskit bench checksum --repetitions 9 --against kernel --dir /srv/scratch --html checksum.html
  xfskit bench checksum --only fs-mark --threads 8 --files 1000000
  xfskit bench checksum --only dbench -c /usr/share/dbench/client.txt --passes 1")]
pub(crate) struct Checksum {
    /// Run only this program; may be repeated
    #[arg(long, value_name = "PROGRAM")]
    pub only: Vec<Program>,
    /// fs_mark: files of each thread [50000; quick: 2000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub files: Option<u64>,
    /// dbench: number of times that each client runs its load [10; quick: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub passes: Option<u64>,
    /// dbench: loadfile, as for its option -c [default: a generated load]
    #[arg(long, short = 'c', value_name = "FILE")]
    #[serde(serialize_with = "as_text")]
    pub loadfile: Option<PathBuf>,
    /// compilebench: operations [100; quick: 12]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// compilebench: trees that are made first [10; quick: 3]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub trees: Option<u32>,
    /// compilebench: files in a tree [4000; quick: 200]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub tree_files: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// A benchmark program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    /// Small files: created, walked, removed
    FsMark,
    /// Clients of a file server
    Dbench,
    /// Source trees
    Compilebench,
}

/// Measure updating checksums in one pass, and its effect on a load of fsyncs
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
Compares one pass over a block with checksums of its parts, for every routine of this processor,
from 512 bytes to 64 KiB. Then measures threads that append and fsync, and the recovery of that
journal; then the recovery of a journal that is as full as it becomes, the same image for every
implementation. The largest journal takes some 10 GB of --dir, or of /dev/shm; with less room it
is a smaller one.

Examples:
  xfskit bench crc-update --quick
  xfskit bench crc-update --only fsync
  xfskit bench crc-update --appends 10000 --against kernel --dir /srv/scratch --repetitions 5")]
pub(crate) struct CrcUpdate {
    /// Measure only this part; may be repeated
    #[arg(long, value_name = "PART")]
    pub only: Vec<CrcPart>,
    /// Appends of each thread, an fsync after each [2000; quick: 200]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub appends: Option<u64>,
    /// Bytes of an append
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub bytes: usize,
    /// Size of the journal whose recovery is measured [2038M, the largest; quick: 64M]
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub journal: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// Parts of the study of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CrcPart {
    /// Blocks in one pass and split, with every routine
    Blocks,
    /// Threads that append and fsync
    Fsync,
    /// Recovery of a full journal
    Recovery,
}

/// Run all suites, one after the other, and write one report
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
Examples:
  xfskit bench all --quick --html report.html          under two minutes
  xfskit bench all --only raid --only locks --report two.json
  xfskit bench all --against kernel --repetitions 3 --html report.html")]
pub(crate) struct All {
    /// Run only this study; may be repeated
    #[arg(long, value_name = "STUDY")]
    pub only: Vec<StudyName>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// The studies by name, in the order of `bench all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StudyName {
    /// What checksums cost
    Checksum,
    /// The concurrent inode test
    Inodes,
    /// Kinds of locks
    Locks,
    /// Reads from degraded arrays
    Raid,
    /// Extended attributes and links
    Xattrs,
    /// Checksums in one pass
    CrcUpdate,
}

/// Measure many threads that create, find and remove files: the concurrent inode test
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
The steps are fs_mark on every thread, repair of the volume, which is not damaged (xfs_repair for
the kernel's), check (xfs_repair -n), bulkstat, find and stat, ls -R, rm -rf. Caches are dropped
before each. Without --size the disk has 500 TB, sparse, or the size of the largest file of --dir
(16 TB on ext4; an XFS, also one on a loop device, has files of 500 TB). A file takes some 600
bytes; a run for which there is no space is refused with the number that fits. The output of
fs_mark is printed too.

Examples:
  xfskit bench inodes --quick
  xfskit bench inodes --threads 100 --files 125000 --loops 4 --dir /srv/xfs   50 million files
  xfskit bench inodes --against kernel --repetitions 5 --html inodes.html
  xfskit bench inodes --only find --only remove
  xfskit bench inodes --threads 16 --files 50000 --loops 32 --size 500T
  xfskit bench inodes --shape shared --shape racing --file-size 1")]
pub(crate) struct Inodes {
    /// Measure only this step, and the creation that it needs; may be repeated
    #[arg(long, value_name = "STEP")]
    pub only: Vec<InodeStep>,
    /// Distribution of the files; may be repeated
    #[arg(long, value_name = "SHAPE", default_value = "separate")]
    pub shape: Vec<Shape>,
    /// Files of each thread in an iteration [25000; quick: 2000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub files: Option<u64>,
    /// Iterations [4; quick: 2]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Bytes of a file
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub file_size: u64,
    /// Number of subdirectories of each thread's directory
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub subdirs: usize,
    /// Number of allocation groups [default: at least two for each thread]
    #[arg(long, value_name = "NUMBER")]
    pub groups: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// Steps of the concurrent inode test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InodeStep {
    /// Files are created
    Create,
    /// The volume is repaired, though it is not damaged
    Repair,
    /// The volume is checked
    Check,
    /// All inodes are listed by number
    Bulkstat,
    /// All names are listed with their inodes
    Find,
    /// All names are listed
    List,
    /// Everything is removed
    Remove,
}

/// Distributions of files over directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// A directory for each thread
    Separate,
    /// One directory for all threads
    Shared,
    /// 32 directories below each other for each thread
    Deep,
    /// Two threads in each directory: one creates, the other removes
    Racing,
}

/// Measure many threads that create files, with every kind of lock; and model more processors
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
The locks are parking (used by xfskit), test-and-set, test-and-set with back-off, ticket, queued.
With more threads than processors, spinning locks wait for holders without a processor, as in a
virtual machine. The model extends the measured times of holding and handing over to more
processors. It is marked as a model, fitted to points with up to 16 threads, compared with those
held out, and refused if it is wrong there by more than 25 percent.

Examples:
  xfskit bench locks
  xfskit bench locks --at 1 --at 2 --at 16 --time 5 --repetitions 5 --html locks.html
  xfskit bench locks --only creates --repetitions 5
  xfskit bench locks --processors 120 --against kernel --dir /srv/scratch")]
pub(crate) struct Locks {
    /// Measure only this part; may be repeated
    #[arg(long, value_name = "PART")]
    pub only: Vec<LockPart>,
    /// Number of threads; may be repeated [default: 1, and 1, 2 and 8 times the processors]
    #[arg(long, value_name = "THREADS")]
    pub at: Vec<NonZeroUsize>,
    /// Seconds for each kind and number [1; quick: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub time: Option<Duration>,
    /// Number of processors of the model; may be repeated
    #[arg(long, value_name = "NUMBER", default_values = ["8", "16", "32", "64", "120", "256"])]
    pub processors: Vec<NonZeroUsize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// Parts of the study of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockPart {
    /// Threads that create files
    Creates,
    /// The model, with the creates that it is made from
    Model,
}

/// Measure sequential readers of an array that is complete, degraded, or being rebuilt
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
Members are in memory, with --dir files, with --speed simulated disks. Each reader reads a file
from start to end, then another; the files are ranges of the array, and then those of an XFS
volume on it. Then one parameter at a time is varied: the speed of members until processors are
the bound, the size of requests, the stripe cache, chunks, the number of readers, each on one
processor or not, and the limit of a rebuild. RAID6 is compared with RAID50 of the same members,
as two arrays and as four. A point takes --time, with slow members up to eight times that; a
rebuild is measured for that long or until it ends.

Examples:
  xfskit bench raid --quick
  xfskit bench raid --speed 100M --time 10 --html raid.html      disks of 100 MB/s
  xfskit bench raid --members 10 --chunk 128K --readers 1 --request 1M
  xfskit bench raid --only states --repetitions 5 --report states.json
  xfskit bench raid --level raid5 --members 5 --dir /srv/scratch --file-size 500M")]
pub(crate) struct Raid {
    /// Measure only this part; may be repeated
    #[arg(long, value_name = "PART")]
    pub only: Vec<RaidPart>,
    /// Number of members
    #[arg(long, value_name = "NUMBER", default_value_t = 24)]
    pub members: u32,
    /// Level: raid0, raid1, raid4, raid5, raid6, raid10; raid50 and raid60 are two arrays, striped
    #[arg(long, value_name = "LEVEL", default_value = "raid6")]
    pub level: String,
    /// Bytes of a chunk
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size, default_value = "512K")]
    pub chunk: u64,
    /// Number of readers [50; quick: 8]
    #[arg(long, value_name = "NUMBER")]
    pub readers: Option<NonZeroUsize>,
    /// Average size of a file; there is one for each reader [48M; quick: 24M]
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub file_size: Option<u64>,
    /// Bytes of a small request; a large one is a whole stripe
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size, default_value = "1M")]
    pub request: u64,
    /// Bytes of the stripe cache, except where it is varied
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size, default_value = "1G")]
    pub stripe_cache: u64,
    /// Simulated members: bytes per second of each
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub speed: Option<u64>,
    /// Simulated members: microseconds until the first byte of a read
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    pub latency: u64,
    /// Limit of the rebuild under load: bytes per second of a member; may be repeated [100M, 50M,
    /// 20M, 10M; quick: 20M]
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub rebuild_limit: Vec<u64>,
    /// Seconds for each point [2; quick: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub time: Option<Duration>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// Parts of the study of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RaidPart {
    /// Healthy, members missing, being rebuilt
    States,
    /// The same members as RAID50
    Raid50,
    /// By speed of a member, with the roof
    Speeds,
    /// By size of requests
    Sizes,
    /// By stripe cache
    Caches,
    /// By chunk
    Chunks,
    /// By number of readers, free and pinned
    Readers,
    /// A rebuild under load, by its limit
    Rebuild,
    /// Files of an XFS volume on the array
    Volume,
    /// Every parity routine
    Routines,
}

/// Measure space and cost of millions of extended attributes and links on one inode
#[derive(Debug, Args, Serialize)]
#[command(after_help = "\
Without CASE, runs all 36 published cases, and the parts on cost and links. With a CASE, runs that
alone, and parts for which numbers are given. The name of a case:
  n1000000-20-40-60      a million, values of 20, 40 and 60 bytes in turn
  …-d25                  after every 500, a quarter of these is removed again
  …-o25                  … or set again with the next size
  n1000000--s-50-60--N-400000   half of them removed, then 400,000 set in their place
  n1000000--s-50-60--D-400000   … or 400,000 more removed

Examples:
  xfskit bench xattrs
  xfskit bench xattrs n10000000-120-150-200-220-255-d25
  xfskit bench xattrs --only cost --count 2000000 --step 500000 --repetitions 3
  xfskit bench xattrs --only links --links 100000 --against kernel
  xfskit bench xattrs --only links --links 100000000 --dir /srv/scratch")]
pub(crate) struct Xattrs {
    /// Space cases
    #[arg(value_name = "CASE")]
    #[serde(serialize_with = "as_names")]
    pub cases: Vec<Case>,
    /// Run only this part; may be repeated
    #[arg(long, value_name = "PART")]
    pub only: Vec<XattrPart>,
    /// Cost: attributes of the largest run [10000000; quick: 50000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Cost: attributes of the smallest run, and step from run to run [1000000; quick: 10000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// Names of one inode [10000000; quick: 10000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub links: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub options: SuiteOptions,
}

/// Parts of the study of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum XattrPart {
    /// Fullness of leaves
    Space,
    /// Processor time over the count
    Cost,
    /// Parent pointers
    Links,
}

/// Options of every suite.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct SuiteOptions {
    /// Use smaller numbers, to run in seconds instead of minutes; numbers that are given count
    #[arg(long)]
    pub quick: bool,
    /// Measure these baselines too, with commas between them, in turn with xfskit
    #[arg(long, value_name = "BASELINE,…", value_delimiter = ',')]
    pub against: Vec<Against>,
    /// Make disks as sparse files in this directory [default: in memory]
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "as_text")]
    pub dir: Option<PathBuf>,
    /// Size of a disk [default: that of the study, or the largest file of --dir]
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub size: Option<u64>,
    /// Number of threads
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<NonZeroUsize>,
    /// Seed of names, values and choices
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Number of repetitions; median and spread are reported
    #[arg(long, value_name = "NUMBER")]
    pub repetitions: Option<NonZeroUsize>,
    /// Write the report to this file as data, for --resume and compare
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
    /// Continue the run that wrote this report: measure only what is missing in it
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub resume: Option<PathBuf>,
    /// Write the figures to this file, one on each line
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub csv: Option<PathBuf>,
    /// Write the report to this file, a page with plots
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub html: Option<PathBuf>,
}

/// Writes a time in seconds.
#[allow(clippy::ref_option)] // as serde calls it
fn as_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

/// Writes a path as text, also one that is not UTF-8.
#[allow(clippy::ref_option)] // as serde calls it
fn as_text<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

/// Writes cases by name.
fn as_names<S: Serializer>(cases: &[Case], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(cases.iter().map(ToString::to_string))
}

/// Parses a number of seconds above 0.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|n| Duration::try_from_secs_f64(n).ok());
    seconds.filter(|time| !time.is_zero()).ok_or_else(|| "not a number of seconds above 0".into())
}

/// The baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Against {
    /// The kernel's XFS, on a loop image of the same disk
    Kernel,
    /// xfskit as a mounted filesystem, used by system calls. Of checksum and raid it takes the
    /// parts originals and volume, of locks and crc-update none
    Mount,
}
