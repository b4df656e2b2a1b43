//! What a copy reports besides its progress: what it could not copy, and why.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use parking_lot::Mutex;
use xfskit_copy::SkippedCount;
use xfskit_copy::source::{SourceError, Tree, Unread};

use crate::Error;

/// Something that a copy left out, or copied in part only.
#[derive(Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Its path: in the volume for an [`Extract`](crate::Extract), else in the source.
    pub path: PathBuf,
    /// The reason.
    pub kind: ProblemKind,
}

/// Why something was left out of a copy, or copied in part only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The volume is damaged there, or cannot be read.
    #[error(transparent)]
    Volume(Error),
    /// The destination refused the file.
    #[error(transparent)]
    Destination(io::Error),
    /// The destination has no place for such a file. The volume is sound.
    #[error("{0}")]
    Skipped(&'static str),
    /// The source cannot be read there: nothing of it is copied.
    #[error(transparent)]
    LeftOut(SourceError),
    /// The file changed, or failed, while it was read: [`end`](Unread::end) is the
    /// end of the content that is copied.
    #[error(transparent)]
    Unread(Unread),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

/// What a copy reports while it runs: see [`Extract::notices`](crate::Extract::notices).
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'n> {
    /// Something was left out, or copied in part.
    Problem(Problem),
    /// How much of each kind was left out by now.
    Skipped(&'n [SkippedCount]),
    /// Names that begin with `.wh.` became files, so many: the sources may be layers with
    /// whiteouts, which were not applied.
    WhiteoutNames(u64),
    /// Something worth knowing, in a sentence.
    Note(&'n str),
}

type OnNotice<'c> = Box<dyn Fn(Notice<'_>) + Sync + 'c>;

/// The callback that receives the notices, if there is one.
#[derive(Default)]
pub(crate) struct Notices<'c>(Option<OnNotice<'c>>);

impl<'c> Notices<'c> {
    pub(crate) fn new(receive: impl Fn(Notice<'_>) + Sync + 'c) -> Self {
        Self(Some(Box::new(receive)))
    }
}

impl fmt::Debug for Notices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

/// The problems of one copy, from any thread. They are passed on where a callback receives them,
/// and kept else. A leaf lock.
#[derive(Debug)]
pub(crate) struct Problems<'r, 'c> {
    notices: &'r Notices<'c>,
    kept: Mutex<Vec<Problem>>,
}

impl<'r, 'c> Problems<'r, 'c> {
    pub(crate) fn of(notices: &'r Notices<'c>) -> Self {
        Self { notices, kept: Mutex::default() }
    }

    fn say(&self, notice: Notice<'_>) {
        match (&self.notices.0, notice) {
            (Some(receive), notice) => receive(notice),
            (None, Notice::Problem(problem)) => {
                self.kept.lock().push(problem);
            }
            (None, _) => {}
        }
    }

    pub(crate) fn add(&self, path: &[u8], kind: ProblemKind) {
        let path = OsStr::from_bytes(path).into();
        self.say(Notice::Problem(Problem { path, kind }));
    }

    pub(crate) fn note(&self, note: &str) {
        self.say(Notice::Note(note));
    }

    /// Reports what was left out of `tree` when it was read, and returns the counts.
    pub(crate) fn of_reading(&self, tree: &mut Tree) -> Vec<SkippedCount> {
        let skipped = tree.notes().skipped();
        for error in tree.take_left_out() {
            let path = error.path().to_vec();
            self.add(&path, ProblemKind::LeftOut(error));
        }
        self.say(Notice::Skipped(&skipped));
        if tree.notes().whiteouts > 0 {
            self.say(Notice::WhiteoutNames(tree.notes().whiteouts));
        }
        skipped
    }

    /// Reports the files of `tree` that changed or failed while they were copied, and returns their
    /// count.
    pub(crate) fn of_content(&self, tree: &Tree) -> Vec<SkippedCount> {
        let unread = tree.take_unread();
        let skipped = Unread::skipped(unread.len());
        for file in unread {
            self.add(&file.path.clone(), ProblemKind::Unread(file));
        }
        self.say(Notice::Skipped(&skipped));
        skipped
    }

    pub(crate) fn skipped(&self, skipped: &[SkippedCount]) {
        self.say(Notice::Skipped(skipped));
    }

    /// Returns the problems that no callback received.
    pub(crate) fn end(self) -> Vec<Problem> {
        self.kept.into_inner()
    }
}
