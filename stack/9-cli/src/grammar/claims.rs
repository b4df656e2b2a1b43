//! The command that measures again what the documentation claims.

use std::path::PathBuf;

use clap::Args;

/// Measure again the figures that the documentation states, and compare them with their aims
#[derive(Debug, Args)]
#[command(after_help = "\
The file of claims has each stated figure: its sentence, the command that measures it, the place
in that command's report, the aim, and the last figure with its circumstances. A run of one
command can measure many claims. After each run its figures are renewed in the file, and in the
page that is made from the file (docs/claims.md). Programs of bench/ are expected beside xfskit
itself: cargo build --release -p xfskit-cli -p xfskit-bench.

Before a run that needs an idle machine, the load is looked at. A machine that is not idle is
waited for, up to two minutes; then the run is given up, with the figure and the processes that take
the time. With --allow-busy it is measured, and its circumstances say that the machine was not idle.

Exit code 1: a figure misses its aim, or a run failed or was given up; its old figures stay.

Examples:
  xfskit bench claims --list                          the claims and their last figures
  xfskit bench claims --dry-run                       commands, what they need, how long they take
  xfskit bench claims --only create                   one run, by its name or that of a claim
  xfskit bench claims --page                          the page again, after a change of the file
  xfskit bench claims --dir /srv/scratch              everything, for hours, as root")]
pub(crate) struct Claims {
    /// Measure only this run, or the run of this claim; may be repeated
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub only: Vec<String>,
    /// List the claims and their last figures; measure nothing
    #[arg(long)]
    pub list: bool,
    /// Print the commands; measure nothing
    #[arg(long, conflicts_with = "list")]
    pub dry_run: bool,
    /// Make the page from the file; measure nothing
    #[arg(long, conflicts_with_all = ["list", "dry_run", "only"])]
    pub page: bool,
    /// Measure also on a machine that is not idle what needs one; the circumstances then say so
    #[arg(long, conflicts_with_all = ["list", "dry_run", "page"])]
    pub allow_busy: bool,
    /// File of the claims
    #[arg(long, value_name = "FILE", default_value = "bench/claims.toml")]
    pub file: PathBuf,
    /// Directory for volumes; made if missing
    #[arg(long, value_name = "DIR", default_value = "target/bench-out")]
    pub dir: PathBuf,
}
