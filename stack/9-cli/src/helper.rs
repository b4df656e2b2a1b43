//! The program under the names by which mount(8) and umount(8) call it: `mount.fuse.xfskit` and
//! `umount.fuse.xfskit`, links to it in `/sbin`.
//!
//! Their arguments (EXTERNAL HELPERS in the manual pages of both) become those of `xfskit mount`
//! and `xfskit umount`, and exit codes become those of mount(8).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use crate::exit::Failure;

/// Exit codes of mount(8): wrong usage, stopped by the user, a mount that failed.
const USAGE: u8 = 1;
const STOPPED: u8 = 8;
const FAILED: u8 = 32;

/// A name by which the program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Helper {
    Mount,
    Umount,
}

/// Mount a volume for mount(8): `mount -t fuse.xfskit TARGET DIR`, or a line of fstab
#[derive(Debug, Parser)]
#[command(name = "mount.fuse.xfskit", max_term_width = 100)]
#[command(after_help = "The options are those of `xfskit mount -o`: see `xfskit mount --help`.")]
struct MountWords {
    /// The volume, as for `xfskit mount`
    target: String,
    /// The directory to mount on
    dir: PathBuf,
    /// Options with commas between them
    #[arg(short = 'o', value_name = "OPTION,…")]
    options: Vec<String>,
    /// Ignore unknown options
    #[arg(short = 's')]
    sloppy: bool,
    /// Do all but the mount
    #[arg(short = 'f')]
    fake: bool,
    /// Leave the table of mount(8) alone
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Say what was done
    #[arg(short = 'v')]
    verbose: bool,
    /// Refused: another mount namespace
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// The type; there is one
    #[arg(short = 't', value_name = "TYPE")]
    fs_type: Option<String>,
}

/// Unmount a volume for umount(8), and wait until it is closed
#[derive(Debug, Parser)]
#[command(name = "umount.fuse.xfskit", max_term_width = 100)]
struct UmountWords {
    /// The directory that it is mounted on
    dir: PathBuf,
    /// Unmount in the ordinary way: to abort the mount would lose what is not written yet
    #[arg(short = 'f')]
    force: bool,
    /// Take the mount out of the tree now, and unmount it when no process uses it any more
    #[arg(short = 'l')]
    lazy: bool,
    /// Ignored: umount(8) keeps its table
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Ignored: a mount in use stays as it is
    #[arg(short = 'r')]
    read_only: bool,
    /// Say what was done
    #[arg(short = 'v')]
    verbose: bool,
    /// Refused: another mount namespace
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// The type; there is one
    #[arg(short = 't', value_name = "TYPE")]
    fs_type: Option<String>,
}

impl Helper {
    /// Returns the helper with this name.
    fn named(program: &Path) -> Option<Self> {
        match program.file_name()?.to_str()? {
            "mount.fuse.xfskit" | "mount.xfskit" => Some(Self::Mount),
            "umount.fuse.xfskit" | "umount.xfskit" => Some(Self::Umount),
            _ => None,
        }
    }

    fn of_process() -> Option<Self> {
        Self::named(Path::new(&std::env::args_os().next()?))
    }

    /// Returns `words` as those of `xfskit`.
    fn translated(self, words: &[OsString]) -> Result<Vec<OsString>, clap::Error> {
        match self {
            Self::Mount => MountWords::try_parse_from(words)?.translated(),
            Self::Umount => UmountWords::try_parse_from(words)?.translated(),
        }
    }
}

/// Returns these words and flags, then `--` and the operands.
fn joined(
    command: &str,
    flags: &[(bool, &str)],
    options: &[String],
    operands: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["xfskit".into(), command.into()];
    words.extend(flags.iter().filter(|(given, _)| *given).map(|(_, flag)| OsString::from(flag)));
    words.extend(options.iter().map(|list| OsString::from(format!("-o{list}"))));
    words.push("--".into());
    words.extend(operands);
    words
}

