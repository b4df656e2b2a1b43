//! The grammar: every command, option and argument, with their help.
//!
//! `xfskit COMMAND [OPTIONS] TARGET [ARGUMENTS]`; paths inside the volume are absolute. Help, man
//! pages and completions are all generated from the definitions here, so this is the one place
//! where a command is described.
//!
//! | module | commands |
//! | --- | --- |
//! | [`name`] | the target of every command, and options of opening it |
//! | [`make`] | `mkfs` |
//! | [`read`] | commands that read the files of a volume: `info`, `ls`, `get`, … |
//! | [`change`] | commands that change a volume: `put`, `mkdir`, `rm`, `shell`, … |
//! | [`metadata`] | `check`, `inspect`, `log`, `recover` |
//! | [`locate`] | `path`, `blocks`, `undelete` |
//! | [`metadump`] | `metadump`, `restore` |
//! | [`bench`] | `bench`, `fs_mark` |
//! | [`programs`] | `dbench`, `compilebench` |
//! | [`access`] | what each of them does to its target |
//! | [`mount`] | `mount`, `umount`, and changes of what is mounted |
//! | [`mode`], [`arguments`] | permissions, owners and times as words |
//! | [`rows`] | the fields of a file that a command prints |
//! | [`md`] | the subcommands of `md` |

mod access;
pub(crate) mod arguments;
pub(crate) mod bench;
pub(crate) mod change;
pub(crate) mod claims;
pub(crate) mod locate;
pub(crate) mod make;
pub(crate) mod md;
pub(crate) mod metadata;
pub(crate) mod metadump;
pub(crate) mod mode;
pub(crate) mod mount;
pub(crate) mod name;
pub(crate) mod programs;
pub(crate) mod read;
pub(crate) mod repair;
pub(crate) mod rows;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use access::{Access, commands, writers};
use name::Name;

use crate::quote::Style;

const ABOUT: &str =
    "Make, read, change, inspect and check XFS volumes, without the kernel and without root";

const LONG_HELP: &str = "\
A TARGET is the device or file with the volume:
  disk.img             a file
  /dev/sdb1            a block device
  disk.img#p2          partition 2 of a disk image (MBR or GPT)
  disk.img#lv:vg/root  logical volume root of volume group vg (LVM2)
  md:a.img,b.img,…     a Linux md array of these members, in any order; patterns and `missing` too
  md:a.img,b.img#p1    partition 1 of an array
  mem:1G               a new device in memory, lost at the end
Commands that read files or structures also take a directory of a mount by xfskit: they read a
snapshot of the mounted volume, while it is in use.
With --overlay FILE all writes go to FILE, and the target is only read. Use it to try a change or a
repair, to continue from it, or to drop it by removing FILE.
`xfskit targets disk.img` lists the volumes on an image.

Paths inside a volume are absolute: /etc/passwd.

Exit codes:
  0    success
  1    a problem was found: corruption, a missing name, a difference; or what was looked for was not
       found
  2    the command could not run: bad usage, the target cannot be opened, an I/O error
  130  stopped by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT; a changed volume is consistent and closed
  141  the reader of standard output closed the pipe

With --json every line of standard output is one JSON object, faults and errors included. Names are
text; if one is not UTF-8, KEY_bytes beside it has its bytes in base64.
{WRITERS}

Examples:
  xfskit mkfs --size 1G disk.img          make a volume in a new file
  xfskit info disk.img                    geometry, features, free space, journal
  xfskit info --compat disk.img           list the kernels and boot loaders that can read it
  xfskit ls -l disk.img /etc              list a directory
  xfskit get disk.img / ./copy            copy everything out
  xfskit put disk.img ./html /srv         copy a tree in
  xfskit rm -r disk.img /var/cache        remove a tree
  xfskit check disk.img                   check every structure";

/// Columns of the list of commands that write.
const COLUMNS: usize = 96;

/// Returns what `--help` says below the options, with the commands that write from their table.
fn long_help() -> String {
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
    LONG_HELP.replace("{WRITERS}", &lines)
}

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "xfskit", version, about = ABOUT, after_help = long_help(), max_term_width = 100)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Options of the output. Accepted before and after the command's name.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputOptions {
    /// Print one JSON object per line on standard output, faults and errors included
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only results and errors, no progress and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Write names in double quotes, as strings of C (same as --quoting-style=c)
    #[arg(short = 'Q', long, global = true)]
    pub quote_name: bool,
    /// Set the style of names, as in ls: literal, shell, shell-always, shell-escape,
    /// shell-escape-always, c, escape [default: $QUOTING_STYLE, or shell-escape on a terminal, else
    /// literal]
    #[arg(long, global = true, value_name = "STYLE", hide_possible_values = true)]
    pub quoting_style: Option<Style>,
}

