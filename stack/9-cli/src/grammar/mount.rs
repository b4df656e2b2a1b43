//! The commands `mount` and `umount`, and those that change what is mounted.

use std::path::PathBuf;

use clap::Args;
use xfskit::JournalOptions;

use super::Cache;
use super::change;
use super::name::Name;

/// Mount a volume, so that every program can use it
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The mount is served by a process in the background (FUSE), by root or any user who has fusermount3.
Its options are those of mount(8) for XFS, and of FUSE:
  ro, norecovery             change nothing; with norecovery do not even replay the journal
  noatime, strictatime       never update times of access, or at each read that the kernel does not
                             reply to from its cache [default: relatime]
  nodiratime                 never update those of directories
  sync                       make every change durable at once, writes to files too [default: with
                             fsync(2), or some time later; a plain FUSE mount does not hear sync(2)]
  wsync, dirsync             make changes of names and attributes durable at once
  discard                    give freed blocks back to the device, once they are free for good
  logbsize=, logbufs=        how the journal is written: 16k, 32k, 64k, 128k or 256k; 2 to 8
  allow_other                give other users access, by permissions; root needs it for that too
  dev, suid, noexec          device files work, setuid works (by root), programs do not run
  allow_dev, allow_suid      the same as dev and suid, which mount(8) and fstab do not pass on
  no_open                    refuse OPEN, which saves a request for each open; atimes may be older,
                             and close fails where open does for files that are immutable
  io_uring, no_io_uring      receive requests by io_uring, or by /dev/fuse [default]; needs Linux
                             6.14 and `echo Y > /sys/module/fuse/parameters/enable_uring` before,
                             else the mount says so in its log and goes on by /dev/fuse
  threads=N                  number of threads that serve requests, up to 256
  busy_poll=MICROSECONDS     a thread looks for the next request so long before it sleeps, up to
                             10000; 0: never
  rw, relatime, diratime, async, nodiscard, nodev, nosuid, exec
                             undo those above: of two opposites the last one holds, as in mount(8)
  allocsize=                 a multiple of 4k: a hint that is taken and not followed
  lazytime, inode64, attr2, nouuid, ikeep, largeio, noalign, noquota, default_permissions, defaults,
  auto, noauto, user, users, owner, group, nofail, _netdev, comment=, x-…
                             taken as they are in fstab: it is so already, or means nothing here
  idmap=, idle-timeout=, subdir=, logdev=, cache=, overlay=, log=, force
                             as the options of the command line with these names, for fstab

Owners (--idmap) are mapped between the volume and the mount:
  user                       root of the volume is shown as you, and what has your id there as root;
                             files that you make are root's there; others are shown as they are
  TYPE:VOLUME:SHOWN:COUNT    COUNT ids from VOLUME on are shown as those from SHOWN on, as with
                             X-mount.idmap of mount(8); TYPE is u (users), g (groups), or b (both).
                             An owner outside of all ranges is shown as 65534, and its files cannot
                             be changed; making files as a user outside of them fails (EOVERFLOW).
Unmount with `xfskit umount DIR`, which waits until the volume is closed. umount(8) waits too where
`make install` has put its helper into /sbin; then `mount -t fuse.xfskit` and fstab work as well.

Examples:
  xfskit mount disk.img /mnt
  xfskit mount -o ro,noatime disk.img#p2 /mnt
  xfskit mount md:a.img,missing,c.img /mnt       an array without one of its members
  xfskit mount --overlay try.ovl /dev/sdb1 /mnt  all changes go to try.ovl
  xfskit mount --foreground disk.img ~/disk
  xfskit mount --idmap user disk.img ~/disk      an image with files of root, as an ordinary user
  xfskit mount --idmap b:0:100000:65536 -o allow_other disk.img /mnt
  xfskit mount --idle-timeout 60 disk.img ~/disk unmount what was not used for a minute or two
  xfskit umount /mnt")]
pub(crate) struct Mount {
    #[command(flatten)]
    pub name: Name,
    /// The directory to mount on
    pub dir: PathBuf,
    /// Options with commas between them; may be repeated
    #[arg(short = 'o', value_name = "OPTION,…")]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Present the tree below this directory of the volume
    #[arg(long, value_name = "PATH")]
    pub subdir: Option<PathBuf>,
    /// The device or file with the journal, for a volume with an external log
    #[arg(long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    #[command(flatten)]
    pub cache: Cache,
    /// Show other owners than those of the volume: `user`, or ranges as below; may be repeated
    #[arg(long, value_name = "MAP")]
    pub idmap: Vec<String>,
    /// Unmount when nothing has used the mount for SECS seconds, at most twice that time
    #[arg(long, value_name = "SECS")]
    pub idle_timeout: Option<String>,
    /// Append messages of the process to FILE [default: the system's log, or standard error with
    /// --foreground]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Ignore unknown options in -o
    #[arg(long, hide = true)]
    pub sloppy: bool,
    /// Do all but the mount
    #[arg(long, hide = true)]
    pub fake: bool,
    /// Leave the table of mount(8) alone
    #[arg(long, hide = true)]
    pub no_mtab: bool,
    /// Say what was mounted
    #[arg(long, hide = true)]
    pub verbose: bool,
    /// Tell the parent process on standard output when the mount is there, and detach from it
    #[arg(long, hide = true)]
    pub detach: bool,
}

