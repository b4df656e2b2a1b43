//! Commands for Linux md arrays.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) mod create;
pub(crate) mod manage;

use super::name::Name;

/// Make, tend and read Linux md arrays without the kernel
#[derive(Debug, Args)]
#[command(after_help = "\
An array is a target like any other: md:MEMBER,MEMBER,… names it by its members, in any order, and
every command takes it. A member is itself a target: a file, a block device, a partition, an array.
  md:a.img,b.img,c.img             superblocks say the rest; missing members are left out
  md:/images/m*.img                a pattern: * and ? (quote it from the shell)
  md:[md:a,b],[md:c,d]             arrays of arrays
  md:d0.img#p2,d1.img#p2           members on partitions
  md:a.img,b.img#p1                partition 1 of the array; [md:a.img,b.img]#p1 is the same
  md:level=6,layout=left-symmetric,chunk=512K,offset=1M:a,missing,c,d
                                   no superblocks: members in role order
  md:overlay=FILE:a.img,b.img      as --overlay FILE: writes go there, members are not touched
  md:force:a.img,b.img             as --force: stale members where there are not enough others, and doubtful parity
                                   believed: what was written since is wrong where it stands there

Examples:
  xfskit md assemble /images/m*.img       what the members make, and the target to use
  xfskit ls md:a.img,b.img,c.img /        a file system on an array
  xfskit md dump md:a.img,b.img > all     an array's content
  xfskit md guess a.img b.img c.img       superblocks are gone: what can they have been?
  xfskit md create --level 6 --member-size 1G a.img b.img c.img d.img       a new array
  xfskit md rebuild md:a.img,b.img,c.img,spare.img                          bring it into order
  xfskit md examine a.img                 a member's superblock, as mdadm --examine shows it")]
pub(crate) struct Md {
    #[command(subcommand)]
    pub what: MdCommand,
}

/// The array that a command is about.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    pub target: Name,
}

/// What to do with an array.
#[derive(Debug, Subcommand)]
pub(crate) enum MdCommand {
    Create(Box<create::Create>),
    Fail(manage::Fail),
    Remove(manage::Remove),
    Add(manage::Add),
    Replace(manage::Replace),
    Rebuild(manage::Rebuild),
    Scrub(manage::Scrub),
    /// Show the superblock of each member
    Examine {
        /// The members
        #[arg(value_name = "MEMBER", required = true)]
        members: Vec<String>,
    },
    /// Say what members make together, without running it: which are fresh, stale, missing
    Assemble {
        /// The members, in any order
        #[arg(value_name = "MEMBER", required = true)]
        members: Vec<String>,
    },
    /// Describe an array, as mdadm --detail does
    Detail {
        #[command(flatten)]
        array: Named,
    },
    /// Find order, level, layout, chunk and offset of members whose superblocks are gone, by the
    /// XFS volume on them
    ///
    /// The answer is certain or likely, with what speaks against it; exit code 0. Where several
    /// candidates are as good, all are named as undecided, with a word on whether their files
    /// read the same; exit code 1. What is doubtful is no answer. Members of a RAID0 must be of
    /// one size; a volume in a partition of a partition is not looked for, except a logical one.
    Guess {
        /// The members, in any order; `missing` for each that is not there
        #[arg(value_name = "MEMBER", required = true)]
        members: Vec<String>,
        /// How much of each member to look at, in bytes
        #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::show::parse_size)]
        scan: u64,
    },
    /// Write an array's content to standard output
    Dump {
        #[command(flatten)]
        array: Named,
        /// Where to begin, in bytes
        #[arg(long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
        offset: u64,
        /// How much at most, in bytes
        #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
        length: Option<u64>,
    },
    /// Write a file, or standard input, into an array
    Load {
        #[command(flatten)]
        array: Named,
        /// What to write; - is standard input
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// Where to begin, in bytes
        #[arg(long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
        offset: u64,
        /// Yes, overwrite what the array holds
        #[arg(long)]
        write: bool,
    },
    /// Time every routine that computes parity, and say which one is used
    Bench {
        /// Data members of the row that is computed over and over
        #[arg(
            long,
            value_name = "N",
            default_value = "22",
            value_parser = clap::value_parser!(u8).range(2..)
        )]
        members: u8,
        /// Bytes of it on each member
        #[arg(
            long,
            value_name = "SIZE",
            default_value = "4K",
            value_parser = crate::show::parse_size
        )]
        block: u64,
    },
}
