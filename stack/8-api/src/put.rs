//! Trees and streams copied into a volume, and within one.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use xfskit_copy::put::{Put as Counts, put_stream};
use xfskit_copy::source::{self, Labels, Owners, Source, SourceOptions, Tree};
use xfskit_copy::{self as copy, Destination, PutOptions, SkippedCount};
use xfskit_core::Error as Core;
use xfskit_target::{Base, Target};
use xfskit_vfs::{self as vfs, FileType, Follow, Ino, NewNode};

use crate::builder::{cancel_method, notices_method, progress_method, source_methods};
use crate::cause::Cause;
use crate::notice::{Notice, Problems};
use crate::progress::Control;
use crate::shared::Owner;
use crate::{CancelToken, Error, Problem, Progress, Result, Volume};

/// Copies files, trees and archives into a volume, with owners, times, attributes, holes and links:
/// a builder. Existing directories are filled; an existing file is replaced when the new one is
/// complete.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let volume = xfskit::VolumeOptions::new().write(true).open("disk.img")?;
/// xfskit::Put::new(&volume).entry("./html").to("/srv")?; // as /srv/html
/// xfskit::Put::new(&volume).tar("app.tar.zst").to("/opt/app")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is copied until `to` is called"]
pub struct Put<'c> {
    volume: Volume,
    sources: Vec<Source>,
    options: SourceOptions,
    how: PutOptions,
    owner: Option<(u32, u32)>,
    control: Control<'c>,
}

/// Copies a file or a tree within a volume: a builder. [`Volume::copy`] copies one file's content.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let volume = xfskit::VolumeOptions::new().write(true).open("disk.img")?;
/// xfskit::CopyTree::new(&volume, "/srv/www").reflink(true).to("/srv/www.old")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is copied until `to` is called"]
pub struct CopyTree<'c> {
    volume: Volume,
    from: PathBuf,
    reflink: bool,
    control: Control<'c>,
}

/// What a [`Put`] or a [`CopyTree`] copied.
#[derive(Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// Names, existing directories included.
    pub names: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// What could not be copied, or in part only, unless [`Put::notices`] received it.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// The counts of what was left out.
    #[serde(skip)]
    pub skipped: Vec<SkippedCount>,
}

impl Copied {
    fn of(Counts { names, bytes }: Counts) -> Self {
        Self { names, bytes, ..Self::default() }
    }
}

/// Where a tree is put.
struct Place {
    dir: Ino,
    /// The path of the directory.
    path: Vec<u8>,
    /// The name of the only entry, in place of its own.
    name: Option<Vec<u8>>,
}

impl<'c> Put<'c> {
    /// Returns a copy into `volume`, without sources.
    pub fn new(volume: &Volume) -> Self {
        Self {
            volume: volume.clone(),
            sources: Vec::new(),
            options: SourceOptions::default(),
            how: PutOptions::default(),
            owner: None,
            control: Control::default(),
        }
    }

    /// Adds a file, a link or a tree, under its own name.
    pub fn entry(mut self, path: impl AsRef<Path>) -> Self {
        self.sources.push(Source::Name(path.as_ref().to_owned()));
        self
    }

    source_methods!(owners and labels in how);

    /// Adds a tar archive that standard input brings.
    pub fn tar_stdin(mut self) -> Self {
        self.sources.push(Source::Stdin);
        self
    }

