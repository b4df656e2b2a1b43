//! `md fail`, `md remove`, `md add`, `md replace`, `md rebuild`, `md scrub`.

use clap::Args;

use super::Named;
use crate::show::parse_size;

/// How jobs that take long go about it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pace {
    /// At most so many bytes of each member per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rate: Option<u64>,
}

/// Take a member out of use
///
/// A spare takes over where there is one, and is rebuilt at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md fail md:a.img,b.img,c.img,d.img b.img
  xfskit md fail --later md:a.img,b.img,c.img,spare.img b.img")]
pub(crate) struct Fail {
    #[command(flatten)]
    pub array: Named,
    /// The member, as the target names it
    #[arg(value_name = "MEMBER")]
    pub member: String,
    /// Leave the rebuild to `xfskit md rebuild`
    #[arg(long)]
    pub later: bool,
    #[command(flatten)]
    pub pace: Pace,
}

/// Take a member that failed, or a spare, out of the array
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md remove md:a.img,b.img,c.img,d.img b.img")]
pub(crate) struct Remove {
    #[command(flatten)]
    pub array: Named,
    /// The member, as the target names it
    #[arg(value_name = "MEMBER")]
    pub member: String,
}

/// Add devices to an array
///
/// A member that was away gets only what it missed, where a write-intent bitmap knows that. All
/// others become spares; where a role has nobody, one takes it and is rebuilt at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md add md:a.img,missing,c.img,d.img new.img
  xfskit md add --member-size 1G md:a.img,b.img,c.img spare.img   in a new file
  xfskit md add md:a.img,c.img,d.img b.img                        it was away, and comes back")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Add {
    #[command(flatten)]
    pub array: Named,
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<String>,
    /// Devices that are not there are made: files of this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub member_size: Option<u64>,
    /// Take devices that hold something
    #[arg(long, short)]
    pub force: bool,
    /// Leave the rebuild to `xfskit md rebuild`
    #[arg(long)]
    pub later: bool,
    #[command(flatten)]
    pub pace: Pace,
}

/// Replace a member by a spare, while it serves
///
/// The array stays as redundant as it is all the time. What the member cannot give is computed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md replace md:a.img,b.img,c.img,spare.img b.img
  xfskit md replace --with s2.img md:a.img,b.img,c.img,s1.img,s2.img b.img")]
pub(crate) struct Replace {
    #[command(flatten)]
    pub array: Named,
    /// The member, as the target names it
    #[arg(value_name = "MEMBER")]
    pub member: String,
    /// The spare to use
    #[arg(long, value_name = "SPARE")]
    pub with: Option<String>,
    /// Leave the filling to `xfskit md rebuild`
    #[arg(long)]
    pub later: bool,
    #[command(flatten)]
    pub pace: Pace,
}

/// Bring an array into order: resync, spares for missing members, rebuild, replacements
///
/// It goes on where an earlier one was stopped, or killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md rebuild md:a.img,b.img,c.img,spare.img
  xfskit md rebuild --rate 50M 'md:/images/m*.img'")]
pub(crate) struct Rebuild {
    #[command(flatten)]
    pub array: Named,
    #[command(flatten)]
    pub pace: Pace,
}

/// Compare what members hold, and with --repair mend what can be named
///
/// Mismatches are counted as md counts them. On RAID6 P and Q tell which single member is wrong;
/// that one is repaired. What cannot be named is only reported. Exit code 1 where something does
/// not agree and was not repaired.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md scrub 'md:/images/m*.img'
  xfskit md scrub --repair --rate 100M md:a.img,b.img,c.img,d.img
  xfskit md scrub --from 4096 md:a.img,b.img,c.img,d.img     go on where one was stopped")]
pub(crate) struct Scrub {
    #[command(flatten)]
    pub array: Named,
    /// Mend what can be named
    #[arg(long)]
    pub repair: bool,
    /// Begin at this row: a scrub that is stopped says where
    #[arg(long, value_name = "ROW", default_value = "0")]
    pub from: u64,
    #[command(flatten)]
    pub pace: Pace,
}
