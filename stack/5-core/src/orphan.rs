//! Unlinked inodes that stay on their lists.

use std::fmt::Display;

use xfskit_units::Ino;

/// An unlinked inode that cannot be freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be given back: {error}", self.what())]
pub struct Orphan {
    /// The inode; `None` if the heads of a whole group cannot be read.
    pub ino: Option<Ino>,
    /// The reason.
    pub error: String,
}

impl Orphan {
    fn what(&self) -> String {
        let what = |ino| format!("inode {ino}, which is deleted,");
        self.ino.map_or_else(|| "a group's unlinked lists, with its deleted files,".into(), what)
    }

    pub(crate) fn new(ino: Option<Ino>, error: &impl Display) -> Self {
        Self { ino, error: error.to_string() }
    }
}
