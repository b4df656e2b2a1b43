//! Options of a mount, as `-o` names them.

use std::collections::BTreeSet;
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
    /// Which changes are durable at once (`sync`, `wsync`).
    pub durable: Durable,
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
    /// Its value is not valid.
    #[error("mount option {0}: not a valid value")]
    Value(String),
    /// XFS has it, and a mount by xfskit does not.
    #[error("mount option {0}: {1}")]
    Unsupported(String, &'static str),
    /// The map of owners is not valid.
    #[error("mount option idmap: {0}")]
    IdMap(#[from] IdMapError),
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
    "default_permissions",
    "noquota",
    "loop",
    "nolazytime",
    "noattr2",
    "owner",
    "group",
    "nomand",
    "norelatime",
    "nostrictatime",
    "silent",
    "loud",
];

/// Beginnings of options that change nothing here.
const IGNORED_PREFIXES: &[&str] = &["x-", "X-", "comment=", "user=", "allocsize=", "subtype="];

impl Options {
    /// Parses `list`, options with commas between them, and adds them to these.
    ///
    /// # Errors
    /// An unknown option, or a value that is not valid.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        list.split(',').filter(|option| !option.is_empty()).try_for_each(|one| self.add_one(one))
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
            "sync" => self.durable = Durable::Everything,
            "dirsync" | "wsync" => self.durable = self.durable.max(Durable::Names),
            "diratime" => self.nodiratime = false,
            "nodiratime" => self.nodiratime = true,
            "discard" => self.discard = true,
            "nodiscard" => self.discard = false,
            "allow_other" => self.allow_other = true,
            "dev" => self.dev = true,
            "suid" => self.suid = true,
            "noexec" => self.noexec = true,
            "no_open" => self.no_open = true,
            "io_uring" => self.io_uring = true,
            "no_io_uring" => self.io_uring = false,
            "quota" | "usrquota" | "uquota" | "grpquota" | "gquota" | "prjquota" | "pquota"
            | "uqnoenforce" | "gqnoenforce" | "pqnoenforce" => {
                return Err(OptionError::Unsupported(option.into(), quota));
            }
            "remount" => {
                let why = "a mount keeps its options; unmount, and mount again";
                return Err(OptionError::Unsupported(option.into(), why));
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
            "logbsize" | "logbufs" => {
                self.journal.add(option).map_err(|_| OptionError::Value(option.to_owned()))?;
            }
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
            "idmap" => self.idmap.get_or_insert_default().add(value)?,
            "idle-timeout" => {
                let seconds = value.parse().ok().filter(|&seconds| seconds > 0);
                let seconds = seconds.ok_or_else(|| OptionError::Value(option.to_owned()))?;
                self.idle_timeout = Some(Duration::from_secs(seconds));
            }
            "uid" | "gid" => {
                let why = "files have owners of their own; `idmap=` shows others";
                return Err(OptionError::Unsupported(option.into(), why));
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
            "diratime",
            "nodiratime",
            "lazytime",
            "sync",
            "wsync",
            "discard",
            "nodiscard",
            "logbsize=",
            "logbufs=",
            "allow_other",
            "dev",
            "suid",
            "noexec",
            "no_open",
            "io_uring",
            "no_io_uring",
            "fsname=",
            "threads=",
            "busy_poll=",
            "idmap=",
            "idle-timeout=",
        ];
        own.into_iter().chain(IGNORED.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &str) -> String {
        Options::default().add(list).unwrap_err().to_string()
    }

    #[test]
    fn a_map_of_owners_has_the_ranges_of_all_its_options() {
        let mut options = Options::default();
        options.add("idmap=u:0:1000:1,noatime,idmap=g:0:1000:1 g:5:6:7").unwrap();
        let whole = "b:0:1000:1 g:5:6:7".parse().unwrap();
        assert_eq!(options.idmap, Some(whole));
        assert!(options.add("idmap=g:4:99:2").is_err());
    }

    #[test]
    fn owners_of_the_whole_mount_are_refused_with_the_option_that_maps_them() {
        for option in ["uid=1000", "gid=0"] {
            let said = refused(option);
            assert!(said.contains(option) && said.contains("idmap="), "{said}");
        }
    }

    #[test]
    fn sync_is_more_than_wsync_in_each_order() {
        for (list, durable) in [
            ("noatime", Durable::Nothing),
            ("dirsync", Durable::Names),
            ("wsync,sync", Durable::Everything),
            ("sync,wsync", Durable::Everything),
        ] {
            let mut options = Options::default();
            options.add(list).unwrap();
            assert_eq!(options.durable, durable, "{list}");
        }
    }

    #[test]
    fn how_the_journal_is_written_is_said_as_to_mount() {
        let mut options = Options::default();
        options.add("logbsize=64k,discard,logbufs=4").unwrap();
        assert!(options.discard);
        assert_eq!((options.journal.logbsize, options.journal.logbufs), (65536, 4));
        assert!(refused("logbsize=5").contains("logbsize=5: not a valid value"));
    }

    #[test]
    fn a_time_is_a_positive_number_of_seconds() {
        let mut options = Options::default();
        options.add("x-systemd.idle-timeout=3,idle-timeout=60").unwrap();
        assert_eq!(options.idle_timeout, Some(Duration::from_secs(60)));
        for value in ["", "0", "-1", "1.5", "1h"] {
            assert!(refused(&format!("idle-timeout={value}")).contains("not a valid value"));
        }
    }
}
