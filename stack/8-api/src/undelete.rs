//! Removed files: found, listed, copied out. [`crate::restore`] gives them back in place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::Error as Core;
use xfskit_format::rtsb::RtSuperblock;
use xfskit_format::sb::MAGIC;
use xfskit_format::{Ctx, Location};
use xfskit_target as target;
use xfskit_undelete::{self as undelete, Candidate};
use xfskit_units::{ByteOffset, Geometry};

use crate::builder::{cancel_method, progress_method};
use crate::cause::Cause;
use crate::given_back;
use crate::progress::{Control, Report};
use crate::time::system_time;
use crate::volume_options::parse;
use crate::{CancelToken, Error, FileType, FindPaths, Progress, Result, Timestamp, Volume};

pub use undelete::{Confidence, LostReason, Phase as UndeletePhase, Size as RemovedSize};

/// Bytes that are copied at once.
const COPY: usize = 1 << 20;
/// Most removed directories above a removed file.
const DEPTH_MAX: usize = 1024;

/// Finds removed files: a builder. Nothing is written to the volume, except by
/// [`restore`](Self::restore).
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// let search = xfskit::Undelete::new(&volume);
/// let found = search.run()?;
/// for file in &found.files {
///     println!("{} {:?} {:?}", file.ino, file.path, file.confidence);
/// }
/// search.copy_to("rescued", &found.files)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is searched until `run` is called"]
pub struct Undelete<'c> {
    pub(crate) volume: Volume,
    skip_free_space: bool,
    realtime: Option<PathBuf>,
    phases: Report<'c, (UndeletePhase, Progress)>,
    pub(crate) control: Control<'c>,
}

/// A removed file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemovedFile {
    /// Its inode number.
    pub ino: u64,
    /// Its generation, which distinguishes files that had one inode number; `None` if not known.
    pub generation: Option<u32>,
    /// Its name, if one was found; of several the likeliest.
    pub name: Option<OsString>,
    /// Its path, if that of its directory is known.
    pub path: Option<PathBuf>,
    /// Other paths that it may have had, or other names without a directory.
    pub other_names: Vec<PathBuf>,
    /// Its type.
    pub file_type: Option<FileType>,
    /// Type and permissions.
    pub mode: Option<u32>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Its size.
    pub size: RemovedSize,
    /// When its content changed last.
    pub mtime: Option<Timestamp>,
    /// When it was removed.
    pub removed: Option<Timestamp>,
    /// Its content, in order; what is between is a hole.
    pub extents: Vec<RemovedExtent>,
    /// The target of a symbolic link.
    pub target: Option<PathBuf>,
    /// The ranges that hold something else now, in bytes of the file.
    pub lost: Vec<LostRange>,
    /// True if its content is on the realtime device.
    pub realtime: bool,
    /// How much of it can be had again.
    pub confidence: Confidence,
    /// All that was found of it.
    pub(crate) candidate: Arc<Candidate>,
}

/// An extent of a removed file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedExtent {
    /// In the file, in bytes.
    pub range: Range<u64>,
    /// Where on the data device, or on the realtime device, in bytes.
    pub device_offset: u64,
    /// Allocated, and never written: zeroes.
    pub unwritten: bool,
}

/// A range of a removed file that holds something else now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// In the file, in bytes.
    pub range: Range<u64>,
    /// Why it is lost.
    pub reason: LostReason,
}

/// The result of [`Undelete::run`].
#[derive(Debug)]
#[non_exhaustive]
pub struct RemovedFiles {
    /// The removed files, by inode number.
    pub files: Vec<RemovedFile>,
    /// Number of freed inodes of which neither name nor content is left.
    pub unidentified: u64,
    /// Number of files that were given back before, under a new number. They are not among `files`.
    pub given_back: u64,
    /// Damage that the search met.
    pub warnings: Vec<Error>,
    /// Number of warnings that were not kept.
    pub warnings_more: u64,
}

/// What became of one file that was copied out.
#[derive(Debug)]
#[non_exhaustive]
pub struct CopiedOut {
    /// The copy; `None` for a file of which nothing could be copied.
    pub to: Option<PathBuf>,
    /// Bytes of its content that were copied.
    pub bytes: u64,
    /// Why it was not copied, or only in part.
    pub error: Option<Error>,
}

