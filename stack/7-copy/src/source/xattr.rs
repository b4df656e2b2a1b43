//! Extended attributes of a source: from the names that programs use to those that XFS stores.

use xfskit_format::attr::acl::{ACCESS, ACCESS_XATTR, DEFAULT, DEFAULT_XATTR, from_xattr};
use xfskit_format::attr::{Namespace, VALUE_MAX};
use xfskit_format::symlink;

use super::SourceError;
use super::tree::Xattr;
use crate::acl;

/// The attributes of one inode, collected one by one.
#[derive(Debug, Default)]
pub(super) struct Xattrs {
    found: Vec<Xattr>,
    /// Permissions from the access ACL.
    perm: Option<u16>,
    /// Number of attributes for which XFS has no namespace.
    foreign: u64,
}

impl Xattrs {
    /// Returns true if XFS has a namespace for attribute `name`.
    pub(super) fn wanted(name: &[u8]) -> bool {
        let has = |prefix: &str| name.starts_with(prefix.as_bytes());
        has("user.") || has("trusted.") || has("security.") || has("system.posix_acl_")
    }

    /// Adds attribute `name` as programs see it. An attribute without a namespace in XFS (`system.`
    /// except ACLs, other filesystems' own) is counted and left out.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
    ) -> Result<(), SourceError> {
        if name == ACCESS_XATTR.as_bytes() || name == DEFAULT_XATTR.as_bytes() {
            let acl = acl::Acl::from_xattr(value).ok_or_else(|| damaged(path, name))?;
            return self.add_acl(path, name == ACCESS_XATTR.as_bytes(), &acl);
        }
        for namespace in [Namespace::User, Namespace::Trusted, Namespace::Secure] {
            if let Some(name) = name.strip_prefix(namespace.prefix().as_bytes()) {
                return self.push(path, namespace, name, value);
            }
        }
        self.foreign += 1;
        Ok(())
    }

    /// Returns the number of attributes that were left out.
    pub(super) fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Counts one that is left out without reading its value.
    pub(super) fn leave_out(&mut self) {
        self.foreign += 1;
    }

    /// Adds an access ACL, or the default ACL of a directory. One that a mode can express becomes
    /// the mode.
    pub(super) fn add_acl(
        &mut self,
        path: &[u8],
        access: bool,
        acl: &acl::Acl,
    ) -> Result<(), SourceError> {
        if access {
            self.perm = Some(acl.perm());
            if acl.is_minimal() {
                return Ok(());
            }
        }
        let name = if access { ACCESS } else { DEFAULT };
        let disk = from_xattr(&acl.to_xattr()).ok_or_else(|| damaged(path, name))?;
        self.push(path, Namespace::Trusted, name, &disk)
    }

    fn push(
        &mut self,
        path: &[u8],
        namespace: Namespace,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), SourceError> {
        if name.is_empty() || name.len() > 255 || value.len() as u64 > VALUE_MAX.into() {
            let what = format!(
                "attribute {}{}: name of {} bytes (1 to 255), value of {} (at most {VALUE_MAX})",
                namespace.prefix(),
                String::from_utf8_lossy(name),
                name.len(),
                value.len()
            );
            return Err(SourceError::Unfit { path: path.to_vec(), what });
        }
        self.found.push(Xattr { namespace, name: name.into(), value: value.into() });
        Ok(())
    }

    /// Returns all attributes, sorted, and `perm` with the ACL applied. Of two with one name the
    /// later counts.
    pub(super) fn finish(mut self, perm: u16) -> (Vec<Xattr>, u16) {
        self.found.reverse();
        self.found.sort_by(|a, b| key(a).cmp(&key(b)));
        self.found.dedup_by(|later, kept| key(later) == key(kept));
        (self.found, self.perm.map_or(perm, |acl| perm & !0o777 | acl))
    }
}

fn key(xattr: &Xattr) -> (Namespace, &[u8]) {
    (xattr.namespace, &xattr.name)
}

fn damaged(path: &[u8], name: &[u8]) -> SourceError {
    let what = format!("{} is not an ACL", String::from_utf8_lossy(name));
    SourceError::Unfit { path: path.to_vec(), what }
}

/// Refuses the target of a symbolic link that XFS cannot hold.
pub(super) fn check_target(path: &[u8], target: &[u8]) -> Result<(), SourceError> {
    let max = symlink::MAX_LEN;
    if target.is_empty() || target.len() as u64 > max.into() || target.contains(&0) {
        let what = format!("a link's target of {} bytes; XFS holds 1 to {max}", target.len());
        return Err(SourceError::Unfit { path: path.to_vec(), what });
    }
    Ok(())
}
