//! What tests of all crates share. A crate asks for the features that it uses, so that tests of the
//! lowest floors do not build the upper ones.
//!
//! | feature | module | contents |
//! | --- | --- | --- |
//! | | [`entry`] | bytes of directory entries |
//! | | [`random`] | random numbers from a seed, and the replay of a failure |
//! | | [`skip`](mod@skip) | skips and notes that no runner hides; the long run |
//! | `kept` | [`kept`] | the images in `tests/images`, unpacked |
//! | `mkfs` | [`volumes`] | new volumes in memory |
//! | `guests` | [`guest`] | user-mode Linux: a kernel with what the machine's kernel lacks |
//! | `linux` | [`need`] | requirements of a test; a skip that names the missing one |
//! | | [`tools`] | the installed xfsprogs, and the newer version beside it |
//! | | [`image`] | scratch directories, sparse images, mounts that end with their guard |
//! | | [`loops`] | loop devices that end with their guard |
//! | | [`verify`] | verification of a volume by all tools |
//! | | [`manifest`] | a comparable record for each file of a tree; differences of two trees |
//! | | [`kernel`] | the manifest of a mounted tree, as the operating system shows it |
//! | | [`ours`] | xfskit's view of a volume |
//! | | [`matrix`] | one volume for each option of mkfs.xfs |
//! | | [`trees`] | builders of trees: every form of directory, attribute, file, inode |
//! | | [`proto`] | volumes filled without a mount |
//! | | [`dirty`] | volumes with a dirty log of the kernel |
//! | | [`bytes`] | byte-by-byte comparison of two sparse images |
//! | | [`transport`] | what carries the requests of a mount by xfskit |
//! | | [`fsxattr`] | inode flags and hints of a mounted file |
//!
//! Environment: `XFSKIT_SEED=N` replays a failure. `XFSKIT_REQUIRE_ORACLE=1` turns a skip into a
//! failure. `XFSKIT_LONG=1` adds the long runs. `XFSKIT_SCRATCH=DIR` chooses the directory for
//! images (default: `/dev/shm` if it is large enough, else `/tmp`), and `XFSKIT_KEEP=1` keeps them.

#[cfg(feature = "linux")]
pub mod bytes;
#[cfg(feature = "linux")]
pub mod dirty;
pub mod entry;
#[cfg(feature = "linux")]
pub mod fsxattr;
#[cfg(feature = "guests")]
pub mod guest;
#[cfg(feature = "linux")]
pub mod image;
#[cfg(feature = "kept")]
pub mod kept;
#[cfg(feature = "linux")]
pub mod kernel;
#[cfg(feature = "linux")]
pub mod loops;
#[cfg(feature = "linux")]
pub mod manifest;
#[cfg(feature = "linux")]
pub mod matrix;
#[cfg(feature = "linux")]
pub mod need;
#[cfg(feature = "linux")]
pub mod ours;
#[cfg(feature = "linux")]
pub mod proto;
pub mod random;
pub mod skip;
#[cfg(feature = "linux")]
pub mod tools;
#[cfg(feature = "linux")]
pub mod transport;
#[cfg(feature = "linux")]
pub mod trees;
#[cfg(feature = "linux")]
pub mod verify;
#[cfg(feature = "mkfs")]
pub mod volumes;

#[cfg(feature = "linux")]
pub use image::{Image, Mount, Scratch};
#[cfg(feature = "linux")]
pub use manifest::{Entry, Manifest};
#[cfg(feature = "linux")]
pub use need::{Need, needs};
pub use random::{Random, seed, seeds};
pub use skip::{long, note, skip};
#[cfg(feature = "linux")]
pub use tools::Xfsprogs;

/// Returns the root of the repository.
pub fn repository() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
