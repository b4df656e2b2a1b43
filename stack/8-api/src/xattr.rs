//! Extended attributes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::{Error, Result};

/// One extended attribute, by the name that programs use: `user.…`, `trusted.…`,
/// `security.…`, `system.posix_acl_access`, `system.posix_acl_default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    name: OsString,
    value: Vec<u8>,
}

impl Xattr {
    /// Returns the name, with its namespace.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the value, as `getxattr` returns it.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Returns the value, as `getxattr` returns it.
    pub fn into_value(self) -> Vec<u8> {
        self.value
    }
}

/// The extended attributes of a file, in the order of the disk: an iterator. Damage is an item, and
/// does not hide the attributes that can be read.
#[derive(Debug)]
pub struct Xattrs {
    items: std::vec::IntoIter<Result<Xattr>>,
}

impl Xattrs {
    pub(crate) fn new(
        path: &Path,
        (xattrs, errors): (Vec<xfskit_vfs::Xattr>, Vec<xfskit_vfs::Error>),
    ) -> Self {
        let item = |xattr: xfskit_vfs::Xattr| {
            Ok(Xattr { name: OsString::from_vec(xattr.name), value: xattr.value })
        };
        let failed = |error: xfskit_vfs::Error| {
            let inside = crate::volume::inside(path);
            Err(Error::at(error.at("read the attributes of", &inside), path))
        };
        let items = xattrs.into_iter().map(item).chain(errors.into_iter().map(failed));
        Self { items: items.collect::<Vec<_>>().into_iter() }
    }
}

impl Iterator for Xattrs {
    type Item = Result<Xattr>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next()
    }
}
