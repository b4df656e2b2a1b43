//! Commands that change a volume in place.
//!
//! Each opens the volume once, makes its changes, and closes it, so that they are durable and the
//! journal is clean. A name that cannot be changed is reported, and the others are changed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use xfskit::{JournalOptions, NewUuid};

use super::arguments::{self, Owner, OwnerChange};
use super::mode::ModeChange;
use super::name::Name;

/// The volume to change; shared by every command that writes to one.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub name: Name,
    /// The device or file with the journal, for a volume with an external log
    #[arg(long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    /// Options of the journal, as in mount(8): logbsize=16k…256k, logbufs=2…8, wsync (every
    /// change is durable at once), nobarrier (never flush: a power failure may damage the volume)
    #[arg(
        long = "options",
        value_name = "OPTION,…",
        default_value = "",
        hide_default_value = true
    )]
    pub journal: JournalOptions,
    #[command(flatten)]
    pub cache: super::Cache,
    /// Print counters at the end: transactions, journal, write-back, buffers, locks
    #[arg(long)]
    pub stats: bool,
}

impl Target {
    /// Returns the name of the device with the journal.
    pub(crate) fn log(&self) -> Option<String> {
        self.logdev.as_deref().map(|device| self.name.beside(device))
    }

    /// Returns the volume `target`, for writing, with the usual options of the journal.
    pub(crate) fn of(target: &super::Target) -> Self {
        let (name, logdev) = (target.name.clone(), target.logdev.clone());
        let (journal, cache) = (JournalOptions::default(), target.cache);
        Self { name, logdev, journal, cache, stats: false }
    }

    /// Returns the same volume, for reading.
    pub(crate) fn to_read(&self) -> super::Target {
        let (name, logdev) = (self.name.clone(), self.logdev.clone());
        super::Target { name, norecovery: false, logdev, cache: self.cache }
    }
}

/// Make directories
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit mkdir disk.img /srv
  xfskit mkdir -p disk.img /srv/www/html /var/log/app
  xfskit mkdir -m 1777 --owner 1000:1000 disk.img /srv/tmp")]
pub(crate) struct Mkdir {
    #[command(flatten)]
    pub target: Target,
    /// The directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Make missing parent directories too; an existing directory is not an error
    #[arg(short, long)]
    pub parents: bool,
    /// Permissions: 0700, u=rwx,go=rx [default: 0755, or those of the parent's default ACL, which
    /// also limits MODE]
    #[arg(short, long, value_name = "MODE")]
    pub mode: Option<ModeChange>,
    /// Owner of the new directories
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Remove files and directories
#[derive(Debug, Args)]
#[command(after_help = "\
Removed files cannot be restored. A name that cannot be removed is reported, and the others are
removed.

Examples:
  xfskit rm disk.img /etc/motd
  xfskit rm -r disk.img /var/cache /tmp/build
  xfskit rm -f disk.img /etc/not-there")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Rm {
    #[command(flatten)]
    pub target: Target,
    /// The files and directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Remove directories with all their contents
    #[arg(short, long)]
    pub recursive: bool,
    /// Ignore names that do not exist
    #[arg(short, long)]
    pub force: bool,
}

/// Rename files, or move them into a directory
#[derive(Debug, Args)]
#[command(after_help = "\
If TO is a directory, FROM is moved into it. Otherwise FROM is renamed to TO, and an existing TO is
replaced.

Examples:
  xfskit mv disk.img /etc/motd /etc/motd.old
  xfskit mv disk.img /a /b /c /srv                   three names into a directory
  xfskit mv --no-replace disk.img /new.conf /etc/app.conf
  xfskit mv --exchange disk.img /boot/a /boot/b      exchange the two, in one step")]
pub(crate) struct Mv {
    #[command(flatten)]
    pub target: Target,
    /// The files to move, and last their new name or directory
    #[arg(value_names = ["FROM…", "TO"], required = true, num_args = 2..)]
    pub paths: Vec<OsString>,
    /// Exchange the two names; both must exist
    #[arg(long)]
    pub exchange: bool,
    /// Fail if the new name exists
    #[arg(long, conflicts_with = "exchange")]
    pub no_replace: bool,
}

