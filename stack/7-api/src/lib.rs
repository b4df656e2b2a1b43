//! Floor 7: XFS volumes from Rust, package `xfskit`.
//!
//! Everything that the command `xfskit` does is here for programs. Targets are named as on the
//! command line: a file, a block device, `IMAGE#p2`, `IMAGE#lv:vg/root`, `mem:SIZE`.
//!
//! Below this page stand the floors themselves, re-exported whole for those who want more:
//! [`core`] (volumes), [`mkfs`], [`check`](mod@check), [`target`], [`block`], [`log`], [`format`],
//! [`units`].

pub use xfskit_block as block;
pub use xfskit_check as check;
pub use xfskit_core as core;
pub use xfskit_format as format;
pub use xfskit_log as log;
pub use xfskit_mkfs as mkfs;
pub use xfskit_target as target;
pub use xfskit_units as units;
