//! Requirements of a test. If the machine lacks one, the test prints its name and the requirement,
//! and counts as skipped. Where skips are not allowed (`XFSKIT_REQUIRE_ORACLE=1`, as in CI) the
//! test fails instead.

use std::sync::OnceLock;

use crate::image::{Image, Mount, Scratch};
use crate::skip;
use crate::tools::Xfsprogs;

/// A requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Installed `mkfs.xfs`, `xfs_repair` and `xfs_db`.
    Xfsprogs,
    /// xfsprogs 6.13, unpacked by `tests/setup-tools.sh`.
    NewerXfsprogs,
    /// Root, loop devices and a kernel with XFS.
    Mount,
}

impl Need {
    /// Returns why the requirement is not met, or `None` if it is.
    fn missing(self) -> Option<String> {
        match self {
            Self::Xfsprogs => Xfsprogs::installed().is_none().then(|| {
                "mkfs.xfs, xfs_repair, xfs_db (Debian package xfsprogs) on the PATH".to_owned()
            }),
            Self::NewerXfsprogs => Xfsprogs::newer().is_none().then(|| {
                "xfsprogs 6.13 in .cache/xfsprogs-6.13 (run tests/setup-tools.sh)".to_owned()
            }),
            Self::Mount => mount_error(),
        }
    }
}

/// Returns whether all of `wanted` is available. Otherwise prints what is missing; the test then
/// returns at once and counts as skipped.
pub fn needs(wanted: &[Need]) -> bool {
    let missing: Vec<String> = wanted.iter().filter_map(|need| need.missing()).collect();
    if missing.is_empty() {
        return true;
    }
    skip(&missing.join("; "));
    false
}

/// Mounts and unmounts a small volume once. Returns the error if that fails.
fn mount_error() -> Option<String> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    REFUSAL
        .get_or_init(|| {
            if !rustix::process::geteuid().is_root() {
                return Some("root, to mount".to_owned());
            }
            let tools = Xfsprogs::installed()?;
            let attempt = || -> Result<(), String> {
                let scratch = Scratch::new("probe");
                let image = Image::sparse(&scratch, "probe.img", 300 << 20);
                tools.mkfs(&image, &[])?;
                Mount::read_write(&image, &scratch).map(drop)
            };
            attempt().err().map(|why| format!("a kernel that mounts XFS on loop devices ({why})"))
        })
        .clone()
}