/// Make a hard link or a symbolic link
#[derive(Debug, Args)]
#[command(after_help = "\
If NEW is a directory, the link is made in it, with the last name of OLD.

Examples:
  xfskit ln disk.img /bin/busybox /bin/sh            a second name of the same file
  xfskit ln -s disk.img ../usr/share/zoneinfo/UTC /etc/localtime")]
pub(crate) struct Ln {
    #[command(flatten)]
    pub target: Target,
    /// The existing file; with -s any text
    #[arg(value_name = "OLD")]
    pub old: OsString,
    /// The new name
    #[arg(value_name = "NEW")]
    pub new: OsString,
    /// Make a symbolic link to OLD
    #[arg(short, long)]
    pub symbolic: bool,
    /// Owner of a symbolic link
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Types of `mknod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeKind {
    /// Block device
    #[value(name = "b")]
    Block,
    /// Character device
    #[value(name = "c", alias = "u")]
    Character,
    /// Named pipe
    #[value(name = "p")]
    Pipe,
    /// Socket
    #[value(name = "s")]
    Socket,
}

/// Make a device, a named pipe or a socket
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit mknod disk.img /dev/null c 1 3
  xfskit mknod -m 0600 disk.img /dev/sda b 8 0
  xfskit mknod disk.img /run/pipe p")]
pub(crate) struct Mknod {
    #[command(flatten)]
    pub target: Target,
    /// The name
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// The type
    #[arg(value_name = "TYPE")]
    pub kind: NodeKind,
    /// Major number of a device
    #[arg(value_name = "MAJOR", requires = "minor")]
    pub major: Option<u32>,
    /// Minor number of a device
    #[arg(value_name = "MINOR")]
    pub minor: Option<u32>,
    /// Permissions [default: 0644, or those of the directory's default ACL]
    #[arg(short, long, value_name = "MODE")]
    pub mode: Option<ModeChange>,
    /// Owner
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Change permissions
#[derive(Debug, Args)]
#[command(after_help = "\
MODE is octal, or symbolic as in chmod: [ugoa][+-=][rwxXst], joined by commas. A symbolic link is
followed; those found by -R are not changed.

Examples:
  xfskit chmod disk.img 0644 /etc/passwd
  xfskit chmod disk.img u+s,go-w /usr/bin/sudo
  xfskit chmod -R disk.img a+rX /srv")]
pub(crate) struct Chmod {
    #[command(flatten)]
    pub target: Target,
    /// The new permissions
    #[arg(value_name = "MODE")]
    pub mode: ModeChange,
    /// The files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Change everything below directories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// Change owner and group
#[derive(Debug, Args)]
#[command(after_help = "\
Owners are numbers, because names belong to the system that uses the volume. As on Linux, a file
with a new owner loses setuid, setgid and its capabilities.

Examples:
  xfskit chown disk.img 1000:1000 /home/jane
  xfskit chown -R disk.img 0:0 /srv
  xfskit chown disk.img :100 /srv/shared             only the group")]
#[command(disable_help_flag = true)]
pub(crate) struct Chown {
    #[command(flatten)]
    pub target: Target,
    /// The new owner, group, or both
    #[arg(value_name = "[UID][:GID]")]
    pub owner: OwnerChange,
    /// The files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Change everything below directories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Change a symbolic link itself, not its target (always so below directories)
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Set times, and make missing files
#[derive(Debug, Args)]
#[command(after_help = "\
TIME is a date, a date and time (in the local zone, or with a zone: Z, +02:00), or @SECONDS since
1970, to the nanosecond.

Examples:
  xfskit touch disk.img /etc/.pwd.lock
  xfskit touch -d 2024-02-29T12:00:00Z disk.img /etc/passwd
  xfskit touch -c -m -d @1700000000.5 disk.img /a /b")]
pub(crate) struct Touch {
    #[command(flatten)]
    pub target: Target,
    /// The files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Set this time [default: now]
    #[arg(short, long, value_name = "TIME", value_parser = arguments::time)]
    pub date: Option<std::time::SystemTime>,
    /// Set only the access time
    #[arg(short)]
    pub access: bool,
    /// Set only the modification time
    #[arg(short)]
    pub modification: bool,
    /// Do not make missing files
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Owner of new files
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Copy files and trees into a volume
///
/// Copies modes, owners, times to the nanosecond, extended attributes, ACLs, hard links, holes,
/// symbolic links and devices. Existing directories are filled. An existing file is replaced when
/// the new one is complete.
#[derive(Debug, Args)]
#[command(after_help = "\
If DEST is a directory, SOURCE is copied into it under its own name. Otherwise the copy is named
DEST. `DIR/.` copies the contents of DIR, without its name. `-` copies standard input to the file
DEST. With --tar each SOURCE is an archive (plain, gzip, zstd, xz; `-` is standard input),
unpacked into the directory DEST.

Examples:
  xfskit put disk.img ./passwd /etc/passwd           one file
  xfskit put disk.img ./html /srv                    a tree, as /srv/html
  xfskit put disk.img rootfs/. /                     the contents of a directory
  date | xfskit put disk.img - /etc/built
  xfskit put --tar disk.img app.tar.zst /opt
  xfskit put --owner 0:0 disk.img ./html /srv        with root as owner of everything
  xfskit put --verify md:a.img,b.img,c.img,d.img ./html /srv   on an array with a member in doubt")]
pub(crate) struct Put {
    #[command(flatten)]
    pub target: Target,
    /// Files, directories or archives, and last their destination
    #[arg(value_names = ["SOURCE…", "DEST"], required = true, num_args = 2..)]
    pub paths: Vec<PathBuf>,
    /// The sources are tar archives
    #[arg(long)]
    pub tar: bool,
    /// Apply the whiteouts of OCI layers within the sources
    #[arg(long)]
    pub whiteouts: bool,
    /// Stop at a file that cannot be read in full, such as one with more attributes than Linux
    /// lists; without this the others are copied, and the exit code is 1
    #[arg(long)]
    pub strict: bool,
    /// Memory for names and attributes of archives [default: depends on the archives' size]
    #[arg(long, value_name = "SIZE", requires = "tar", value_parser = crate::show::parse_size)]
    pub limit: Option<u64>,
    /// Compare what is read from an array with its parity or other copies; correct or name what
    /// disagrees
    #[arg(long)]
    pub verify: bool,
    /// Set the owner and group of everything
    #[arg(long, value_name = "UID:GID", conflicts_with = "owner_map")]
    pub owner: Option<Owner>,
    /// Set owners by rules: `uid FROM TO`, `gid FROM TO`, `path PATTERN UID GID`, one a line; paths
    /// are those in the volume
    #[arg(long, value_name = "FILE")]
    pub owner_map: Option<PathBuf>,
    /// Set SELinux labels by path in the volume, from a policy's file_contexts
    #[arg(long, value_name = "FILE")]
    pub selinux_contexts: Option<PathBuf>,
}

/// Copy files and trees within a volume
#[derive(Debug, Args)]
#[command(after_help = "\
If TO is a directory, FROM is copied into it under its own name. Modes, owners, times, extended
attributes, hard links and holes are copied too; symbolic links are copied as links.

Examples:
  xfskit cp disk.img /etc/app.conf /etc/app.conf.bak
  xfskit cp -r disk.img /srv/html /srv/html.old
  xfskit cp --reflink disk.img /var/vm.raw /var/vm-2.raw   shares the blocks until one is written")]
pub(crate) struct Cp {
    #[command(flatten)]
    pub target: Target,
    /// The file or directory
    #[arg(value_name = "FROM")]
    pub from: OsString,
    /// The name of the copy, or its directory
    #[arg(value_name = "TO")]
    pub to: OsString,
    /// Copy directories with all their contents
    #[arg(short, long)]
    pub recursive: bool,
    /// Share the blocks instead of copying them
    #[arg(long)]
    pub reflink: bool,
}

/// Set the size of files
#[derive(Debug, Args)]
#[command(after_help = "\
Data behind the new end are removed. A larger file reads as zeroes there, and takes no more space.

Examples:
  xfskit truncate -s 0 disk.img /var/log/messages
  xfskit truncate -s 10G disk.img /var/vm.raw")]
pub(crate) struct Truncate {
    #[command(flatten)]
    pub target: Target,
    /// The files; missing ones are made
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// The new size, in bytes
    #[arg(short, long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub size: u64,
    /// Do not make missing files
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Owner of new files
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Allocate blocks for a range of a file, or free them
#[derive(Debug, Args)]
#[command(after_help = "\
Without further options, allocates blocks that read as zeroes. A missing file is made, also with
--zero-range. Ranges of --collapse-range and --insert-range must be whole filesystem blocks.

Examples:
  xfskit fallocate -l 1G disk.img /var/db/journal
  xfskit fallocate --punch-hole -o 4k -l 64k disk.img /var/vm.raw
  xfskit fallocate --collapse-range -o 0 -l 1M disk.img /var/log/ring")]
pub(crate) struct Fallocate {
    #[command(flatten)]
    pub target: Target,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// First byte of the range
    #[arg(short, long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
    pub offset: u64,
    /// Length of the range, in bytes
    #[arg(short, long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub length: u64,
    /// Do not extend the file if the range is beyond its end
    #[arg(short = 'n', long)]
    pub keep_size: bool,
    /// Make a hole: free the blocks of the range
    #[arg(short, long, group = "what")]
    pub punch_hole: bool,
    /// Make the range read as zeroes, with blocks allocated
    #[arg(short, long, group = "what")]
    pub zero_range: bool,
    /// Remove the range: the data behind it move forward
    #[arg(short, long, group = "what")]
    pub collapse_range: bool,
    /// Insert a hole: the data from OFFSET on move back
    #[arg(short, long, group = "what")]
    pub insert_range: bool,
    /// Owner of a new file
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Show or set the label of a volume
#[derive(Debug, Args)]
#[command(after_help = "\
A label has at most 12 bytes; '' removes it.

Examples:
  xfskit label disk.img
  xfskit label disk.img root")]
pub(crate) struct Label {
    #[command(flatten)]
    pub target: Target,
    /// The new label
    #[arg(value_name = "LABEL")]
    pub label: Option<OsString>,
}

/// Show or set the UUID of a volume
#[derive(Debug, Args)]
#[command(after_help = "\
UUID is in the usual form, or one of these words:
  generate   a new one, which is printed
  nil        none: Linux mounts such a volume only with -o nouuid
  restore    the one that the volume was made with

All metadata blocks have the UUID that the volume was made with, and keep it: the volume gets the
feature meta_uuid (Linux 4.3, GRUB 2.02) until that UUID is restored. /etc/fstab may have the old
one.

Examples:
  xfskit uuid disk.img
  xfskit uuid copy.img generate          now both can be mounted at once
  xfskit uuid disk.img 8f1c2c6e-54c5-4a0c-a1b5-1ea8b2ba6fd9
  xfskit uuid copy.img restore")]
pub(crate) struct Uuid {
    #[command(flatten)]
    pub target: Target,
    /// The new UUID
    #[arg(value_name = "UUID|generate|nil|restore", value_parser = arguments::uuid)]
    pub uuid: Option<NewUuid>,
}

/// Run many commands on one open volume, from standard input or a file
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a command of xfskit without TARGET: `mkdir -p /srv`, `ls -l /`, `put ./html /srv`.
Words are split at blanks; quotes and backslashes keep blanks. `#` begins a comment. `sync` makes
all changes so far durable, `quit` ends the shell, `help` lists the commands. A command that fails
does not end the shell, but the exit code is then 1.

Examples:
  xfskit shell disk.img
  xfskit shell disk.img < changes.txt
  xfskit shell --strict --file changes.txt disk.img      end at the first failure")]
pub(crate) struct Shell {
    #[command(flatten)]
    pub target: Target,
    /// Read commands from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// End at the first failure
    #[arg(long)]
    pub strict: bool,
}
