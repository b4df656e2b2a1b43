//! Commands that change a volume in place.
//!
//! Each opens the volume once, does what it is asked, and closes it: what it did is durable and the
//! journal clean. A name that cannot be changed is reported, and the others are done.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use xfskit::core::JournalOptions;
use xfskit::core::uuid::NewUuid;

use super::name::Name;
use crate::command::change::mode::ModeChange;
use crate::command::change::words::{self, Owner, OwnerChange};

/// The volume to change; shared by every command that writes to one.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub name: Name,
    /// The device or file with the journal, for a volume with an external log
    #[arg(long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    /// How the journal is written, as mount(8) has it: logbsize=16k…256k, logbufs=2…8, wsync (every
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
    /// Say at the end what was done: transactions, journal, write-back, buffers, locks
    #[arg(long)]
    pub stats: bool,
}

impl Target {
    /// The name of the device with the journal.
    pub(crate) fn log(&self) -> Option<String> {
        self.logdev.as_deref().map(|device| self.name.beside(device))
    }

    /// The same volume, to be read only.
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
    /// Missing directories on the way too; what is there already is no error
    #[arg(short, long)]
    pub parents: bool,
    /// Permissions: 0700, u=rwx,go=rx. Unless said, 0755 or what the parent's default ACL gives;
    /// where there is one it also limits what is said
    #[arg(short, long, value_name = "MODE")]
    pub mode: Option<ModeChange>,
    /// Owner of what is made
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Remove files and directories
#[derive(Debug, Args)]
#[command(after_help = "\
What was removed is gone. A name that cannot be removed is reported, the others go.

Examples:
  xfskit rm disk.img /etc/motd
  xfskit rm -r disk.img /var/cache /tmp/build
  xfskit rm -f disk.img /etc/not-there")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Rm {
    #[command(flatten)]
    pub target: Target,
    /// What goes
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Directories with all that is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Names that are not there are no error
    #[arg(short, long)]
    pub force: bool,
}

/// Rename files, or move them into a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Where TO is a directory, FROM goes into it; else FROM gets this name, and what had it is replaced.

Examples:
  xfskit mv disk.img /etc/motd /etc/motd.old
  xfskit mv disk.img /a /b /c /srv                   three names into a directory
  xfskit mv --no-replace disk.img /new.conf /etc/app.conf
  xfskit mv --exchange disk.img /boot/a /boot/b      the two change places, in one step")]
pub(crate) struct Mv {
    #[command(flatten)]
    pub target: Target,
    /// What is moved, and at the end where to
    #[arg(value_names = ["FROM…", "TO"], required = true, num_args = 2..)]
    pub paths: Vec<OsString>,
    /// The two names change places; both must be there
    #[arg(long)]
    pub exchange: bool,
    /// A name that is there already is an error
    #[arg(long, conflicts_with = "exchange")]
    pub no_replace: bool,
}

/// Give a file another name, or make a symbolic link
#[derive(Debug, Args)]
#[command(after_help = "\
Where NEW is a directory, the link is made in it, with the last name of OLD.

Examples:
  xfskit ln disk.img /bin/busybox /bin/sh            a second name of the same file
  xfskit ln -s disk.img ../usr/share/zoneinfo/UTC /etc/localtime")]
