//! The commands `mount` and `umount`.

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
  noatime, strictatime       never update times of access, or at each read [default: relatime]
  sync, wsync                make every change durable at once [default: within 5 seconds, or with
                             fsync(2); a plain FUSE mount does not hear sync(2)]
  allow_other                give other users access, by permissions; root needs it for that too
  dev, suid, noexec          device files work, setuid works, programs do not run
  no_open                    refuse OPEN, which saves a request for each open; atimes may be older
  threads=N                  number of threads that serve requests
  busy_poll=MICROSECONDS     a thread looks for the next request so long before it sleeps; 0: never
Unmount with `xfskit umount DIR`, which waits until the volume is closed; umount(8) does not wait.

Examples:
  xfskit mount disk.img /mnt
  xfskit mount -o ro,noatime disk.img#p2 /mnt
  xfskit mount md:a.img,missing,c.img /mnt       an array without one of its members
  xfskit mount --overlay try.ovl /dev/sdb1 /mnt  all changes go to try.ovl
  xfskit mount --foreground disk.img ~/disk
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
    /// Tell the parent process on standard output when the mount is there, and detach from it
    #[arg(long, hide = true)]
    pub detach: bool,
}

impl Mount {
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
}
