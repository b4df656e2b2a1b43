//! `xfskit find`: finds files by conditions, in the order in which the volume is read fastest.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use parking_lot::Mutex;
use xfskit::{FileType, FoundEntry, Metadata, Timestamp, Volume, WalkParallel, Xattrs};

use super::fields::Writer;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::{Find, Kind};
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    More(u64),
    Less(u64),
    Exactly(u64),
}

impl Compare {
    /// Parses `+N`, `-N` or `N`; `number` parses N.
    fn parse(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Self, String> {
        match text.split_at_checked(1) {
            Some(("+", rest)) => number(rest).map(Self::More),
            Some(("-", rest)) => number(rest).map(Self::Less),
            _ => number(text).map(Self::Exactly),
        }
    }

    fn holds(self, value: i128) -> bool {
        match self {
            Self::More(n) => value > n.into(),
            Self::Less(n) => value < n.into(),
            Self::Exactly(n) => value == n.into(),
        }
    }
}

/// All conditions of one search.
struct Conditions {
    name: Option<GlobMatcher>,
    path: Option<GlobMatcher>,
    kinds: Vec<FileType>,
    size: Option<Compare>,
    mtime: Option<Compare>,
    uid: Option<u32>,
    gid: Option<u32>,
    newer: Option<Timestamp>,
    inum: Option<Compare>,
    xattr: Option<GlobMatcher>,
    now: i64,
}

impl Conditions {
    fn parse(volume: &Volume, args: &Find) -> Result<Self, Failure> {
        let bad = |option: &str| {
            let option = option.to_owned();
            move |e: String| Failure::cannot(format!("--{option}: {e}"))
        };
        let days =
            |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number of days"));
        let size = args.size.as_deref().map(|text| Compare::parse(text, show::parse_size));
        let number =
            |text: &str| text.parse().map_err(|_| format!("{text:?} is not an inode number"));
        let inum = args.inum.as_deref().map(|text| Compare::parse(text, number));
        let newer = args.newer.as_deref().map(|path| metadata(volume, path)).transpose()?;
        let mtime = args.mtime.as_deref().map(|text| Compare::parse(text, days));
        let glob = |option: &'static str, pattern: &Option<String>, whole| {
            let matcher = pattern.as_deref().map(|pattern| matcher(pattern, whole));
            matcher.transpose().map_err(bad(option))
        };
        Ok(Self {
            name: glob("name", &args.name, false)?,
            path: glob("path-glob", &args.path_glob, true)?,
            kinds: args.kind.iter().map(|kind| kind_of(*kind)).collect(),
            size: size.transpose().map_err(bad("size"))?,
            mtime: mtime.transpose().map_err(bad("mtime"))?,
            uid: args.uid,
            gid: args.gid,
            newer: newer.map(|file| file.mtime()),
            inum: inum.transpose().map_err(bad("inum"))?,
            xattr: glob("xattr", &args.xattr, false)?,
            now: show::now(),
        })
    }

    /// Returns true if names and types are not enough.
    fn wants_inodes(&self) -> bool {
        self.size.is_some()
            || self.mtime.is_some()
            || self.uid.is_some()
            || self.gid.is_some()
            || self.newer.is_some()
            || self.inum.is_some()
            || self.xattr.is_some()
    }

    /// Checks the conditions that a directory entry decides.
    fn matches_name(&self, path: &[u8], file_type: FileType) -> bool {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        let kind = file_type == FileType::Unknown
            || self.kinds.is_empty()
            || self.kinds.contains(&file_type);
        kind && admits(self.name.as_ref(), name) && admits(self.path.as_ref(), path)
    }

    /// Checks the conditions that need the inode.
    fn matches_metadata(&self, file: &Metadata) -> bool {
        let mtime = file.mtime();
        let age_days = (i128::from(self.now) - i128::from(mtime.sec)).div_euclid(86_400);
        (self.kinds.is_empty() || self.kinds.contains(&file.file_type()))
            && self.size.is_none_or(|size| size.holds(file.len().into()))
            && self.mtime.is_none_or(|mtime| mtime.holds(age_days))
            && self.uid.is_none_or(|uid| uid == file.uid())
            && self.gid.is_none_or(|gid| gid == file.gid())
            && self.newer.is_none_or(|time| mtime > time)
            && self.inum.is_none_or(|inum| inum.holds(file.ino().into()))
    }
}

/// Returns what is known about the file `path`, not following a symbolic link.
fn metadata(volume: &Volume, path: &OsStr) -> Result<Metadata, Failure> {
    volume.symlink_metadata(open::inside(path)?).map_err(|error| open::failure(&error))
}

fn admits(pattern: Option<&GlobMatcher>, text: &[u8]) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(Path::new(OsStr::from_bytes(text))))
}

/// Compiles a pattern; for `whole` paths `*` stops at slashes.
fn matcher(pattern: &str, whole: bool) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(whole).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|e| e.to_string())
}

fn kind_of(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::File,
        Kind::Directory => FileType::Dir,
        Kind::Symlink => FileType::Symlink,
        Kind::Block => FileType::BlockDevice,
        Kind::Character => FileType::CharDevice,
        Kind::Pipe => FileType::Fifo,
        Kind::Socket => FileType::Socket,
    }
}

