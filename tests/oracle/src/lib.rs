//! The oracle is Linux itself: `mkfs.xfs`, a kernel mount, `xfs_repair -n` and `xfs_db`.
//!
//! Nothing here believes xfskit. The kernel makes trees at the corners of every on-disk form, over
//! a matrix of volumes; xfskit reads them, and both answers are compared entry by entry. What
//! xfskit makes, the kernel mounts, fills and empties, and `xfs_repair -n` must find nothing to
//! say about it.
//!
//! | module | what |
//! | --- | --- |
//! | [`need`] | what a test needs of the machine; a skip that names what is missing |
//! | [`tools`] | the xfsprogs of the machine and the newer one beside it |
//! | [`image`] | scratch directories, sparse images, mounts that end with their guard |
//! | [`manifest`] | one comparable record per file of a tree, and the difference of two trees |
//! | [`judge`] | everybody who can judge a volume does |
//! | [`kernel`] | the manifest of a mounted tree, as the operating system shows it |
//! | [`matrix`] | one volume per option of mkfs.xfs |
//! | [`dirty`] | volumes whose log the kernel left dirty |
//! | [`bytes`] | two sparse images, byte by byte |
//! | [`corruption`] | single wrong fields, written with `xfs_db` |
//! | [`ours`] | what xfskit makes of a volume |
//! | [`proto`] | volumes filled without a mount |
//! | [`trees`] | makers of trees: every form of directory, attribute, file, inode |
//!
//! `XFSKIT_REQUIRE_ORACLE=1` makes a skip a failure, `XFSKIT_LONG=1` adds the long runs,
//! `XFSKIT_SCRATCH=DIR` says where images go (default: `/dev/shm` when it is roomy, else `/tmp`).

pub mod bytes;
pub mod corruption;
pub mod dirty;
pub mod fsxattr;
pub mod image;
pub mod judge;
pub mod kernel;
pub mod manifest;
pub mod matrix;
pub mod need;
pub mod ours;
pub mod proto;
pub mod tools;
pub mod trees;

pub use image::{Image, Mount, Scratch};
pub use manifest::{Entry, Manifest};
pub use need::{Need, needs};
pub use tools::Xfsprogs;

/// Whether the long runs were asked for (`XFSKIT_LONG=1`): bigger trees, the whole matrix.
pub fn long() -> bool {
    std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1")
}
