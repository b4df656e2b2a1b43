//! The tree that a mount shows, compared with the one that Linux shows afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use xfskit_test_support::{Manifest, kernel};

/// Differences that a message names.
const NAMED: usize = 10;

/// Returns the tree below `root`, as the operating system shows it.
///
/// # Errors
/// Something in it cannot be read.
pub fn shown(root: &Path) -> Result<Manifest, String> {
    catch_unwind(AssertUnwindSafe(|| kernel::manifest(root))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        format!("{}: a walk: {}", root.display(), text.unwrap_or_default())
    })
}

/// How much of a tree is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Everything that FUSE shows.
    #[default]
    All,
    /// All but the times of change. The kernel's cache does not learn of the times that a punched
    /// hole changes on disk.
    WithoutTimes,
}

/// Removes what the mount does not show (times of birth), what reading the tree changes (times of
/// access), and what is decided when content is written (blocks and extents).
fn comparable(mut manifest: Manifest, how: Compare) -> Manifest {
    for entry in manifest.entries.values_mut() {
        (entry.btime, entry.atime, entry.blocks) = ((0, 0), (0, 0), 0);
        if how == Compare::WithoutTimes {
            (entry.mtime, entry.ctime) = ((0, 0), (0, 0));
        }
        if let Some(extra) = &mut entry.extra {
            extra.nextents = 0;
        }
    }
    manifest
}

/// Compares the tree that our mount showed with the one that Linux shows.
///
/// # Errors
/// The differences.
pub fn same(ours: Manifest, linux: Manifest, how: Compare) -> Result<(), String> {
    differences(comparable(ours, how), comparable(linux, how), "the tree")
}

/// Compares two copies of a tree: all but the inode numbers, the times of change and of access, and
/// where holes are, which copying programs decide themselves.
///
/// # Errors
/// The differences.
pub fn same_copy(ours: Manifest, linux: Manifest) -> Result<(), String> {
    let copied = |mut manifest: Manifest| {
        // The root of a copy is the directory that the test made.
        manifest.entries.remove(b"/".as_slice());
        for entry in manifest.entries.values_mut() {
            (entry.ino, entry.ctime, entry.data, entry.digest) = (0, (0, 0), Vec::new(), 0);
            entry.extra = None;
            // Of a directory, the links are the subdirectories on XFS.
            if entry.mode & 0o170_000 == 0o040_000 {
                entry.size = 0;
            }
        }
        comparable(manifest, Compare::All)
    };
    differences(copied(ours), copied(linux), "the copy")
}

fn differences(ours: Manifest, linux: Manifest, what: &str) -> Result<(), String> {
    let found = linux.differences(&ours, NAMED);
    if found.is_empty() { Ok(()) } else { Err(format!("{what} differs:\n{}", found.join("\n"))) }
}
