//! The oracle tests compare xfskit with Linux itself: `mkfs.xfs`, a kernel mount, `xfs_repair -n`
//! and `xfs_db`.
//!
//! Nothing here trusts xfskit. The kernel makes trees with the corner cases of every on-disk form,
//! over a matrix of volumes. xfskit reads them, and both trees are compared entry by entry. The
//! kernel mounts, fills and empties the volumes that xfskit makes, and `xfs_repair -n` must have no
//! findings.
//!
//! | module | contents |
//! | --- | --- |
//! | [`need`] | requirements of a test; a skip that names the missing one |
//! | [`tools`] | the installed xfsprogs, and the newer version beside it |
//! | [`image`] | scratch directories, sparse images, mounts that end with their guard |
//! | [`manifest`] | one comparable record for each file of a tree, and the differences of two trees |
//! | [`verify`] | verification of a volume by all tools |
//! | [`kernel`] | the manifest of a mounted tree, as the operating system shows it |
//! | [`matrix`] | one volume for each option of mkfs.xfs |
//! | [`dirty`] | volumes with a dirty log of the kernel |
//! | [`bytes`] | byte-by-byte comparison of two sparse images |
//! | [`corruption`] | single corrupt fields, written with `xfs_db` |
//! | [`ours`] | xfskit's view of a volume |
//! | [`proto`] | volumes filled without a mount |
//! | [`trees`] | builders of trees: every form of directory, attribute, file, inode |
//!
//! `XFSKIT_REQUIRE_ORACLE=1` turns a skip into a failure. `XFSKIT_LONG=1` adds the long runs.
//! `XFSKIT_SCRATCH=DIR` chooses the directory for images (default: `/dev/shm` if it is large
//! enough, else `/tmp`).

pub mod bytes;
pub mod corruption;
pub mod dirty;
pub mod fsxattr;
pub mod image;
pub mod kernel;
pub mod manifest;
pub mod matrix;
pub mod need;
pub mod ours;
pub mod proto;
pub mod tools;
pub mod trees;
pub mod verify;

pub use image::{Image, Mount, Scratch};
pub use manifest::{Entry, Manifest};
pub use need::{Need, needs};
pub use tools::Xfsprogs;

/// Returns whether the long runs were requested (`XFSKIT_LONG=1`): bigger trees and the whole
/// matrix.
pub fn long() -> bool {
    std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1")
}