impl<'c> Undelete<'c> {
    /// Returns a search on `volume`.
    pub fn new(volume: &Volume) -> Self {
        let (phases, control) = (Report::default(), Control::default());
        let volume = volume.clone();
        Self { volume, skip_free_space: false, realtime: None, phases, control }
    }

    /// Reads free space, for files whose inodes were freed with their whole chunk. On by default;
    /// it takes as long as reading all of it.
    pub fn free_space(mut self, read: bool) -> Self {
        self.skip_free_space = !read;
        self
    }

    /// Names the target with the realtime device, from which the content of files there is copied.
    pub fn realtime(mut self, target: impl AsRef<Path>) -> Self {
        self.realtime = Some(target.as_ref().to_owned());
        self
    }

    /// Receives the progress of each phase, with the phase.
    pub fn phases(mut self, report: impl Fn(UndeletePhase, Progress) + Sync + 'c) -> Self {
        self.phases = Report::new(move |(phase, progress)| report(phase, progress));
        self
    }

    progress_method! {
        /// Receives the progress of each phase of the search, in units of its own; of a copy in
        /// files.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Finds removed files. Damage is a result, not an error. On a volume that is open for writing,
    /// all changes are written in place first; nothing else should change it meanwhile.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for version 4;
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled); those of
    /// [`Volume::sync`].
    pub fn run(&self) -> Result<RemovedFiles> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let volume = owner.volume();
        if owner.is_writable() {
            volume.write_back().map_err(Error::new)?;
        }
        let watch = |phase, done, total| {
            let _inside = owner.inside();
            self.phases.report((phase, Progress { done, total }));
            self.control.at(done, total)
        };
        let options = undelete::Options { free_space: !self.skip_free_space, watch: &watch };
        let found = undelete::find(volume, &options).map_err(Error::new)?;
        if !found.complete {
            return Err(Error::new(Cause::Cancelled));
        }
        let mut warnings: Vec<Error> = found.warnings.first.into_iter().map(Error::new).collect();
        let candidates: Vec<_> = found.candidates.into_iter().map(Arc::new).collect();
        let names = || candidates.iter().flat_map(|candidate| &candidate.names);
        let parents: BTreeSet<_> = names().filter_map(|name| name.parent).collect();
        // The inode of a removed directory may still look as if it were in use.
        let in_use = |ino: &xfskit_units::Ino| volume.is_in_use(*ino).unwrap_or(true);
        let parents = parents.into_iter().filter(in_use).map(|ino| ino.0);
        let search = FindPaths::new(&self.volume).limit(1).cancel(&self.control.cancel);
        let dirs = search.run(parents)?;
        warnings.extend(dirs.warnings);
        let paths = Paths::new(dirs.inodes, &candidates);
        let depth = |dir: &Candidate| {
            let path = dir.names.iter().find_map(|name| paths.of(name));
            path.map_or(usize::MAX - 1, |path| path.components().count())
        };
        let (given_back, left) = given_back::left_out(owner, &candidates, depth);
        let describe = |candidate| describe(&self.volume, candidate, &paths);
        Ok(RemovedFiles {
            files: left.into_iter().map(describe).collect(),
            unidentified: found.unidentified,
            given_back: found.given_back.saturating_add(given_back),
            warnings,
            warnings_more: found.warnings.more.saturating_add(dirs.warnings_more),
        })
    }

    /// Copies files into the directory `dir`, which is made if it is missing, under their paths.
    /// One without a path becomes `inode-N`, with its name behind it; one whose place is taken gets
    /// its inode number behind its name. Nothing that exists is replaced. Ranges that are lost are
    /// holes. Permissions and mtime are kept where they are known; owners are not.
    ///
    /// Returns what became of each file, in the same order.
    ///
    /// # Errors
    /// The directory cannot be made; [`InvalidInput`](crate::ErrorKind::InvalidInput) if another
    /// device than that of the volume was named as the realtime device;
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn copy_to(&self, dir: impl AsRef<Path>, files: &[RemovedFile]) -> Result<Vec<CopiedOut>> {
        let _running = self.volume.owner.enter()?;
        let realtime = self.realtime_device(files)?;
        let dir = dir.as_ref();
        fs::create_dir_all(dir).map_err(|error| Error::at(Cause::Output(error), dir))?;
        let mut copied: Vec<_> = files.iter().map(|_| None).collect();
        // Links last, so that no copy goes through one.
        for links in [false, true] {
            for (file, copied) in files.iter().zip(&mut copied) {
                if links != (file.file_type == Some(FileType::Symlink)) {
                    continue;
                }
                if self.control.at(0, files.len() as u64).is_break() {
                    return Err(Error::new(Cause::Cancelled));
                }
                let data: &dyn BlockDevice = &**self.volume.owner.volume().device();
                let is_elsewhere = file.realtime && !self.has_realtime_inside();
                let from = if is_elsewhere { realtime.as_deref() } else { Some(data) };
                *copied = Some(self.copy(from, dir, file)?);
            }
        }
        Ok(copied.into_iter().flatten().collect())
    }

    /// Returns true if realtime content is on the data device.
    fn has_realtime_inside(&self) -> bool {
        self.volume.owner.volume().geo().rtstart.0 > 0
    }

    /// Opens the realtime device, if it was named and one of `files` has content there.
    fn realtime_device(&self, files: &[RemovedFile]) -> Result<Option<Arc<dyn BlockDevice>>> {
        let geo = self.volume.owner.volume().geo();
        let Some(name) = &self.realtime else { return Ok(None) };
        if geo.rblocks.0 == 0 || self.has_realtime_inside() {
            return Err(Error::new(Cause::NoRealtime(name.display().to_string())));
        }
        if !files.iter().any(|file| file.realtime) {
            return Ok(None);
        }
        let opened = target::open_unchecked(&parse(name.as_os_str())?, OpenMode::ReadOnly);
        let opened = opened.map_err(Error::new)?;
        match other_realtime(geo, &*opened)? {
            None => Ok(Some(opened)),
            Some(why) => {
                Err(Error::new(Cause::NotRealtime { name: name.display().to_string(), why }))
            }
        }
    }

    /// Copies one file, whose content is on the device `from` if that was named. Only a
    /// cancellation is an error.
    fn copy(
        &self,
        from: Option<&dyn BlockDevice>,
        dir: &Path,
        file: &RemovedFile,
    ) -> Result<CopiedOut> {
        let fail = |cause: Cause| CopiedOut { to: None, bytes: 0, error: Some(Error::new(cause)) };
        let unsupported = |what: &str| fail(Core::Unsupported(what.into()).into());
        let made = match file.file_type {
            _ if file.confidence == Confidence::NameOnly => {
                return Ok(unsupported("copying a file of which only the name is left"));
            }
            Some(FileType::Dir) => place(dir, file).and_then(|to| {
                fs::create_dir(&to)?;
                Ok((to, None))
            }),
            Some(FileType::Symlink) => place(dir, file).and_then(|to| {
                symlink(file.target.as_deref().unwrap_or(Path::new("")), &to)?;
                Ok((to, None))
            }),
            Some(FileType::File) => match from {
                Some(from) => place(dir, file).and_then(|to| {
                    let out = File::options().write(true).create_new(true).open(&to)?;
                    Ok((to, Some((from, out))))
                }),
                None => return Ok(unsupported("copying from a realtime device without its name")),
            },
            _ => return Ok(unsupported("copying a device, pipe or socket")),
        };
        let (to, out) = match made {
            Ok(made) => made,
            Err(error) => return Ok(fail(Cause::Output(error))),
        };
        let Some((from, out)) = out else {
            return Ok(CopiedOut { to: Some(to), bytes: 0, error: None });
        };
        let mut bytes = 0;
        match self.content(from, file, &out, &mut bytes) {
            Ok(()) => Ok(CopiedOut { to: Some(to), bytes, error: None }),
            Err(error) => {
                // A part of a file would look like all of it. The error is the one to report.
                let _ = fs::remove_file(&to);
                match error.kind() {
                    crate::ErrorKind::Cancelled => Err(error),
                    _ => Ok(CopiedOut { to: None, bytes: 0, error: Some(error) }),
                }
            }
        }
    }

    /// Writes the content of a file, which is on the device `from`. `bytes` counts what was
    /// written.
    fn content(
        &self,
        from: &dyn BlockDevice,
        file: &RemovedFile,
        out: &File,
        bytes: &mut u64,
    ) -> Result<()> {
        let output = |error| Error::new(Cause::Output(error));
        let (RemovedSize::Exact(size) | RemovedSize::AtMost(size)) = file.size else {
            return Ok(());
        };
        out.set_len(size).map_err(output)?;
        let mut buf = vec![0; COPY];
        for (range, device_offset) in file.intact(size) {
            let mut at = range.start;
            while at < range.end {
                if self.control.cancel.is_cancelled() {
                    return Err(Error::new(Cause::Cancelled));
                }
                let len = usize::try_from(range.end - at).unwrap_or(COPY).min(COPY);
                let place = device_offset.saturating_add(at - range.start);
                let place = xfskit_units::ByteOffset(place);
                from.read_at(place, &mut buf[..len]).map_err(Error::new)?;
                out.write_all_at(&buf[..len], at).map_err(output)?;
                at += len as u64;
                *bytes += len as u64;
            }
        }
        if let Some(mode) = file.mode {
            let permissions = fs::Permissions::from_mode(mode & 0o777);
            out.set_permissions(permissions).map_err(output)?;
        }
        file.mtime.map_or(Ok(()), |mtime| out.set_modified(system_time(mtime))).map_err(output)
    }
}

