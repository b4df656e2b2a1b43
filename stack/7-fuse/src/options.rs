//! Options of a mount, as `-o` names them.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use xfskit_core::JournalOptions;
use xfskit_format::timestamp::Timestamp;
use xfskit_vfs::Stat;

use crate::idmap::{IdMap, IdMapError};

/// Seconds after which relatime updates an atime in any case.
const DAY: i64 = 24 * 60 * 60;
/// Microseconds of busy polling at most.
const BUSY_POLL_MAX: u64 = 10_000;

/// When a read updates the atime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// Never (`noatime`).
    Never,
    /// If it is older than the mtime, the ctime, or a day (`relatime`).
    #[default]
    Relative,
    /// At each open that reads (`strictatime`).
    Strict,
}

impl Atime {
    /// Returns true if a read at `now` updates the atime of this inode.
    pub(crate) fn is_due(self, stat: &Stat, now: Timestamp) -> bool {
        let key = |time: Timestamp| (time.sec, time.nsec);
        let atime = key(stat.atime);
        match self {
            Self::Never => false,
            Self::Strict => atime != key(now),
            Self::Relative => {
                atime <= key(stat.mtime)
                    || atime <= key(stat.ctime)
                    || now.sec.saturating_sub(stat.atime.sec) >= DAY
            }
        }
    }
}

/// Which changes are durable before their system call ends. The others are with the next commit, or
/// with fsync(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durable {
    /// None.
    #[default]
    Nothing,
    /// Those of names and attributes (`wsync`, `dirsync`).
    Names,
    /// All, writes to files too (`sync`).
    Everything,
}

/// Options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Nothing can be changed (`ro`).
    pub read_only: bool,
    /// The journal is not replayed (`norecovery`, only with `ro`).
    pub norecovery: bool,
    /// How the journal is written (`logbsize=`, `logbufs=`).
    pub journal: JournalOptions,
    /// Freed blocks are discarded (`discard`).
    pub discard: bool,
    /// When reads update atimes.
    pub atime: Atime,
    /// Changes of names and attributes are durable at once (`wsync`, `dirsync`).
    pub wsync: bool,
    /// All changes are durable at once (`sync`).
    pub sync: bool,
    /// Directories' atimes stay as they are (`nodiratime`).
    pub nodiratime: bool,
    /// Users other than the mounting one have access, by permissions (`allow_other`).
    pub allow_other: bool,
    /// Device files work (`dev`; for root only).
    pub dev: bool,
    /// Setuid programs work (`suid`; for root only).
    pub suid: bool,
    /// Programs cannot be run (`noexec`).
    pub noexec: bool,
    /// OPEN is refused, so that the kernel does not send it (`no_open`).
    pub no_open: bool,
    /// Requests come by io_uring, where the kernel offers it (`io_uring`).
    pub io_uring: bool,
    /// Source in the list of mounts (`fsname=`).
    pub fsname: Option<String>,
    /// Threads that serve requests (`threads=`).
    pub threads: Option<usize>,
    /// Time for which a thread looks for the next request before it sleeps (`busy_poll=`).
    pub busy_poll: Option<Duration>,
    /// Other owners are shown than those of the volume (`idmap=`).
    pub idmap: Option<IdMap>,
    /// Time after which a mount that is not in use is unmounted (`idle-timeout=`).
    pub idle_timeout: Option<Duration>,
}