impl OutputOptions {
    /// Returns these options with those of `other` added.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            json: self.json || other.json,
            quiet: self.quiet || other.quiet,
            quote_name: self.quote_name || other.quote_name,
            quoting_style: other.quoting_style.or(self.quoting_style),
        }
    }
}

/// The volume to read; shared by every command that reads one.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub name: Name,
    /// Read the device as it is, without replaying the journal in memory
    #[arg(long)]
    pub norecovery: bool,
    /// The device or file with the journal, for a volume with an external log
    #[arg(long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    #[command(flatten)]
    pub cache: Cache,
}

impl Target {
    /// Returns the name of the device with the journal.
    pub(crate) fn log(&self) -> Option<String> {
        self.logdev.as_deref().map(|device| self.name.beside(device))
    }
}

/// Memory for metadata.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Cache {
    /// Memory for metadata [default: a quarter of the machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub cache: Option<u64>,
}

impl Cache {
    /// Returns the size in bytes.
    pub(crate) fn bytes(self) -> usize {
        let given = self.cache.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        given.unwrap_or_else(xfskit::VolumeOptions::default_cache_bytes)
    }

    /// Makes the allocator keep little more than the size that the user gave.
    pub(crate) fn keep(self) {
        if self.cache.is_some() {
            xfskit::allocator::keep_to(self.bytes());
        }
    }
}

commands! {
    /// Every command.
    #[derive(Debug, Subcommand)]
    pub(crate) enum Command {
        Mkfs(make::Mkfs) => Access::Writes,
        Info(read::Info) => Access::Reads,
        Ls(read::Ls) => Access::Reads,
        Tree(read::Tree) => Access::Reads,
        Stat(read::Stat) => Access::Reads,
        Cat(read::Cat) => Access::Reads,
        Xattr(read::Xattr) => Access::Subcommands(read::XattrCommand::ACCESS),
        Find(read::Find) => Access::Reads,
        Df(read::Df) => Access::Reads,
        Du(read::Du) => Access::Reads,
        Stats(read::Stats) => Access::Reads,
        Get(read::Get) => Access::Reads,
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
        Mount(mount::Mount) => Access::Writes,
        Umount(mount::Umount) => Access::Reads,
        Freeze(mount::Freeze) => Access::Reads,
        Thaw(mount::Thaw) => Access::Reads,
        Clone(mount::CloneFile) => Access::Writes,
        Inspect(metadata::Inspect) => Access::Reads,
        Log(metadata::Log) => Access::Reads,
        Recover(metadata::Recover) => Access::Writes,
        Metadump(metadump::Metadump) => Access::Reads,
        Restore(metadump::Restore) => Access::Writes,
        Md(md::Md) => Access::Subcommands(md::MdCommand::ACCESS),
        Bench(bench::Bench) => Access::Reads,
        #[command(name = "fs_mark")]
        FsMark(bench::FsMark) => Access::Reads,
        Dbench(programs::Dbench) => Access::Reads,
        Compilebench(programs::Compilebench) => Access::Reads,
        Bulkstat(read::Bulkstat) => Access::Reads,
        Extents(read::Extents) => Access::Reads,
        Path(locate::Path) => Access::Reads,
        Blocks(locate::Blocks) => Access::Reads,
        Undelete(locate::Undelete) => Access::WritesWith("--in-place"),
        Check(metadata::Check) => Access::WritesWith("--scrub --repair"),
        Repair(repair::Repair) => Access::Writes,
        Undo(repair::Undo) => Access::Writes,
        Targets(read::Targets) => Access::Reads,
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
    /// The directory; made if missing
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

    /// A longer line is wrapped by clap, in the middle of a paragraph.
    #[test]
    fn paragraphs_fit_the_width_of_the_help() {
        fn verify(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(long.is_empty(), "help of {}: {long:#?}", command.get_name());
            command.get_subcommands().for_each(verify);
        }
        verify(&Cli::command());
    }
}