/// Returns why `device` is not the realtime device of the volume, as far as that can be told: with
/// realtime groups it names the volume; without it has no header.
fn other_realtime(geo: &Geometry, device: &dyn BlockDevice) -> Result<Option<String>> {
    let size = device.size().0;
    let needs = geo.rblocks.0.saturating_mul(geo.blocksize() as u64);
    if size < needs {
        return Ok(Some(format!("it has {size} bytes, and that has {needs}")));
    }
    let mut first = vec![0; geo.blocksize()];
    device.read_at(ByteOffset(0), &mut first).map_err(Error::new)?;
    if first.starts_with(&MAGIC.to_be_bytes()) {
        return Ok(Some("it begins with the superblock of a volume".to_owned()));
    }
    if geo.rgblocks == 0 {
        return Ok(None);
    }
    let ctx = Ctx::new(geo, Location::of("realtime superblock"));
    Ok(RtSuperblock::verify(&first, &ctx).err().map(|corruption| corruption.to_string()))
}

impl RemovedFile {
    /// Returns the ranges below `size` that are written and not lost, and where they are on the
    /// device.
    fn intact(&self, size: u64) -> Vec<(Range<u64>, u64)> {
        let mut intact = Vec::new();
        for extent in self.extents.iter().filter(|extent| !extent.unwritten) {
            let end = extent.range.end.min(size);
            let mut at = extent.range.start;
            let mut keep = |from: u64, to: u64| {
                if from < to {
                    let ahead = from.saturating_sub(extent.range.start);
                    intact.push((from..to, extent.device_offset.saturating_add(ahead)));
                }
            };
            let overlaps =
                |lost: &&LostRange| lost.range.start < end && lost.range.end > extent.range.start;
            for lost in self.lost.iter().filter(overlaps) {
                keep(at, lost.range.start.min(end));
                at = at.max(lost.range.end);
            }
            keep(at, end);
        }
        intact
    }