/// An option that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("unknown mount option {0}")]
    Unknown(String),
    /// Its value is missing or not valid.
    #[error(
        "mount option {option}: {}; it takes {takes}, as in {example}",
        if *is_missing { "a value is missing" } else { "not a valid value" }
    )]
    Value {
        /// The option as it was given.
        option: String,
        /// There is no value.
        is_missing: bool,
        /// The values that it takes.
        takes: &'static str,
        /// The option with one of them.
        example: &'static str,
    },
    /// It has a value, and takes none.
    #[error("mount option {0}: it takes no value")]
    NoValue(String),
    /// XFS has it, and a mount by xfskit does not.
    #[error("mount option {0}: {1}")]
    Unsupported(String, &'static str),
    /// The map of owners is not valid.
    #[error("mount option idmap: {0}")]
    IdMap(#[from] IdMapError),
}

/// Options without a value that change what the mount does.
const FLAGS: &[&str] = &[
    "ro",
    "rw",
    "norecovery",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "sync",
    "async",
    "dirsync",
    "wsync",
    "discard",
    "nodiscard",
    "allow_other",
    "allow_dev",
    "allow_suid",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "noexec",
    "no_open",
    "io_uring",
    "no_io_uring",
];

/// Options of XFS and of mount(8) without a value that change nothing here: what they ask for is
/// so, or is a hint, or does not apply.
const IGNORED: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "loop",
    "silent",
    "loud",
    "mand",
    "nomand",
    // Times are in memory until the next commit in any case.
    "lazytime",
    "nolazytime",
    "iversion",
    "noiversion",
    "default_permissions",
    "inode64",
    "attr2",
    "noattr2",
    "nouuid",
    "noquota",
    "nogrpid",
    "sysvgroups",
    "ikeep",
    "noikeep",
    "largeio",
    "nolargeio",
    "noalign",
    "swalloc",
    "filestreams",
    "dax=inode",
    "dax=never",
];

/// Beginnings of options that change nothing here.
const IGNORED_PREFIXES: &[&str] = &["x-", "X-", "comment=", "user=", "subtype="];

/// Options of XFS and of mount(8) that a mount by xfskit does not have, and why.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &[
            "quota",
            "usrquota",
            "uquota",
            "grpquota",
            "gquota",
            "prjquota",
            "pquota",
            "qnoenforce",
            "uqnoenforce",
            "gqnoenforce",
            "pqnoenforce",
        ],
        "quotas are not supported",
    ),
    (&["remount"], "a mount keeps its options; unmount, and mount again"),
    (&["uid", "gid"], "files have owners of their own; `idmap=` shows others"),
    (
        &["grpid", "bsdgroups"],
        "new files have the group of their process; chmod g+s has a directory hand down its own",
    ),
    (&["inode32"], "inodes are made in all groups, and may have numbers of more than 32 bits"),
    (&["dax"], "content is cached in memory"),
    (&["rtdev"], "content on a realtime device is not supported"),
    (&["sunit", "swidth"], "the volume keeps the stripe that it was made with"),
    (
        &["context", "fscontext", "defcontext", "rootcontext"],
        "labels of SELinux are those in the volume",
    ),
];

/// An option with a value.
struct Valued {
    name: &'static str,
    takes: &'static str,
    example: &'static str,
}

const VALUED: &[Valued] = &[
    Valued { name: "logbsize", takes: "16k, 32k, 64k, 128k or 256k", example: "logbsize=64k" },
    Valued { name: "logbufs", takes: "a number from 2 to 8", example: "logbufs=8" },
    Valued {
        name: "allocsize",
        takes: "a multiple of the page size (4k), and none of 2g",
        example: "allocsize=64m",
    },
    Valued { name: "fsname", takes: "a name", example: "fsname=disk" },
    Valued { name: "threads", takes: "a number from 1 to 256", example: "threads=16" },
    Valued {
        name: "busy_poll",
        takes: "microseconds, from 0 (never) to 10000",
        example: "busy_poll=50",
    },
    Valued {
        name: "idmap",
        takes: "`user` or TYPE:VOLUME:SHOWN:COUNT",
        example: "idmap=b:0:1000:1",
    },
    Valued {
        name: "idle-timeout",
        takes: "a whole number of seconds, 1 or more",
        example: "idle-timeout=600",
    },
];

/// Largest `allocsize=`, in bytes.
const ALLOCSIZE_MAX: u64 = 1 << 30;

