//! `md fail`, `md remove`, `md add`, `md replace`, `md rebuild`, `md scrub`.

use clap::Args;

use super::Named;
use crate::show::parse_size;

/// Options of sync actions.
#[derive(Clone, Debug, Args)]
pub(crate) struct RateOptions {
    /// Maximum bytes per second of each member
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rate: Option<u64>,
}

/// Take a member out of use
///
/// If there is a spare, it takes the role and is rebuilt at once.
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
    pub rate_options: RateOptions,
}

/// Remove a failed member, or a spare, from the array
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
/// A former member is re-added: it gets only the writes that it missed, if there is a write-intent
/// bitmap. All others become spares; a spare takes each role without a member and is rebuilt at
/// once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md add md:a.img,missing,c.img,d.img new.img
  xfskit md add --member-size 1G md:a.img,b.img,c.img spare.img   add a new file
  xfskit md add md:a.img,c.img,d.img b.img                        re-add a former member")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Add {
    #[command(flatten)]
    pub array: Named,
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<String>,
    /// Make missing devices: files of this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub member_size: Option<u64>,
    /// Use devices that have contents
    #[arg(long, short)]
    pub force: bool,
    /// Leave the rebuild to `xfskit md rebuild`
    #[arg(long)]
    pub later: bool,
    #[command(flatten)]
    pub rate_options: RateOptions,
}

/// Replace a member by a spare while it stays in use
///
/// The array keeps its redundancy during the replacement. Data that the member cannot read are
/// computed from the others.
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
    /// Leave the copying to `xfskit md rebuild`
    #[arg(long)]
    pub later: bool,
    #[command(flatten)]
    pub rate_options: RateOptions,
}

/// Complete an array: resync, spares for missing members, rebuild, replacements
///
/// Continues where an earlier run was stopped or killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md rebuild md:a.img,b.img,c.img,spare.img
  xfskit md rebuild --rate 50M 'md:/images/m*.img'")]
pub(crate) struct Rebuild {
    #[command(flatten)]
    pub array: Named,
    #[command(flatten)]
    pub rate_options: RateOptions,
}

/// Compare the members, and with --repair correct the wrong ones
///
/// Mismatches are counted as in md. On RAID6, P and Q show which single member is wrong, and that
/// one is repaired. Other mismatches are only reported. Exit code 1 if a mismatch was not repaired.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md scrub 'md:/images/m*.img'
  xfskit md scrub --repair --rate 100M md:a.img,b.img,c.img,d.img
  xfskit md scrub --from 4096 md:a.img,b.img,c.img,d.img     continue a stopped scrub")]
pub(crate) struct Scrub {
    #[command(flatten)]
    pub array: Named,
    /// Rewrite members that are known to be wrong
    #[arg(long)]
    pub repair: bool,
    /// Begin at this stripe; a stopped scrub prints where to continue
    #[arg(long, value_name = "STRIPE", default_value = "0")]
    pub from: u64,
    #[command(flatten)]
    pub rate_options: RateOptions,
}