    /// Returns the bytes that are lost.
    pub fn lost_bytes(&self) -> u64 {
        let lens = self.lost.iter().map(|lost| lost.range.end.saturating_sub(lost.range.start));
        lens.fold(0, u64::saturating_add)
    }
}

/// Returns a place below `dir` for a copy of `file` that is not taken, with the directories above
/// it. A link on the way is an error.
fn place(dir: &Path, file: &RemovedFile) -> io::Result<PathBuf> {
    let name = || {
        let mut name = OsString::from(format!("inode-{}", file.ino));
        if let Some(own) = &file.name {
            name.push("-");
            name.push(own);
        }
        PathBuf::from(name)
    };
    let path = file.path.clone().unwrap_or_else(name);
    let mut to = dir.to_owned();
    let parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        })
        .collect();
    let Some((last, above)) = parts.split_last() else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    for part in above {
        to.push(part);
        match fs::create_dir(&to) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if !fs::symlink_metadata(&to)?.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::NotADirectory));
            }
            _ => {}
        }
    }
    to.push(last);
    let taken = fs::symlink_metadata(&to).is_ok();
    if taken {
        let mut other = last.to_os_string();
        other.push(format!(".inode-{}", file.ino));
        if let Some(generation) = file.generation {
            other.push(format!("-{generation:x}"));
        }
        to.set_file_name(other);
    }
    Ok(to)
}