impl Options {
    /// Parses `list`, options with commas between them, and adds them to these. Of two that exclude
    /// each other, as of two values of one option, the last one holds, as with mount(8).
    ///
    /// # Errors
    /// An unknown option, or a value that is not valid.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        list.split(',').filter(|option| !option.is_empty()).try_for_each(|one| self.add_one(one))
    }

    /// Returns which changes are durable at once.
    pub fn durable(&self) -> Durable {
        match (self.sync, self.wsync) {
            (true, _) => Durable::Everything,
            (false, true) => Durable::Names,
            (false, false) => Durable::Nothing,
        }
    }

    fn add_one(&mut self, option: &str) -> Result<(), OptionError> {
        match option {
            "ro" => self.read_only = true,
            // mount(8) passes `rw` to its helpers unless told otherwise.
            "rw" => self.read_only = self.norecovery,
            "norecovery" => (self.norecovery, self.read_only) = (true, true),
            "noatime" => self.atime = Atime::Never,
            // The kernel's own rule, which these return to, is relatime.
            "atime" | "relatime" | "nostrictatime" => self.atime = Atime::Relative,
            // As in mount(8), where relatime is the kernel's rule without it too.
            "norelatime" => {}
            "strictatime" => self.atime = Atime::Strict,
            "diratime" => self.nodiratime = false,
            "nodiratime" => self.nodiratime = true,
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "dirsync" | "wsync" => self.wsync = true,
            "discard" => self.discard = true,
            "nodiscard" => self.discard = false,
            "allow_other" => self.allow_other = true,
            // mount(8) takes `dev` and `suid` for its defaults, and does not pass them on.
            "dev" | "allow_dev" => self.dev = true,
            "nodev" => self.dev = false,
            "suid" | "allow_suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "exec" => self.noexec = false,
            "noexec" => self.noexec = true,
            "no_open" => self.no_open = true,
            "io_uring" => self.io_uring = true,
            "no_io_uring" => self.io_uring = false,
            _ if IGNORED.contains(&option) => {}
            _ if IGNORED_PREFIXES.iter().any(|prefix| option.starts_with(prefix)) => {}
            _ => return self.add_value(option),
        }
        Ok(())
    }

    fn add_value(&mut self, option: &str) -> Result<(), OptionError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if let Some((_, why)) = UNSUPPORTED.iter().find(|(names, _)| names.contains(&name)) {
            return Err(OptionError::Unsupported(option.into(), why));
        }
        let Some(valued) = VALUED.iter().find(|valued| valued.name == name) else {
            let has_name = FLAGS.contains(&name) || IGNORED.contains(&name);
            let refusal = if has_name { OptionError::NoValue } else { OptionError::Unknown };
            return Err(refusal(option.into()));
        };
        let is_valid = !value.is_empty() && self.set(name, value)?;
        is_valid.then_some(()).ok_or_else(|| OptionError::Value {
            option: option.into(),
            is_missing: value.is_empty(),
            takes: valued.takes,
            example: valued.example,
        })
    }

    /// Sets the option `name` of [`VALUED`]. Returns false if `value` is not valid.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, OptionError> {
        fn within<T: FromStr + PartialOrd>(value: &str, range: RangeInclusive<T>) -> Option<T> {
            value.parse().ok().filter(|value| range.contains(value))
        }
        let is_valid = match name {
            "logbsize" | "logbufs" => self.journal.add(&format!("{name}={value}")).is_ok(),
            // A hint: how much is allocated ahead of a file's end is decided file by file.
            "allocsize" => is_allocsize(value),
            "fsname" => {
                self.fsname = Some(value.to_owned());
                true
            }
            "threads" => {
                let threads = within(value, 1..=256);
                self.threads = threads.or(self.threads);
                threads.is_some()
            }
            "busy_poll" => {
                let time = within(value, 0..=BUSY_POLL_MAX).map(Duration::from_micros);
                self.busy_poll = time.or(self.busy_poll);
                time.is_some()
            }
            "idle-timeout" => {
                let time = within(value, 1..=u64::MAX).map(Duration::from_secs);
                self.idle_timeout = time.or(self.idle_timeout);
                time.is_some()
            }
            _ => {
                self.idmap.get_or_insert_default().add(value)?;
                true
            }
        };
        Ok(is_valid)
    }
}

/// Returns true if XFS takes this size, in bytes or with a suffix. It uses the largest power of two
/// that divides it: 1m of `allocsize=3m` (Linux 6.18).
fn is_allocsize(value: &str) -> bool {
    let (number, shift) = match value.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&value[..value.len() - 1], 10),
        Some(b'm') => (&value[..value.len() - 1], 20),
        Some(b'g') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    let smallest = rustix::param::page_size() as u64;
    number.parse::<u32>().is_ok_and(|number| {
        let bytes = u64::from(number) << shift;
        let used = bytes & bytes.wrapping_neg();
        (smallest..=ALLOCSIZE_MAX).contains(&used)
    })
}

#[cfg(test)]
mod tests;
