//! `xfskit find`: finds files by conditions, in the order in which the volume is read fastest.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use parking_lot::Mutex;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{Child, Error, FileType, Follow, Fs, Inode, Stat, Timestamp, Visitor, join};

use super::fields::Writer;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::{Find, Kind};
use crate::out::Out;
use crate::progress::Progress;
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
        let newer = args.newer.as_deref().map(|path| open::resolve(volume, path, Follow::No));
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
            newer: newer.transpose()?.map(|inode| inode.core().mtime()),
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
    fn matches_stat(&self, stat: &Stat) -> bool {
        let age_days = (i128::from(self.now) - i128::from(stat.mtime.sec)).div_euclid(86_400);
        (self.kinds.is_empty() || self.kinds.contains(&stat.file_type))
            && self.size.is_none_or(|size| size.holds(stat.size.into()))
            && self.mtime.is_none_or(|mtime| mtime.holds(age_days))
            && self.uid.is_none_or(|uid| uid == stat.uid)
            && self.gid.is_none_or(|gid| gid == stat.gid)
            && self.newer.is_none_or(|time| stat.mtime > time)
            && self.inum.is_none_or(|inum| inum.holds(stat.ino.0.into()))
    }

    /// Checks the condition on attributes. Adds read errors to `errors`.
    fn matches_xattrs(&self, fs: &Fs, inode: &Inode, errors: &mut Vec<Error>) -> bool {
        let Some(pattern) = &self.xattr else { return true };
        let (xattrs, faults) = fs.xattrs(inode);
        errors.extend(faults);
        xattrs.iter().any(|xattr| admits(Some(pattern), &xattr.name))
    }
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
        Kind::File => FileType::Regular,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Block => FileType::BlockDevice,
        Kind::Character => FileType::CharDevice,
        Kind::Pipe => FileType::Fifo,
        Kind::Socket => FileType::Socket,
    }
}

/// `xfskit find`
pub(crate) fn run(volume: &Volume, args: &Find, out: &Out) -> Outcome {
    let conditions = Conditions::parse(volume, args)?;
    let start = open::resolve(volume, &args.path, Follow::No)?;
    let path: Arc<[u8]> = args.path.as_bytes().into();
    let search = Search {
        fs: volume.fs(),
        conditions,
        out,
        end: if args.print0 { 0 } else { b'\n' },
        writer: args.rows.writer(true, out)?,
        progress: Progress::beside_output(out, "find", "files"),
        failed: Mutex::new(None),
        stopped: AtomicBool::new(false),
    };
    let mut lines = Vec::new();
    let file_type = start.core().file_type().unwrap_or(FileType::Unknown);
    search.consider(&path, file_type, Some(&start), &mut lines);
    search.say(&lines);
    if start.core().is_dir() {
        search.fs.sweep((&path.clone(), start), path, 0, &search);
    }
    search.progress.finish();
    match search.failed.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(out.status()),
    }
}

/// A running search.
struct Search<'a> {
    fs: &'a Fs,
    conditions: Conditions,
    out: &'a Out,
    /// The byte that ends a path.
    end: u8,
    /// The writer, if more than paths is requested.
    writer: Option<Writer>,
    progress: Progress,
    /// Error of standard output; a leaf lock.
    failed: Mutex<Option<Failure>>,
    stopped: AtomicBool,
}

impl Search<'_> {
    /// Adds the line of a file if all conditions hold.
    fn consider(&self, path: &[u8], kind: FileType, inode: Option<&Inode>, lines: &mut Vec<u8>) {
        if !self.conditions.matches_name(path, kind) {
            return;
        }
        if let Some(inode) = inode {
            let stat = self.fs.stat(inode);
            if !self.conditions.matches_stat(&stat) {
                return;
            }
            let mut errors = Vec::new();
            let admitted = self.conditions.matches_xattrs(self.fs, inode, &mut errors);
            for error in &errors {
                self.out.fault(path, error);
            }
            if !admitted {
                return;
            }
            if let Some(writer) = &self.writer {
                writer.write(path, &stat, self.out, lines);
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

    fn say(&self, lines: &[u8]) {
        if let Err(failure) = self.out.raw(lines) {
            *self.failed.lock() = Some(failure);
            self.stopped.store(true, Ordering::Relaxed);
        }
    }
}

impl Visitor for Search<'_> {
    type Dir = Arc<[u8]>;

    fn wants_inodes(&self) -> bool {
        self.writer.is_some() || self.conditions.wants_inodes()
    }

    fn children(&self, dir: &Self::Dir, children: &[Child]) -> Vec<(usize, Self::Dir)> {
        let mut lines = Vec::new();
        let mut enter = Vec::new();
        for (index, Child { entry, inode }) in children.iter().enumerate() {
            let path = join(dir, &entry.name);
            let kind = match inode {
                Some(inode) => inode.core().file_type().unwrap_or(FileType::Unknown),
                None => entry.file_type,
            };
            self.consider(&path, kind, inode.as_ref(), &mut lines);
            if inode.as_ref().is_some_and(|inode| inode.core().is_dir()) {
                enter.push((index, path.into()));
            }
        }
        self.progress.add(children.len() as u64);
        self.say(&lines);
        enter
    }

    fn fault(&self, dir: &Self::Dir, name: Option<&[u8]>, error: Error) {
        let path = name.map_or_else(|| dir.to_vec(), |name| join(dir, name));
        self.out.fault(&path, &error);
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
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