pub(crate) struct Ln {
    #[command(flatten)]
    pub target: Target,
    /// The file; with -s any text
    #[arg(value_name = "OLD")]
    pub old: OsString,
    /// The new name
    #[arg(value_name = "NEW")]
    pub new: OsString,
    /// A symbolic link that points to OLD
    #[arg(short, long)]
    pub symbolic: bool,
    /// Owner of a symbolic link
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// What `mknod` makes.
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
    /// What it is
    #[arg(value_name = "TYPE")]
    pub kind: NodeKind,
    /// Of a device: its major number
    #[arg(value_name = "MAJOR", requires = "minor")]
    pub major: Option<u32>,
    /// Of a device: its minor number
    #[arg(value_name = "MINOR")]
    pub minor: Option<u32>,
    /// Permissions; unless said, 0644 or what the directory's default ACL gives
    #[arg(short, long, value_name = "MODE")]
    pub mode: Option<ModeChange>,
    /// Owner
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Change permissions
#[derive(Debug, Args)]
#[command(after_help = "\
MODE is octal, or symbolic as chmod takes it: [ugoa][+-=][rwxXst], joined by commas. A symbolic
link is followed; those met with -R stay as they are.

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
    /// Everything below directories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// Change owner and group
#[derive(Debug, Args)]
#[command(after_help = "\
Owners are numbers: names belong to the system that uses the volume. As on Linux, a file with a new
owner loses setuid, setgid and its capabilities.

Examples:
  xfskit chown disk.img 1000:1000 /home/jane
  xfskit chown -R disk.img 0:0 /srv
  xfskit chown disk.img :100 /srv/shared             the group alone")]
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
    /// Everything below directories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// A symbolic link itself, not what it points to (always so below directories)
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Set times, and make files that are missing
#[derive(Debug, Args)]
#[command(after_help = "\
TIME is a date, a date and time (of the local zone, or with its own: Z, +02:00), or @SECONDS since
1970; to the nanosecond. Without -d it is now.

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
    /// This time instead of now
    #[arg(short, long, value_name = "TIME", value_parser = words::time)]
    pub date: Option<xfskit::vfs::Timestamp>,
    /// The access time alone
    #[arg(short)]
    pub access: bool,
    /// The modification time alone
    #[arg(short)]
    pub modification: bool,
    /// Make no files
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Owner of files that are made
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Copy files and trees into a volume
///
/// Modes, owners, times to the nanosecond, extended attributes, ACLs, hard links, holes, symbolic
/// links and devices come along. Trees go into directories that are there; a file that is there is
/// replaced once the new one is whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Where DEST is a directory, SOURCE goes into it under its own name; else SOURCE gets the name DEST.
`DIR/.` is what is in DIR, without its name. `-` is standard input: the content of the file DEST.
With --tar each SOURCE is an archive (plain, gzip, zstd, xz; `-` is standard input), unpacked into
the directory DEST.

Examples:
  xfskit put disk.img ./passwd /etc/passwd           one file
  xfskit put disk.img ./html /srv                    a tree: becomes /srv/html
  xfskit put disk.img rootfs/. /                     what is in a directory
  date | xfskit put disk.img - /etc/built
  xfskit put --tar disk.img app.tar.zst /opt
  xfskit put --owner 0:0 disk.img ./html /srv        everything belongs to root
  xfskit put --verify md:a.img,b.img,c.img,d.img ./html /srv     on an array with a member in doubt")]
pub(crate) struct Put {
    #[command(flatten)]
    pub target: Target,
    /// Files, directories or archives, and at the end where they go
    #[arg(value_names = ["SOURCE…", "DEST"], required = true, num_args = 2..)]
    pub paths: Vec<PathBuf>,
    /// The sources are tar archives
    #[arg(long)]
    pub tar: bool,
    /// Obey the whiteouts of OCI layers within the sources
    #[arg(long)]
    pub whiteouts: bool,
    /// Stop at what cannot be read in full, such as more attributes than Linux lists; else the rest
    /// is copied, and the exit code is 1
    #[arg(long)]
    pub strict: bool,
    /// Memory that names and attributes of archives may take; unless said it goes by the archives'
    /// size
    #[arg(long, value_name = "SIZE", requires = "tar", value_parser = crate::show::parse_size)]
    pub limit: Option<u64>,
    /// Compare what is read from an array with its parity or other copies; correct or name what
    /// disagrees
    #[arg(long)]
    pub verify: bool,
    /// Everything belongs to this user and group
    #[arg(long, value_name = "UID:GID", conflicts_with = "owner_map")]
    pub owner: Option<Owner>,
    /// Owners by rules: `uid FROM TO`, `gid FROM TO`, `path PATTERN UID GID`, one a line; paths are
    /// those in the volume
    #[arg(long, value_name = "FILE")]
    pub owner_map: Option<PathBuf>,
    /// SELinux labels by path in the volume, as a policy's file_contexts has them
    #[arg(long, value_name = "FILE")]
    pub selinux_contexts: Option<PathBuf>,
}

/// Copy files and trees within a volume
#[derive(Debug, Args)]
#[command(after_help = "\
Where TO is a directory, FROM goes into it under its own name. Modes, owners, times, extended
attributes, hard links and holes come along; symbolic links are copied as such.

Examples:
  xfskit cp disk.img /etc/app.conf /etc/app.conf.bak
  xfskit cp -r disk.img /srv/html /srv/html.old
  xfskit cp --reflink disk.img /var/vm.raw /var/vm-2.raw   shares the blocks until one is written")]
pub(crate) struct Cp {
    #[command(flatten)]
    pub target: Target,
    /// What is copied
    #[arg(value_name = "FROM")]
    pub from: OsString,
    /// Where the copy goes
    #[arg(value_name = "TO")]
    pub to: OsString,
    /// Directories with all that is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Share the blocks instead of copying them
    #[arg(long)]
    pub reflink: bool,
}

/// Set the size of files
#[derive(Debug, Args)]
#[command(after_help = "\
What is behind the new end is gone; what is missing before it reads as zeroes and takes no space.

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
    /// Make no files
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Owner of files that are made
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Give a range of a file blocks, or take them away
#[derive(Debug, Args)]
#[command(after_help = "\
Without further options the range gets blocks that read as zeroes; a missing file is made, and with
--zero-range too. Ranges of --collapse-range and --insert-range consist of whole filesystem blocks.

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
    /// Where the range begins, in bytes
    #[arg(short, long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
    pub offset: u64,
    /// Its length, in bytes
    #[arg(short, long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub length: u64,
    /// The file does not grow, though the range may reach beyond its end
    #[arg(short = 'n', long)]
    pub keep_size: bool,
    /// Make a hole: blocks are given back
    #[arg(short, long, group = "what")]
    pub punch_hole: bool,
    /// Make the range read as zeroes, with blocks
    #[arg(short, long, group = "what")]
    pub zero_range: bool,
    /// Take the range out: what is behind moves forward
    #[arg(short, long, group = "what")]
    pub collapse_range: bool,
    /// Make a hole: what is there and behind moves back
    #[arg(short, long, group = "what")]
    pub insert_range: bool,
    /// Owner of a file that is made
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    pub owner: Owner,
}

