//! The grammar: every command, option and argument, and the words that teach them.
//!
//! `xfskit COMMAND [OPTIONS] TARGET [ARGUMENTS]`, paths inside the volume absolute. Help, man
//! pages and completions are all generated from the definitions here, so this is the one place
//! where a command is described.
//!
//! | module | commands |
//! | --- | --- |
//! | [`name`] | the target of each of them, and how it is opened |
//! | [`make`] | `mkfs` |
//! | [`look`] | `info`, `ls`, `tree`, `stat`, `cat`, `xattr`, `find`, `df`, `du`, `stats`, `get`, `bulkstat`, `targets` |
//! | [`change`] | `put`, `mkdir`, `rm`, `mv`, `ln`, `mknod`, `chmod`, `chown`, `touch`, `cp`, `truncate`, `fallocate`, `label`, `uuid`, `shell`, `xattr set`, `xattr rm` |
//! | [`judge`] | `check`, `inspect`, `log` |
//! | [`bench`] | `bench`, `fs_mark` |
//! | [`programs`] | `dbench`, `compilebench` |
//! | [`md`] | `md create`, `md fail`, `md remove`, `md add`, `md replace`, `md rebuild`, `md scrub`, `md examine`, `md assemble`, `md detail`, `md dump`, `md load`, `md guess` |

pub(crate) mod bench;
pub(crate) mod change;
pub(crate) mod judge;
pub(crate) mod look;
pub(crate) mod make;
pub(crate) mod md;
pub(crate) mod name;
pub(crate) mod programs;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use name::Name;

use crate::quote::Style;

const ABOUT: &str =
    "Make, read, change, inspect and check XFS volumes, without the kernel and without root";

const TEACH: &str = "\
A TARGET names where the volume is:
  disk.img             a file
  /dev/sdb1            a block device
  disk.img#p2          partition 2 of a disk image (MBR or GPT)
  disk.img#lv:vg/root  logical volume root of volume group vg (LVM2)
  md:a.img,b.img,…     a Linux md array by its members, in any order; `missing` and patterns too
  md:a.img,b.img#p1    partition 1 of an array
  mem:1G               memory, empty, gone at the end
With --overlay FILE writes go to FILE, and the target is only read: what a change or a repair makes of
it can be tried, gone on with, and thrown away.
`xfskit targets disk.img` lists what is on an image.

Paths inside a volume are absolute: /etc/passwd.

Exit codes:
  0  done, and the answer is yes
  1  the answer is no: corrupt, not found, differs
  2  could not run: bad usage, the target cannot be opened, an I/O error
  130  stopped by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT; a changed volume is whole and closed
  141  the reader of standard output went away before the end

With --json every line of standard output is one JSON object, faults and errors included. Names are always text
there; where one is not UTF-8, KEY_bytes beside it has its bytes in base64.
These commands write to a target: mkfs, put, mkdir, rm, mv, cp, ln, mknod, chmod, chown, touch,
truncate, fallocate, label, uuid, xattr set, xattr rm, shell, recover, md load, md create, md fail,
md remove, md add, md replace, md rebuild, md scrub --repair, check --scrub --repair. All others
only read it.

Examples:
  xfskit mkfs --size 1G disk.img          make a volume in a new file
  xfskit info disk.img                    geometry, features, free space, journal
  xfskit info --compat disk.img           which kernels and boot loaders can read it
  xfskit ls -l disk.img /etc              list a directory
  xfskit get disk.img / ./copy            copy everything out
  xfskit put disk.img ./html /srv         copy a tree in
  xfskit rm -r disk.img /var/cache        remove one
  xfskit check disk.img                   judge every structure";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "xfskit", version, about = ABOUT, after_help = TEACH, max_term_width = 100)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub voice: Voice,
}

/// How a command talks. Accepted before and after the command's name.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Voice {
    /// Print one JSON object per line on standard output; faults and errors too
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress, no notes: only the answer and the errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Write names in double quotes, as strings of C: --quoting-style=c
    #[arg(short = 'Q', long, global = true)]
    pub quote_name: bool,
    /// How names are written, as by ls: literal, shell, shell-always, shell-escape,
    /// shell-escape-always, c, escape [$QUOTING_STYLE; shell-escape on a terminal, else literal]
    #[arg(long, global = true, value_name = "STYLE", hide_possible_values = true)]
    pub quoting_style: Option<Style>,
}

impl Voice {
    /// This one, and what another asks for besides.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            json: self.json || other.json,
            quiet: self.quiet || other.quiet,
            quote_name: self.quote_name || other.quote_name,
            quoting_style: other.quoting_style.or(self.quoting_style),
        }
    }
}

/// Where the volume is and how to open it; shared by every command that reads one.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub name: Name,
    /// Show the device as it is, without replaying the journal in memory
    #[arg(long)]
    pub norecovery: bool,
    /// The device or file with the journal, for a volume with an external log
    #[arg(long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    #[command(flatten)]
    pub cache: Cache,
}

impl Target {
    /// The name of the device with the journal.
    pub(crate) fn log(&self) -> Option<String> {
        self.logdev.as_deref().map(|device| self.name.beside(device))
    }
}

/// Memory for metadata.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Cache {
    /// Memory for metadata; a quarter of the machine's unless said otherwise
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub cache: Option<u64>,
}

impl Cache {
    /// In bytes.
    pub(crate) fn bytes(self) -> usize {
        let told = self.cache.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        told.unwrap_or_else(xfskit::quarter_of_memory)
    }

    /// Where the user gave a size, the allocator keeps little beside it.
    pub(crate) fn keep(self) {
        if self.cache.is_some() {
            xfskit::allocator::keep_to(self.bytes());
        }
    }
}

/// Every command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mkfs(make::Mkfs),
    Info(look::Info),
    Ls(look::Ls),
    Tree(look::Tree),
    Stat(look::Stat),
    Cat(look::Cat),
    Xattr(look::Xattr),
    Find(look::Find),
    Df(look::Df),
    Du(look::Du),
    Stats(look::Stats),
    Get(look::Get),
    Put(change::Put),
    Mkdir(change::Mkdir),
    Rm(change::Rm),
    Mv(change::Mv),
    Ln(change::Ln),
    Mknod(change::Mknod),
    Chmod(change::Chmod),
    Chown(change::Chown),
    Touch(change::Touch),
    Cp(change::Cp),
    Truncate(change::Truncate),
    Fallocate(change::Fallocate),
    Label(change::Label),
    Uuid(change::Uuid),
    Shell(change::Shell),
    Inspect(judge::Inspect),
    Log(judge::Log),
    Recover(judge::Recover),
    Md(md::Md),
    Bench(bench::Bench),
    #[command(name = "fs_mark")]
    FsMark(bench::FsMark),
    Dbench(programs::Dbench),
    Compilebench(programs::Compilebench),
    Bulkstat(look::Bulkstat),
    Check(judge::Check),
    Targets(look::Targets),
    Completions(Completions),
    Man(Man),
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit completions bash > /etc/bash_completion.d/xfskit
  xfskit completions zsh > ~/.zfunc/_xfskit
  xfskit completions fish > ~/.config/fish/completions/xfskit.fish")]
pub(crate) struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Man {
    /// Where the pages go; made if missing
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("xfskit {}", command.get_name());
            assert!(help.contains(&example), "{} has no example", command.get_name());
        }
    }
}
