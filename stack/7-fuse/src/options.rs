//! Options of a mount, as `-o` names them.

use std::collections::BTreeSet;
use std::time::Duration;

use xfskit_format::timestamp::Timestamp;
use xfskit_vfs::Stat;

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
            Self::Strict => atime < key(now),
            Self::Relative => {
                atime <= key(stat.mtime)
                    || atime <= key(stat.ctime)
                    || now.sec.saturating_sub(stat.atime.sec) >= DAY
            }
        }
    }
}

/// Options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Nothing can be changed (`ro`).
    pub read_only: bool,
    /// The journal is not replayed (`norecovery`, only with `ro`).
    pub norecovery: bool,
    /// When reads update atimes.
    pub atime: Atime,
    /// Every change is durable before its operation ends (`sync`).
    pub sync: bool,
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
    /// Source in the list of mounts (`fsname=`).
    pub fsname: Option<String>,
    /// Threads that serve requests (`threads=`).
    pub threads: Option<usize>,
    /// Time for which a thread looks for the next request before it sleeps (`busy_poll=`).
    pub busy_poll: Option<Duration>,
}

/// An option that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("unknown mount option {0}")]
    Unknown(String),
    /// Its value is not valid.
    #[error("mount option {0}: not a valid value")]
    Value(String),
    /// XFS has it, and a mount by xfskit does not.
    #[error("mount option {0}: {1}")]
    Unsupported(String, &'static str),
}

/// Options of XFS and of mount(8) that change nothing here: what they ask for is so, or does not
/// apply.
const IGNORED: &[&str] = &[
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nofail",
    "_netdev",
    "nouser",
    "async",
    "exec",
    "nodev",
    "nosuid",
    "inode64",
    "attr2",
    "nouuid",
    "nodiratime",
    "default_permissions",
    "nodiscard",
    "noquota",
    "loop",
    "diratime",
    "nolazytime",
    "noattr2",
    "owner",
    "group",
];

/// Beginnings of options that change nothing here.
const IGNORED_PREFIXES: &[&str] =
    &["x-", "X-", "comment=", "logbufs=", "logbsize=", "allocsize=", "subtype=", "uid=", "gid="];

impl Options {
    /// Parses `list`, options with commas between them, and adds them to these.
    ///
    /// # Errors
    /// An unknown option, or a value that is not valid.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            self.add_one(option)?;
        }
        Ok(())
    }

    fn add_one(&mut self, option: &str) -> Result<(), OptionError> {
        let quota = "quotas are not supported";
        match option {
            "ro" => self.read_only = true,
            "norecovery" => (self.norecovery, self.read_only) = (true, true),
            "noatime" => self.atime = Atime::Never,
            "relatime" => self.atime = Atime::Relative,
            "strictatime" | "atime" => self.atime = Atime::Strict,
            // Times are in memory until the next commit in any case.
            "lazytime" => {}
            "sync" | "dirsync" | "wsync" => self.sync = true,
            "discard" => {
                return Err(OptionError::Unsupported(option.into(), "blocks are not discarded"));
            }
            "allow_other" => self.allow_other = true,
            "dev" => self.dev = true,
            "suid" => self.suid = true,
            "noexec" => self.noexec = true,
            "no_open" => self.no_open = true,
            "quota" | "usrquota" | "uquota" | "grpquota" | "gquota" | "prjquota" | "pquota"
            | "uqnoenforce" | "gqnoenforce" | "pqnoenforce" => {
                return Err(OptionError::Unsupported(option.into(), quota));
            }
            _ if IGNORED.contains(&option) => {}
            _ if IGNORED_PREFIXES.iter().any(|prefix| option.starts_with(prefix)) => {}
            _ => return self.add_value(option),
        }
        Ok(())
    }

    fn add_value(&mut self, option: &str) -> Result<(), OptionError> {
        let unknown = || OptionError::Unknown(option.to_owned());
        let (name, value) = option.split_once('=').ok_or_else(unknown)?;
        match name {
            "fsname" => self.fsname = Some(value.to_owned()),
            "threads" => {
                let threads = value.parse().ok().filter(|threads| (1..=256).contains(threads));
                self.threads = Some(threads.ok_or_else(|| OptionError::Value(option.to_owned()))?);
            }
            "busy_poll" => {
                let micros = value.parse().ok().filter(|micros| *micros <= BUSY_POLL_MAX);
                let micros = micros.ok_or_else(|| OptionError::Value(option.to_owned()))?;
                self.busy_poll = Some(Duration::from_micros(micros));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Returns the names of all options, for help and completion.
    pub fn names() -> BTreeSet<&'static str> {
        let own = [
            "ro",
            "norecovery",
            "noatime",
            "relatime",
            "strictatime",
            "lazytime",
            "sync",
            "wsync",
            "allow_other",
            "dev",
            "suid",
            "noexec",
            "no_open",
            "fsname=",
            "threads=",
            "busy_poll=",
        ];
        own.into_iter().chain(IGNORED.iter().copied()).collect()
    }
}
