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
//! | [`access`] | what each of them does to its target |
//! | [`md`] | `md create`, `md fail`, `md remove`, `md add`, `md replace`, `md rebuild`, `md scrub`, `md examine`, `md assemble`, `md detail`, `md dump`, `md load`, `md guess` |

mod access;
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

use access::{Access, commands, writers};
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
{WRITERS}

Examples:
  xfskit mkfs --size 1G disk.img          make a volume in a new file
  xfskit info disk.img                    geometry, features, free space, journal
  xfskit info --compat disk.img           which kernels and boot loaders can read it
  xfskit ls -l disk.img /etc              list a directory
  xfskit get disk.img / ./copy            copy everything out
  xfskit put disk.img ./html /srv         copy a tree in
  xfskit rm -r disk.img /var/cache        remove one
  xfskit check disk.img                   judge every structure";

/// Columns of the list of commands that write.
const COLUMNS: usize = 96;

/// Returns what `--help` says below the options, with the commands that write from their table.
fn teach() -> String {
    let writers = writers(Command::ACCESS, "").join(", ");
    let sentence = format!("These commands write to a target: {writers}. All others only read it.");
    let mut lines = String::new();
    let mut column = 0;
    for word in sentence.split(' ') {
        if column > 0 && column + 1 + word.len() > COLUMNS {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.len();
    }
    TEACH.replace("{WRITERS}", &lines)
}

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "xfskit", version, about = ABOUT, after_help = teach(), max_term_width = 100)]
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
        told.unwrap_or_else(xfskit::raw::quarter_of_memory)
    }

    /// Where the user gave a size, the allocator keeps little beside it.
    pub(crate) fn keep(self) {
        if self.cache.is_some() {
            xfskit::raw::allocator::keep_to(self.bytes());
        }
    }
}

commands! {
    /// Every command.
    #[derive(Debug, Subcommand)]
    pub(crate) enum Command {
        Mkfs(make::Mkfs) => Access::Writes,
        Info(look::Info) => Access::Reads,
        Ls(look::Ls) => Access::Reads,
        Tree(look::Tree) => Access::Reads,
        Stat(look::Stat) => Access::Reads,
        Cat(look::Cat) => Access::Reads,
        Xattr(look::Xattr) => Access::Subcommands(look::XattrCommand::ACCESS),
        Find(look::Find) => Access::Reads,
        Df(look::Df) => Access::Reads,
        Du(look::Du) => Access::Reads,
        Stats(look::Stats) => Access::Reads,
        Get(look::Get) => Access::Reads,
        Put(change::Put) => Access::Writes,
        Mkdir(change::Mkdir) => Access::Writes,
        Rm(change::Rm) => Access::Writes,
        Mv(change::Mv) => Access::Writes,
        Ln(change::Ln) => Access::Writes,
        Mknod(change::Mknod) => Access::Writes,
        Chmod(change::Chmod) => Access::Writes,
        Chown(change::Chown) => Access::Writes,
        Touch(change::Touch) => Access::Writes,
        Cp(change::Cp) => Access::Writes,
        Truncate(change::Truncate) => Access::Writes,
        Fallocate(change::Fallocate) => Access::Writes,
        Label(change::Label) => Access::WritesWith("LABEL"),
        Uuid(change::Uuid) => Access::WritesWith("UUID"),
        Shell(change::Shell) => Access::Writes,
        Inspect(judge::Inspect) => Access::Reads,
        Log(judge::Log) => Access::Reads,
        Recover(judge::Recover) => Access::Writes,
        Md(md::Md) => Access::Subcommands(md::MdCommand::ACCESS),
        Bench(bench::Bench) => Access::Reads,
        #[command(name = "fs_mark")]
        FsMark(bench::FsMark) => Access::Reads,
        Dbench(programs::Dbench) => Access::Reads,
        Compilebench(programs::Compilebench) => Access::Reads,
        Bulkstat(look::Bulkstat) => Access::Reads,
        Check(judge::Check) => Access::WritesWith("--scrub --repair"),
        Targets(look::Targets) => Access::Reads,
        Completions(Completions) => Access::Reads,
        Man(Man) => Access::Reads,
    }
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
