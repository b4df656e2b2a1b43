//! The work of a command, by the volume that it needs: each command is of exactly one kind, and
//! carried out in one place. The compiler checks both.

use xfskit::Volume;
use xfskit::raw::core::uuid::NewUuid;

use super::{cat, df, du, find, get, identity, ls, stat, stats, tree, xattr};
use crate::exit::Outcome;
use crate::grammar::look::XattrCommand;
use crate::grammar::{
    Command, Completions, Man, Target, bench, change, judge, look, make, md, programs,
};
use crate::out::Out;

/// The work of one command.
pub(crate) enum Work<'c> {
    /// Looks at the files of a volume, which is opened for it.
    Look(Target, Look<'c>),
    /// Changes a volume, which is opened for it and closed.
    Change(&'c change::Target, Change<'c>),
    /// Opens what it needs by itself.
    Alone(Alone<'c>),
}

/// A command that looks at the files of a volume, with its arguments.
#[derive(Clone, Copy)]
pub(crate) enum Look<'c> {
    Ls(&'c look::Ls),
    Tree(&'c look::Tree),
    Stat(&'c look::Stat),
    Cat(&'c look::Cat),
    XattrList(&'c look::XattrList),
    XattrGet(&'c look::XattrGet),
    Find(&'c look::Find),
    Df(&'c look::Df),
    Du(&'c look::Du),
    Stats(&'c look::Stats),
    Get(&'c look::Get),
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
    XattrSet(&'c look::XattrSet),
    XattrRm(&'c look::XattrRm),
    Put(&'c change::Put),
    Cp(&'c change::Cp),
    Truncate(&'c change::Truncate),
    Fallocate(&'c change::Fallocate),
    Label(&'c std::ffi::OsStr),
    Shell(&'c change::Shell),
}

/// A command that opens what it needs by itself, with its arguments.
#[derive(Clone, Copy)]
pub(crate) enum Alone<'c> {
    Mkfs(&'c make::Mkfs),
    SetUuid(&'c change::Target, NewUuid),
    Info(&'c look::Info),
    Bulkstat(&'c look::Bulkstat),
    Check(&'c judge::Check),
    Targets(&'c look::Targets),
    Completions(&'c Completions),
    Man(&'c Man),
    Inspect(&'c judge::Inspect),
    Log(&'c judge::Log),
    Md(&'c md::Md),
    Bench(&'c bench::Bench),
    FsMark(&'c bench::FsMark),
    Dbench(&'c programs::Dbench),
    Compilebench(&'c programs::Compilebench),
    Recover(&'c judge::Recover),
}

impl<'c> Work<'c> {
    /// Returns the work of `command`.
    pub(crate) fn of(command: &'c Command) -> Self {
        match command {
            Command::Ls(args) => Self::Look(args.target.clone(), Look::Ls(args)),
            Command::Tree(args) => Self::Look(args.target.clone(), Look::Tree(args)),
            Command::Stat(args) => Self::Look(args.target.clone(), Look::Stat(args)),
            Command::Cat(args) => Self::Look(args.target.clone(), Look::Cat(args)),
            Command::Find(args) => Self::Look(args.target.clone(), Look::Find(args)),
            Command::Df(args) => Self::Look(args.target.clone(), Look::Df(args)),
            Command::Du(args) => Self::Look(args.target.clone(), Look::Du(args)),
            Command::Stats(args) => Self::Look(args.target.clone(), Look::Stats(args)),
            Command::Get(args) => Self::Look(args.target.clone(), Look::Get(args)),
            Command::Xattr(args) => Self::of_xattr(&args.what),
            Command::Label(args) => match &args.label {
                Some(label) => Self::Change(&args.target, Change::Label(label)),
                None => Self::Look(args.target.to_read(), Look::Label),
            },
            Command::Uuid(args) => match args.uuid {
                Some(uuid) => Self::Alone(Alone::SetUuid(&args.target, uuid)),
                None => Self::Look(args.target.to_read(), Look::Uuid),
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
            Command::Mkfs(args) => Self::Alone(Alone::Mkfs(args)),
            Command::Info(args) => Self::Alone(Alone::Info(args)),
            Command::Bulkstat(args) => Self::Alone(Alone::Bulkstat(args)),
            Command::Check(args) => Self::Alone(Alone::Check(args)),
            Command::Targets(args) => Self::Alone(Alone::Targets(args)),
            Command::Completions(args) => Self::Alone(Alone::Completions(args)),
            Command::Man(args) => Self::Alone(Alone::Man(args)),
            Command::Inspect(args) => Self::Alone(Alone::Inspect(args)),
            Command::Log(args) => Self::Alone(Alone::Log(args)),
            Command::Md(args) => Self::Alone(Alone::Md(args)),
            Command::Bench(args) => Self::Alone(Alone::Bench(args)),
            Command::FsMark(args) => Self::Alone(Alone::FsMark(args)),
            Command::Dbench(args) => Self::Alone(Alone::Dbench(args)),
            Command::Compilebench(args) => Self::Alone(Alone::Compilebench(args)),
            Command::Recover(args) => Self::Alone(Alone::Recover(args)),
        }
    }

    /// Returns the work of a subcommand of `xattr`.
    fn of_xattr(command: &'c XattrCommand) -> Self {
        match command {
            XattrCommand::List(args) => Self::Look(args.target.clone(), Look::XattrList(args)),
            XattrCommand::Get(args) => Self::Look(args.target.clone(), Look::XattrGet(args)),
            XattrCommand::Set(args) => Self::Change(&args.target, Change::XattrSet(args)),
            XattrCommand::Rm(args) => Self::Change(&args.target, Change::XattrRm(args)),
        }
    }
}

impl Look<'_> {
    /// Returns true if what is read from an array is compared with its parity or other copies.
    pub(crate) fn verifies(self) -> bool {
        match self {
            Self::Get(args) => args.verify,
            Self::Cat(args) => args.verify,
            _ => false,
        }
    }

    /// Carries the command out on `volume`.
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
            Self::Label => identity::label(volume, out),
            Self::Uuid => identity::uuid(volume, out),
        }
    }
}

impl Change<'_> {
    /// Returns true if what is read from an array is compared with its parity or other copies.
    pub(crate) fn verifies(self) -> bool {
        match self {
            Self::Put(args) => args.verify,
            _ => false,
        }
    }
}
