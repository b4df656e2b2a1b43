//! The work of a command, by the volume that it needs. Each command is of exactly one kind, and is
//! run in one place. The compiler checks both.

use xfskit::{NewUuid, Volume};

use super::{
    blocks, cat, df, du, find, get, identity, ls, path, stat, stats, tree, undelete, xattr,
};
use crate::exit::Outcome;
use crate::grammar::read::XattrCommand;
use crate::grammar::{
    Command, Completions, Man, Target, bench, change, locate, make, md, metadata, metadump, mount,
    programs, read, repair,
};
use crate::out::Out;

/// The work of one command.
pub(crate) enum Work<'c> {
    /// Reads files of a volume, which is opened for it.
    Read(Target, ReadCommand<'c>),
    /// Changes a volume, which is opened for it and closed.
    Change(&'c change::Target, Change<'c>),
    /// Opens its targets by itself.
    Standalone(StandaloneCommand<'c>),
}

/// A command that reads files of a volume, with its arguments.
#[derive(Clone, Copy)]
pub(crate) enum ReadCommand<'c> {
    Ls(&'c read::Ls),
    Tree(&'c read::Tree),
    Stat(&'c read::Stat),
    Cat(&'c read::Cat),
    XattrList(&'c read::XattrList),
    XattrGet(&'c read::XattrGet),
    Find(&'c read::Find),
    Df(&'c read::Df),
    Du(&'c read::Du),
    Stats(&'c read::Stats),
    Get(&'c read::Get),
    Path(&'c locate::Path),
    Blocks(&'c locate::Blocks),
    Undelete(&'c locate::Undelete),
    Label,
    Uuid,
}

/// A command that changes a volume, with its arguments.
#[derive(Clone, Copy)]
pub(crate) enum Change<'c> {
    Mkdir(&'c change::Mkdir),
    Rm(&'c change::Rm),
    Mv(&'c change::Mv),
    Ln(&'c change::Ln),
    Mknod(&'c change::Mknod),
    Chmod(&'c change::Chmod),
    Chown(&'c change::Chown),
    Touch(&'c change::Touch),
    XattrSet(&'c read::XattrSet),
    XattrRm(&'c read::XattrRm),
    Put(&'c change::Put),
    Cp(&'c change::Cp),
    Truncate(&'c change::Truncate),
    Fallocate(&'c change::Fallocate),
    Label(&'c std::ffi::OsStr),
    Shell(&'c change::Shell),
}

/// A command that opens its targets by itself, with its arguments.
#[derive(Clone, Copy)]
pub(crate) enum StandaloneCommand<'c> {
    Mkfs(&'c make::Mkfs),
    SetUuid(&'c change::Target, NewUuid),
    Info(&'c read::Info),
    Bulkstat(&'c read::Bulkstat),
    Check(&'c metadata::Check),
    Repair(&'c repair::Repair),
    Undo(&'c repair::Undo),
    Targets(&'c read::Targets),
    Completions(&'c Completions),
    Man(&'c Man),
    Inspect(&'c metadata::Inspect),
    Log(&'c metadata::Log),
    Md(&'c md::Md),
    Mount(&'c mount::Mount),
    Umount(&'c mount::Umount),
    Extents(&'c read::Extents),
    Clone(&'c mount::CloneFile),
    Freeze(&'c mount::Freeze),
    Thaw(&'c mount::Thaw),
    Bench(&'c bench::Bench),
    FsMark(&'c bench::FsMark),
    Dbench(&'c programs::Dbench),
    Compilebench(&'c programs::Compilebench),
    Recover(&'c metadata::Recover),
    Metadump(&'c metadump::Metadump),
    Restore(&'c metadump::Restore),
    Undelete(&'c locate::Undelete),
}

impl<'c> Work<'c> {
    /// Returns the work of `command`.
    pub(crate) fn of(command: &'c Command) -> Self {
        match command {
            Command::Ls(args) => Self::Read(args.target.clone(), ReadCommand::Ls(args)),
            Command::Tree(args) => Self::Read(args.target.clone(), ReadCommand::Tree(args)),
            Command::Stat(args) => Self::Read(args.target.clone(), ReadCommand::Stat(args)),
            Command::Cat(args) => Self::Read(args.target.clone(), ReadCommand::Cat(args)),
            Command::Find(args) => Self::Read(args.target.clone(), ReadCommand::Find(args)),
            Command::Df(args) => Self::Read(args.target.clone(), ReadCommand::Df(args)),
            Command::Du(args) => Self::Read(args.target.clone(), ReadCommand::Du(args)),
            Command::Stats(args) => Self::Read(args.target.clone(), ReadCommand::Stats(args)),
            Command::Get(args) => Self::Read(args.target.clone(), ReadCommand::Get(args)),
            Command::Path(args) => Self::Read(args.target.clone(), ReadCommand::Path(args)),
            Command::Blocks(args) => Self::Read(args.target.clone(), ReadCommand::Blocks(args)),
            Command::Undelete(args) if args.writes() => {
                Self::Standalone(StandaloneCommand::Undelete(args))
            }
            Command::Undelete(args) => Self::Read(args.target.clone(), ReadCommand::Undelete(args)),
            Command::Xattr(args) => Self::of_xattr(&args.what),
            Command::Label(args) => match &args.label {
                Some(label) => Self::Change(&args.target, Change::Label(label)),
                None => Self::Read(args.target.to_read(), ReadCommand::Label),
            },
            Command::Uuid(args) => match args.uuid {
                Some(uuid) => Self::Standalone(StandaloneCommand::SetUuid(&args.target, uuid)),
                None => Self::Read(args.target.to_read(), ReadCommand::Uuid),
            },
            Command::Mkdir(args) => Self::Change(&args.target, Change::Mkdir(args)),
            Command::Rm(args) => Self::Change(&args.target, Change::Rm(args)),
            Command::Mv(args) => Self::Change(&args.target, Change::Mv(args)),
            Command::Ln(args) => Self::Change(&args.target, Change::Ln(args)),
            Command::Mknod(args) => Self::Change(&args.target, Change::Mknod(args)),
            Command::Chmod(args) => Self::Change(&args.target, Change::Chmod(args)),
            Command::Chown(args) => Self::Change(&args.target, Change::Chown(args)),
            Command::Touch(args) => Self::Change(&args.target, Change::Touch(args)),
            Command::Put(args) => Self::Change(&args.target, Change::Put(args)),
            Command::Cp(args) => Self::Change(&args.target, Change::Cp(args)),
            Command::Truncate(args) => Self::Change(&args.target, Change::Truncate(args)),
            Command::Fallocate(args) => Self::Change(&args.target, Change::Fallocate(args)),
            Command::Shell(args) => Self::Change(&args.target, Change::Shell(args)),
            Command::Mkfs(args) => Self::Standalone(StandaloneCommand::Mkfs(args)),
            Command::Info(args) => Self::Standalone(StandaloneCommand::Info(args)),
            Command::Bulkstat(args) => Self::Standalone(StandaloneCommand::Bulkstat(args)),
            Command::Check(args) => Self::Standalone(StandaloneCommand::Check(args)),
            Command::Repair(args) => Self::Standalone(StandaloneCommand::Repair(args)),
            Command::Undo(args) => Self::Standalone(StandaloneCommand::Undo(args)),
            Command::Targets(args) => Self::Standalone(StandaloneCommand::Targets(args)),
            Command::Completions(args) => Self::Standalone(StandaloneCommand::Completions(args)),
            Command::Man(args) => Self::Standalone(StandaloneCommand::Man(args)),
            Command::Inspect(args) => Self::Standalone(StandaloneCommand::Inspect(args)),
            Command::Log(args) => Self::Standalone(StandaloneCommand::Log(args)),
            Command::Md(args) => Self::Standalone(StandaloneCommand::Md(args)),
            Command::Mount(args) => Self::Standalone(StandaloneCommand::Mount(args)),
            Command::Umount(args) => Self::Standalone(StandaloneCommand::Umount(args)),
            Command::Extents(args) => Self::Standalone(StandaloneCommand::Extents(args)),
            Command::Clone(args) => Self::Standalone(StandaloneCommand::Clone(args)),
            Command::Freeze(args) => Self::Standalone(StandaloneCommand::Freeze(args)),
            Command::Thaw(args) => Self::Standalone(StandaloneCommand::Thaw(args)),
            Command::Bench(args) => Self::Standalone(StandaloneCommand::Bench(args)),
            Command::FsMark(args) => Self::Standalone(StandaloneCommand::FsMark(args)),
            Command::Dbench(args) => Self::Standalone(StandaloneCommand::Dbench(args)),
            Command::Compilebench(args) => Self::Standalone(StandaloneCommand::Compilebench(args)),
            Command::Recover(args) => Self::Standalone(StandaloneCommand::Recover(args)),
            Command::Metadump(args) => Self::Standalone(StandaloneCommand::Metadump(args)),
            Command::Restore(args) => Self::Standalone(StandaloneCommand::Restore(args)),
        }
    }

    /// Returns the work of a subcommand of `xattr`.
    fn of_xattr(command: &'c XattrCommand) -> Self {
        match command {
            XattrCommand::List(args) => {
                Self::Read(args.target.clone(), ReadCommand::XattrList(args))
            }
            XattrCommand::Get(args) => Self::Read(args.target.clone(), ReadCommand::XattrGet(args)),
            XattrCommand::Set(args) => Self::Change(&args.target, Change::XattrSet(args)),
            XattrCommand::Rm(args) => Self::Change(&args.target, Change::XattrRm(args)),
        }
    }
}

impl ReadCommand<'_> {
    /// Returns true if data read from an array are compared with its parity or other copies.
    pub(crate) fn verifies(self) -> bool {
        match self {
            Self::Get(args) => args.verify,
            Self::Cat(args) => args.verify,
            _ => false,
        }
    }

    /// Runs the command on `volume`.
    pub(crate) fn run(self, volume: &Volume, out: &Out) -> Outcome {
        match self {
            Self::Ls(args) => ls::run(volume, args, out),
            Self::Tree(args) => tree::run(volume, args, out),
            Self::Stat(args) => stat::run(volume, args, out),
            Self::Cat(args) => cat::run(volume, args, out),
            Self::XattrList(args) => xattr::list(volume, args, out),
            Self::XattrGet(args) => xattr::get(volume, args, out),
            Self::Find(args) => find::run(volume, args, out),
            Self::Df(args) => df::run(volume, args, out),
            Self::Du(args) => du::run(volume, args, out),
            Self::Stats(args) => stats::run(volume, args, out),
            Self::Get(args) => get::run(volume, args, out),
            Self::Path(args) => path::run(volume, args, out),
            Self::Blocks(args) => blocks::run(volume, args, out),
            Self::Undelete(args) => undelete::run(volume, args, out),
            Self::Label => identity::label(volume, out),
            Self::Uuid => identity::uuid(volume, out),
        }
    }
}

impl Change<'_> {
    /// Returns true if data read from an array are compared with its parity or other copies.
    pub(crate) fn verifies(self) -> bool {
        match self {
            Self::Put(args) => args.verify,
            _ => false,
        }
    }
}