/// The paths of directories, in use and removed.
struct Paths<'f> {
    in_use: BTreeMap<u64, PathBuf>,
    removed: BTreeMap<u64, &'f Arc<Candidate>>,
}

impl<'f> Paths<'f> {
    fn new(dirs: Vec<crate::InodePaths>, candidates: &'f [Arc<Candidate>]) -> Self {
        let path = |dir: crate::InodePaths| Some((dir.ino, dir.paths.into_iter().next()?));
        let in_use = dirs.into_iter().filter_map(path).collect();
        let is_dir = |candidate: &&Arc<Candidate>| {
            let by_name = candidate.names.first().and_then(|name| name.file_type);
            let kind = candidate.file_type.or(by_name).map(FileType::of);
            kind.is_none_or(|kind| kind == FileType::Dir)
        };
        let removed = candidates.iter().filter(is_dir).map(|dir| (dir.ino.0, dir)).collect();
        Self { in_use, removed }
    }

    /// Returns the path of a name, if that of its directory is known.
    fn of(&self, name: &undelete::Name) -> Option<PathBuf> {
        let mut parts = vec![OsString::from_vec(name.name.clone())];
        let mut parent = name.parent?.0;
        while parts.len() < DEPTH_MAX {
            if let Some(dir) = self.in_use.get(&parent) {
                let mut path = dir.clone();
                path.extend(parts.into_iter().rev());
                return Some(path);
            }
            let above =
                self.removed.get(&parent)?.names.iter().find(|name| name.parent.is_some())?;
            parts.push(OsString::from_vec(above.name.clone()));
            parent = above.parent?.0;
        }
        None
    }
}

/// Returns a file as the caller sees it.
fn describe(volume: &Volume, candidate: &Arc<Candidate>, paths: &Paths<'_>) -> RemovedFile {
    let geo = volume.owner.volume().geo();
    let bytes = |start: xfskit_units::FileOff, blocks: u64| {
        geo.fileoff_to_byte(start).0..geo.fileoff_to_byte(start.saturating_add(blocks)).0
    };
    let extent = |extent: &xfskit_format::bmbt::Extent| {
        Some(RemovedExtent {
            range: bytes(extent.startoff, extent.blockcount.0),
            device_offset: if candidate.realtime {
                geo.rtb_to_byte(extent.startblock)?.0
            } else {
                geo.fsb_to_byte(extent.startblock)?.0
            },
            unwritten: extent.unwritten,
        })
    };
    let name = |name: &undelete::Name| OsString::from_vec(name.name.clone());
    let path = |one: &undelete::Name| paths.of(one).unwrap_or_else(|| name(one).into());
    // One with a path is the better name.
    let best = candidate.names.iter().position(|name| paths.of(name).is_some()).unwrap_or(0);
    let first = candidate.names.get(best);
    let others = candidate.names.iter().enumerate().filter(|(index, _)| *index != best);
    let by_name = first.and_then(|name| name.file_type);
    RemovedFile {
        ino: candidate.ino.0,
        generation: candidate.generation,
        name: first.map(name),
        path: first.and_then(|name| paths.of(name)),
        other_names: others.map(|(_, name)| path(name)).collect(),
        file_type: candidate.file_type.or(by_name).map(FileType::of),
        mode: candidate.mode.map(u32::from),
        owner: candidate.owner,
        size: candidate.size,
        mtime: candidate.mtime,
        removed: candidate.removed,
        extents: candidate.extents.iter().filter_map(extent).collect(),
        target: candidate.target.clone().map(|target| OsString::from_vec(target).into()),
        lost: candidate
            .lost
            .iter()
            .map(|lost| LostRange {
                range: bytes(lost.startoff, lost.blockcount.0),
                reason: lost.reason,
            })
            .collect(),
        realtime: candidate.realtime,
        confidence: candidate.confidence(),
        candidate: Arc::clone(candidate),
    }
}