/// Refuses to act in another namespace: the target and the directory are named in this one.
fn refuse_namespace<W: CommandFactory>(namespace: Option<&PathBuf>) -> Result<(), clap::Error> {
    let Some(namespace) = namespace else { return Ok(()) };
    let failure = Failure::cannot(format!("-N {}: not supported", namespace.display()))
        .hint("`nsenter --mount=NAMESPACE xfskit mount …` mounts there");
    Err(W::command().error(clap::error::ErrorKind::InvalidValue, failure))
}

impl MountWords {
    fn translated(self) -> Result<Vec<OsString>, clap::Error> {
        refuse_namespace::<Self>(self.namespace.as_ref())?;
        let flags = [
            (self.sloppy, "--sloppy"),
            (self.fake, "--fake"),
            (self.no_mtab, "--no-mtab"),
            (self.verbose, "--verbose"),
        ];
        Ok(joined("mount", &flags, &self.options, [self.target.into(), self.dir.into()]))
    }
}

impl UmountWords {
    fn translated(self) -> Result<Vec<OsString>, clap::Error> {
        refuse_namespace::<Self>(self.namespace.as_ref())?;
        let flags = [(true, "--helper"), (self.lazy, "--lazy"), (self.verbose, "--verbose")];
        Ok(joined("umount", &flags, &[], [self.dir.into()]))
    }
}

/// Returns the words of the command line, those of a helper as the words of `xfskit`.
///
/// # Errors
/// The words of a helper are not valid.
pub(crate) fn words() -> Result<Vec<OsString>, clap::Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    match Helper::of_process() {
        Some(helper) => helper.translated(&words),
        None => Ok(words),
    }
}

/// Prints an error in the words of a helper, or its help. Returns the exit code.
pub(crate) fn report(error: &clap::Error) -> u8 {
    // A closed stream is no reason for another code.
    let _ = error.print();
    if error.use_stderr() { USAGE } else { 0 }
}

/// Returns the exit code of this process in the place of `code`: that of mount(8) for a helper.
pub(crate) fn exit_code(code: u8) -> u8 {
    match Helper::of_process() {
        Some(_) => of_mount(code),
        None => code,
    }
}

fn of_mount(code: u8) -> u8 {
    match code {
        0 => 0,
        130 => STOPPED,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Cli;

    fn translated(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let helper = Helper::named(Path::new(&words[0])).unwrap();
        let words = helper.translated(&words).unwrap();
        Cli::try_parse_from(&words).unwrap();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_words_of_mount_become_ours() {
        assert_eq!(
            translated("/sbin/mount.fuse.xfskit /dev/sdb1 /mnt -s -f -n -v -o rw,noatime"),
            "xfskit mount --sloppy --fake --no-mtab --verbose -orw,noatime -- /dev/sdb1 /mnt"
        );
        assert_eq!(
            translated("/sbin/mount.fuse.xfskit -sv -t fuse.xfskit md:a,b /mnt -o ro"),
            "xfskit mount --sloppy --verbose -oro -- md:a,b /mnt"
        );
    }

    #[test]
    fn the_words_of_umount_become_ours() {
        assert_eq!(
            translated("umount.fuse.xfskit /mnt -n -l -f -r -v -t fuse.xfskit"),
            "xfskit umount --helper --lazy --verbose -- /mnt"
        );
    }

    #[test]
    fn words_that_are_not_valid_are_refused() {
        for line in ["mount.fuse.xfskit a.img", "umount.fuse.xfskit", "mount.fuse.xfskit a b -x"] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let helper = Helper::named(Path::new(&words[0])).unwrap();
            assert!(helper.translated(&words).is_err(), "{line}");
        }
        let words = ["mount.fuse.xfskit", "a.img", "/mnt", "-N", "/proc/1/ns/mnt"];
        let error = Helper::Mount.translated(&words.map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("nsenter"), "{error}");
        assert_eq!(Helper::named(Path::new("/usr/bin/xfskit")), None);
    }

    #[test]
    fn exit_codes_are_those_of_mount() {
        let codes = [0, 1, 2, 130].map(of_mount);
        assert_eq!(codes, [0, 32, 32, 8]);
    }
}
