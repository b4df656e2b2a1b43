//! The oracle tests compare xfskit with Linux itself: `mkfs.xfs`, a kernel mount, `xfs_repair -n`
//! and `xfs_db`.
//!
//! Nothing here trusts xfskit. The kernel makes trees with the corner cases of every on-disk form,
//! over a matrix of volumes. xfskit reads them, and both trees are compared entry by entry. The
//! kernel mounts, fills and empties the volumes that xfskit makes, and `xfs_repair -n` must have no
//! findings.
//!
//! [`corruption`] lists single corrupt fields, written with `xfs_db`, and what `xfskit check` finds
//! of them. The rest is in `tests/support`.

pub mod corruption;