/// `xfskit find`: lists the files that meet all conditions.
pub(crate) fn run(volume: &Volume, args: &Find, out: &Out) -> Outcome {
    let conditions = Conditions::parse(volume, args)?;
    let start = metadata(volume, &args.path)?;
    let search = Search {
        conditions,
        out,
        end: if args.print0 { 0 } else { b'\n' },
        writer: args.rows.writer(true, out)?,
        progress: Progress::beside_output(out, "find", Unit::Count("files")),
        failed: Mutex::new(None),
    };
    let path = open::inside(&args.path)?;
    let is_dir = start.is_dir();
    if search.start(volume, path, start).is_continue() && is_dir {
        let wants_metadata = search.writer.is_some() || search.conditions.wants_inodes();
        WalkParallel::new(volume, path)
            .with_metadata(wants_metadata)
            .run(|found| search.visit(found))
            .map_err(|error| open::failure(&error))?;
    }
    search.progress.finish();
    match search.failed.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(out.status()),
    }
}

/// A running search.
struct Search<'a> {
    conditions: Conditions,
    out: &'a Out,
    /// The byte that ends a path.
    end: u8,
    /// The writer, if more than paths is requested.
    writer: Option<Writer>,
    progress: Progress,
    /// Error of standard output; a leaf lock.
    failed: Mutex<Option<Failure>>,
}

impl Search<'_> {
    /// Prints the file that the search begins with, if all conditions hold.
    fn start(&self, volume: &Volume, path: &Path, file: Metadata) -> ControlFlow<()> {
        let (mut lines, file_type) = (Vec::new(), file.file_type());
        let xattrs = || volume.list_xattrs_nofollow(path);
        self.consider(path.as_os_str().as_bytes(), file_type, || Some(file), xattrs, &mut lines);
        self.say(&lines)
    }

    /// Prints some files of a directory, or what could not be read.
    fn visit(&self, found: xfskit::Result<&[FoundEntry<'_>]>) -> ControlFlow<()> {
        match found {
            Ok(files) => {
                let mut lines = Vec::new();
                for file in files {
                    let path = file.path().into_os_string().into_vec();
                    let xattrs = || Ok(file.list_xattrs());
                    self.consider(&path, file.file_type(), || file.metadata(), xattrs, &mut lines);
                }
                self.progress.add(files.len() as u64);
                self.say(&lines)
            }
            Err(error) => {
                self.out.fault_at_its_path(&error);
                ControlFlow::Continue(())
            }
        }
    }

    /// Adds the line of a file if all conditions hold.
    fn consider(
        &self,
        path: &[u8],
        kind: FileType,
        metadata: impl FnOnce() -> Option<Metadata>,
        xattrs: impl FnOnce() -> xfskit::Result<Xattrs>,
        lines: &mut Vec<u8>,
    ) {
        if !self.conditions.matches_name(path, kind) {
            return;
        }
        if let Some(file) = metadata() {
            if !self.conditions.matches_metadata(&file) || !self.matches_xattrs(path, xattrs) {
                return;
            }
            if let Some(writer) = &self.writer {
                writer.write(path, &file, self.out, lines);
                return;
            }
        }
        if self.end == 0 {
            lines.extend_from_slice(path);
        } else {
            lines.extend(self.out.name(path));
        }
        lines.push(self.end);
    }

    /// Checks the condition on attributes. Those that cannot be read are reported.
    fn matches_xattrs(&self, path: &[u8], xattrs: impl FnOnce() -> xfskit::Result<Xattrs>) -> bool {
        let Some(pattern) = &self.conditions.xattr else { return true };
        let mut matches = false;
        let found = xattrs().map_err(|error| self.out.fault(path, &error));
        for xattr in found.into_iter().flatten() {
            match xattr {
                Ok(xattr) => matches |= admits(Some(pattern), xattr.name().as_bytes()),
                Err(error) => self.out.fault(path, &error),
            }
        }
        matches
    }

    /// Prints lines. Breaks if standard output fails.
    fn say(&self, lines: &[u8]) -> ControlFlow<()> {
        match self.out.raw(lines) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                *self.failed.lock() = Some(failure);
                ControlFlow::Break(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_read_as_with_find() {
        let size = |text| Compare::parse(text, show::parse_size);
        assert_eq!(size("+1k"), Ok(Compare::More(1024)));
        assert_eq!(size("-4G"), Ok(Compare::Less(4 << 30)));
        assert_eq!(size("7"), Ok(Compare::Exactly(7)));
        for bad in ["", "+", "x", "+-1"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_star_in_a_path_stops_at_slashes_and_in_a_name_does_not_care() {
        let hit =
            |pattern, whole, text: &[u8]| admits(Some(&matcher(pattern, whole).unwrap()), text);
        assert!(hit("*.conf", false, b"a.conf"));
        assert!(hit("*.conf", false, b"\xff.conf"));
        assert!(!hit("/etc/*.conf", true, b"/etc/ssl/a.conf"));
        assert!(hit("/etc/**/*.conf", true, b"/etc/ssl/a.conf"));
        assert!(matcher("[", false).is_err());
    }
}