    /// Gives everything this owner and group.
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = Some((uid, gid));
        self.how.owners = Some(Owners::all(uid, gid));
        self
    }

    /// Leaves out the file that `target` names, wherever a source has it: for the image that is
    /// written.
    pub fn exclude(mut self, target: impl AsRef<Path>) -> Self {
        let target = crate::volume_options::parse(target.as_ref().as_os_str()).ok();
        self.options.exclude.extend(target.and_then(written_file));
        self
    }

    progress_method! {
        /// Receives the progress in names: with a total of 0 those that were read, then those that
        /// were copied.
    }

    notices_method! {
        /// Receives what could not be copied, as it is met.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). What was
        /// copied is still there.
    }

    /// Copies the sources to `dest`. A directory there receives them. Else an
    /// [`entry`](Self::entry) becomes `dest`, and for other sources `dest` is created as the
    /// directory that receives them.
    ///
    /// # Errors
    /// Those of reading the sources;
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory) and
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) where something of another type is in the
    /// way, [`StorageFull`](crate::ErrorKind::StorageFull). What was copied is still there.
    pub fn to(&self, dest: impl AsRef<Path>) -> Result<Copied> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let problems = Problems::of(&self.control.notices);
        let mut tree = self.read()?;
        let mut skipped = problems.of_reading(&mut tree);
        let set_root = self.sources.iter().any(|source| matches!(source, Source::Dir(_)));
        let place = self.volume.at("copy to", dest.as_ref(), |fs, dest| self.place(fs, dest))?;
        let name = place.name.as_deref();
        let to = Destination { dir: place.dir, path: &place.path, name, set_root };
        let total = tree.len() as u64;
        let on_put = |done: Counts| self.control.at(done.names, total);
        let put = copy::put(owner, &tree, &to, &self.how, &on_put);
        skipped.extend(problems.of_content(&tree));
        let copied = put.map_err(Error::new)?;
        Ok(Copied { problems: problems.end(), skipped, ..Copied::of(copied) })
    }

    fn read(&self) -> Result<Tree> {
        let content_limit = Some(self.volume.owner.volume().geo().data_bytes().0);
        let stdin = self.control.cancel.stdin();
        let options = SourceOptions { content_limit, stdin, ..self.options.clone() };
        let on_progress = |at: source::Progress| self.control.at(at.names, 0);
        source::read_tree(&self.sources, &options, &on_progress).map_err(|error| {
            // A stream that was stopped while waiting is incomplete.
            let stopped = self.control.cancel.is_cancelled();
            Error::new(if stopped {
                Cause::Cancelled
            } else {
                copy::PutError::Source(error).into()
            })
        })
    }

    /// Returns where the tree goes. A directory that is to receive it is created.
    fn place(&self, fs: &Owner, dest: &[u8]) -> vfs::Result<Place> {
        if let Ok(there) = fs.resolve(dest, Follow::Yes)
            && there.core().is_dir()
        {
            return Ok(Place { dir: there.ino(), path: dest.to_vec(), name: None });
        }
        let (parent, name) = fs.resolve_parent(dest)?;
        if self.sources.iter().all(|source| matches!(source, Source::Name(_))) {
            return Ok(Place { dir: parent, path: above(dest).to_vec(), name: Some(name) });
        }
        let brings_acls = self.sources.iter().any(|source| matches!(source, Source::Dir(_)));
        let new = NewNode { brings_acls, ..NewNode::usual(FileType::Directory) };
        Ok(Place { dir: fs.make(parent, &name, &new)?, path: dest.to_vec(), name: None })
    }

    /// Copies what `stream` returns to the file `dest`, which is replaced when the new one is
    /// complete. It keeps mode, owner, attributes and ACL. Sources do not matter.
    ///
    /// # Errors
    /// As [`to`](Self::to), and those of `stream`. Nothing has changed then.
    pub fn stream_to(&self, stream: &mut dyn Read, dest: impl AsRef<Path>) -> Result<Copied> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let dest = dest.as_ref();
        let ((dir, name), new) = self.volume.at("copy to", dest, |fs, dest| {
            Ok((fs.resolve_parent(dest)?, self.replacement(fs, dest)?))
        })?;
        let on_put = |done: Counts| self.control.at(0, done.bytes);
        let put = put_stream(owner, (dir, &name), stream, &new, &on_put);
        if self.control.cancel.is_cancelled() {
            return Err(Error::new(Cause::Cancelled));
        }
        let inside = crate::volume::inside(dest);
        let bytes = put.map_err(|error| Error::new(error.at(&inside)))?;
        Ok(Copied::of(Counts { names: 1, bytes }))
    }

    /// Returns the properties of the file that takes the place of `dest`.
    fn replacement(&self, fs: &Owner, dest: &[u8]) -> vfs::Result<NewNode> {
        let mut new = NewNode::usual(FileType::Regular);
        match fs.resolve(dest, Follow::No) {
            Ok(inode) if inode.core().file_type() == Some(FileType::Regular) => {
                let core = inode.core();
                new = NewNode { mode: core.mode(), brings_acls: true, ..NewNode::default() }
                    .owner(core.uid(), core.gid());
            }
            Ok(_) | Err(vfs::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(self.owner.map_or(new.clone(), |(uid, gid)| new.owner(uid, gid)))
    }
}

impl<'c> CopyTree<'c> {
    /// Returns a copy of what `from` names in `volume`. A symbolic link there is copied, not
    /// followed.
    pub fn new(volume: &Volume, from: impl AsRef<Path>) -> Self {
        let from = from.as_ref().to_owned();
        Self { volume: volume.clone(), from, reflink: false, control: Control::default() }
    }

    /// Shares the blocks of content in place of copying them.
    pub fn reflink(mut self, reflink: bool) -> Self {
        self.reflink = reflink;
        self
    }

    progress_method! {
        /// Receives the progress, in names.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). What was
        /// copied is still there.
    }

    /// Makes `to` the copy. A directory there is filled, a file is replaced when the new one is
    /// complete.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound);
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a directory that would come below
    /// itself; [`IsADirectory`](crate::ErrorKind::IsADirectory) and
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) where something of another type is in the
    /// way; [`Unsupported`](crate::ErrorKind::Unsupported) for a reflink on a volume without.
    pub fn to(&self, to: impl AsRef<Path>) -> Result<Copied> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        if self.reflink && !owner.volume().geo().features.reflink() {
            return Err(Error::new(Core::Unsupported(
                "a reflink on a volume without reflink".into(),
            )));
        }
        let from = self.volume.at("copy", &self.from, |fs, from| fs.resolve(from, Follow::No))?;
        let (dir, name) = self.volume.at("copy to", to.as_ref(), |fs, to| fs.resolve_parent(to))?;
        let path = crate::volume::inside(to.as_ref());
        let on_put = |done: Counts| -> ControlFlow<()> { self.control.at(done.names, 0) };
        copy::copy_within(owner, from.ino(), (dir, &name), &path, self.reflink, &on_put)
            .map(Copied::of)
            .map_err(Error::new)
    }
}

/// Returns the file that a volume on `target` is written to.
fn written_file(target: Target) -> Option<PathBuf> {
    match target.base {
        Base::File(path) | Base::Overlay(path, _) => Some(path),
        Base::Array(array) => array.overlay,
        Base::Memory(_) => None,
    }
}

/// Returns the path of the directory that holds `path`, with the slash at its end.
fn above(path: &[u8]) -> &[u8] {
    let end = path.len() - path.iter().rev().take_while(|&&b| b == b'/').count();
    let name = path[..end].iter().rev().take_while(|&&b| b != b'/').count();
    &path[..end - name]
}