/// Show or set the label of a volume
#[derive(Debug, Args)]
#[command(after_help = "\
At most 12 bytes; '' takes the label away.

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
UUID is written as usual, or is one of these words:
  generate   a new one, which is printed
  nil        none: Linux mounts such a volume with -o nouuid only
  restore    the one with which the volume was made

All metadata carries the UUID with which the volume was made, and keeps it: the volume gets the
feature meta_uuid (Linux 4.3, GRUB 2.02) until that UUID is restored. /etc/fstab and the like may
name the old one.

Examples:
  xfskit uuid disk.img
  xfskit uuid copy.img generate          both can be mounted at once
  xfskit uuid disk.img 8f1c2c6e-54c5-4a0c-a1b5-1ea8b2ba6fd9
  xfskit uuid copy.img restore")]
pub(crate) struct Uuid {
    #[command(flatten)]
    pub target: Target,
    /// The new UUID
    #[arg(value_name = "UUID|generate|nil|restore", value_parser = words::uuid)]
    pub uuid: Option<NewUuid>,
}

/// Run many commands on one open volume, from standard input or a file
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a command of xfskit without TARGET: `mkdir -p /srv`, `ls -l /`, `put ./html /srv`.
Words are split at blanks; quotes and backslashes keep them together. `#` begins a comment. `sync`
makes all changes so far durable, `quit` ends, `help` lists the commands. A command that fails does
not end the shell, but its exit code is then 1.

Examples:
  xfskit shell disk.img
  xfskit shell disk.img < changes.txt
  xfskit shell --strict --file changes.txt disk.img      the first failure ends it")]
pub(crate) struct Shell {
    #[command(flatten)]
    pub target: Target,
    /// Commands from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The first failure ends the shell
    #[arg(long)]
    pub strict: bool,
}
