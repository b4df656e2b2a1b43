//! Commands for Linux md arrays.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) mod create;
pub(crate) mod manage;

use super::access::{Access, commands};
use super::name::Name;

/// Make, manage and read Linux md arrays without the kernel
#[derive(Debug, Args)]
#[command(after_help = "\
An array is a target like any other: md:MEMBER,MEMBER,… names it by its members, in any order, and
every command takes it. A member is itself a target: a file, a block device, a partition, an array.
  md:a.img,b.img,c.img             superblocks have the geometry; missing members are left out
  md:/images/m*.img                a pattern: * and ? (quote it from the shell)
  md:[md:a,b],[md:c,d]             arrays of arrays
  md:d0.img#p2,d1.img#p2           members on partitions
  md:a.img,b.img#p1                partition 1 of the array; [md:a.img,b.img]#p1 is the same
  md:level=6,layout=left-symmetric,chunk=512K,offset=1M:a,missing,c,d
                                   no superblocks: members in role order
  md:overlay=FILE:a.img,b.img      same as --overlay FILE: writes go there, members are not written
  md:force:a.img,b.img             as --force: use stale members if there are too few fresh ones,
                                   trust parity that may be out of date; later writes may be lost

detail, fail, remove, add, replace, rebuild and scrub take the directory of `xfskit mount` as well:
they work on the array below, while the mount is used. Redundancy that is left is not compared by a
rebuild then.

Examples:
  xfskit md assemble /images/m*.img       the array of these members, and the target to use
  xfskit ls md:a.img,b.img,c.img /        a file system on an array
  xfskit md dump md:a.img,b.img > all     an array's content
  xfskit md guess a.img b.img c.img       find the geometry without superblocks
  xfskit md create --level 6 --member-size 1G a.img b.img c.img d.img       a new array
  xfskit md rebuild md:a.img,b.img,c.img,spare.img                          resync and rebuild
  xfskit md replace /mnt b.img            replace a member below a mount, while it is used
  xfskit md examine a.img                 a member's superblock, as mdadm --examine prints it")]
pub(crate) struct Md {
    #[command(subcommand)]
    pub what: MdCommand,
}

/// The array of a command.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    pub target: Name,
}

commands! {
    /// Commands on arrays.
    #[derive(Debug, Subcommand)]
    pub(crate) enum MdCommand {
        Create(Box<create::Create>) => Access::Writes,
        Fail(manage::Fail) => Access::Writes,
        Remove(manage::Remove) => Access::Writes,
        Add(manage::Add) => Access::Writes,
        Replace(manage::Replace) => Access::Writes,
        Rebuild(manage::Rebuild) => Access::Writes,
        Scrub(manage::Scrub) => Access::WritesWith("--repair"),
        /// Show the superblock of each member
        ///
        /// Exit code 1 if a member has no superblock, as with mdadm, or a damaged one; the others
        /// are shown nevertheless.
        Examine {
            /// The members
            #[arg(value_name = "MEMBER", required = true)]
            members: Vec<String>,
        } => Access::Reads,
        /// Print the array that members form, without running it: which are fresh, stale, missing
        Assemble {
            /// The members, in any order
            #[arg(value_name = "MEMBER", required = true)]
            members: Vec<String>,
        } => Access::Reads,
        /// Describe an array, as mdadm --detail does
        Detail {
            #[command(flatten)]
            array: Named,
        } => Access::Reads,
        /// Find order, level, layout, chunk and offset of members without superblocks, from the XFS
        /// volume on them
        ///
        /// The result is certain or likely, with the evidence against it; exit code 0. If several
        /// candidates are equally good, all are named as undecided, and it is said whether their
        /// files read the same; exit code 1. A doubtful candidate is no result. If there is no
        /// result, the exit code is 1, and the notes say what was found. Members of a RAID0
        /// must have one size; a volume in a partition of a partition is not looked for, except a
        /// logical one.
        Guess {
            /// The members, in any order; `missing` for each that is lost
            #[arg(value_name = "MEMBER", required = true)]
            members: Vec<String>,
            /// Number of bytes of each member to read
            #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::show::parse_size)]
            scan: u64,
        } => Access::Reads,
        /// Write an array's content to standard output
        Dump {
            #[command(flatten)]
            array: Named,
            /// First byte
            #[arg(long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
            offset: u64,
            /// Maximum number of bytes
            #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
            length: Option<u64>,
        } => Access::Reads,
        /// Write a file, or standard input, into an array
        Load {
            #[command(flatten)]
            array: Named,
            /// The file to write; - is standard input
            #[arg(value_name = "FILE", default_value = "-")]
            file: PathBuf,
            /// First byte
            #[arg(long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
            offset: u64,
            /// Confirm that the contents of the array are overwritten
            #[arg(long)]
            write: bool,
        } => Access::Writes,
        /// Measure every parity routine, and print which one is used
        Bench {
            /// Data members of the stripe that is computed
            #[arg(
                long,
                value_name = "N",
                default_value = "22",
                value_parser = clap::value_parser!(u8).range(2..)
            )]
            members: u8,
            /// Bytes of the stripe on each member
            #[arg(
                long,
                value_name = "SIZE",
                default_value = "4K",
                value_parser = crate::show::parse_size
            )]
            block: u64,
        } => Access::Reads,
    }
}