/// Options in `-o` that say what is opened and how: what each takes, and an example.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("overlay", "a file", "changes.ovl"),
    ("logdev", "a device or file", "/dev/sdb1"),
    ("subdir", "a directory of the volume", "/srv"),
    ("cache", "a size", "512M"),
    ("log", "a file", "/var/log/disk.log"),
];

impl Mount {
    /// Sets the option that is named `name` on the command line too, if it says what is opened and
    /// how. Returns false for others.
    ///
    /// # Errors
    /// A value that is not valid, or an option that is given already.
    pub(crate) fn set_option(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let bad = |why: &dyn std::fmt::Display| format!("mount option {name}: {why}");
        let named = |name: xfskit::Result<Name>| name.map_err(|error| bad(&error));
        let once = |is_given: bool| {
            if is_given { Err(format!("{name} is given twice")) } else { Ok(()) }
        };
        if name == "force" && value.is_some() {
            return Err(bad(&"it takes no value"));
        }
        let value = value.unwrap_or_default();
        let opening = EXAMPLES.iter().find(|(option, ..)| *option == name);
        if let (Some((_, takes, example)), true) = (opening, value.is_empty()) {
            let why = format!("a value is missing; it takes {takes}, as in {name}={example}");
            return Err(bad(&why));
        }
        match name {
            "overlay" => self.name = named(self.name.clone().with_overlay(value))?,
            "force" => self.name = named(self.name.clone().with_force())?,
            "logdev" => {
                once(self.logdev.is_some())?;
                self.logdev = Some(value.to_owned());
            }
            "subdir" => {
                once(self.subdir.is_some())?;
                self.subdir = Some(value.into());
            }
            "log" => {
                once(self.log.is_some())?;
                self.log = Some(value.into());
            }
            "cache" => {
                once(self.cache.cache.is_some())?;
                self.cache.cache = Some(crate::show::parse_size(value).map_err(|why| bad(&why))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the volume, to be read.
    pub(crate) fn to_read(&self, norecovery: bool) -> super::Target {
        let (name, logdev) = (self.name.clone(), self.logdev.clone());
        super::Target { name, norecovery, logdev, cache: self.cache }
    }

    /// Returns the volume, to be changed.
    pub(crate) fn to_change(&self) -> change::Target {
        let (name, logdev) = (self.name.clone(), self.logdev.clone());
        let journal = JournalOptions::default();
        change::Target { name, logdev, journal, cache: self.cache, stats: false }
    }
}

/// Unmount a volume, and wait until it is closed
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit umount /mnt
  xfskit umount --lazy /mnt")]
pub(crate) struct Umount {
    /// The directory that it is mounted on
    pub dir: PathBuf,
    /// Take the mount out of the tree now, and unmount it when no process uses it any more
    #[arg(short, long)]
    pub lazy: bool,
    /// Let umount(8) unmount what xfskit has not mounted
    #[arg(long, hide = true)]
    pub helper: bool,
    /// Say what was unmounted
    #[arg(long, hide = true)]
    pub verbose: bool,
}

/// Freeze a mounted volume: changes wait until `xfskit thaw`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Everything that was written before is on the target, with a clean journal: a copy of the target is
a whole volume. Programs that change something wait for the thaw, others go on. What is written to
files meanwhile stays in the kernel's memory as long as there is room; close(2), fsync(2) and
sync(2) wait for it. A directory in which a change waits cannot be listed. If files are open that
have no name any more, the journal stays dirty, and frees them when the copy is opened. An unmount
thaws.

Examples:
  xfskit freeze /mnt
  xfskit freeze /mnt && cp disk.img backup.img; xfskit thaw /mnt")]
pub(crate) struct Freeze {
    /// The directory that it is mounted on, or anything below
    pub dir: PathBuf,
}

/// Let a frozen volume be changed again
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit thaw /mnt")]
pub(crate) struct Thaw {
    /// The directory that it is mounted on, or anything below
    pub dir: PathBuf,
}

/// Make a file on a mount that shares the blocks of another one
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
DEST is created, or its content is replaced. Both files are on one mount by xfskit, of a volume with
reflink. A file that is written gets blocks of its own for what is written. On a volume that is not
mounted, `xfskit cp` shares blocks too.

Examples:
  xfskit clone /mnt/disk.qcow2 /mnt/copy.qcow2
  xfskit extents /mnt/copy.qcow2               flag 100000: the blocks are shared")]
pub(crate) struct CloneFile {
    /// The file whose blocks are shared
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The file that shares them
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
}
