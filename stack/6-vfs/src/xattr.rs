//! Converts extended attributes from the names that programs use to those on disk.

use std::borrow::Cow;

use xfskit_core::Error as Core;
use xfskit_format::attr::{Namespace, acl};

use crate::{Error, Result};

/// Length of the longest value, in bytes.
const VALUE_MAX: usize = 64 << 10;
/// Length of the longest name on disk, in bytes.
const NAME_MAX: usize = 255;

/// Namespace, name and value of an attribute on disk.
type OnDisk<'a> = (Namespace, &'a [u8], Cow<'a, [u8]>);

/// Returns namespace, name and value on disk of the attribute that programs call `name`: the
/// reverse of [`Fs::xattrs`](crate::Fs::xattrs). The value of an ACL that is to be removed is
/// empty.
///
/// # Errors
/// A name without a known prefix, a name or value that is too long, an ACL that is not valid.
pub(crate) fn to_disk<'a>(name: &'a [u8], value: &'a [u8]) -> Result<OnDisk<'a>> {
    let no = |why| Error::Core(Core::Limit(why));
    for (xattr, on_disk) in [(acl::ACCESS_XATTR, acl::ACCESS), (acl::DEFAULT_XATTR, acl::DEFAULT)] {
        if name == xattr.as_bytes() {
            let acl = if value.is_empty() { Some(Vec::new()) } else { acl::from_xattr(value) };
            let acl = acl.filter(|acl| acl.is_empty() || acl::perm(acl).is_some());
            let acl = acl.ok_or_else(|| no("the value is no POSIX ACL"))?;
            return Ok((Namespace::Trusted, on_disk, acl.into()));
        }
    }
    let known = [
        (&b"user."[..], Namespace::User),
        (b"trusted.", Namespace::Trusted),
        (b"security.", Namespace::Secure),
    ];
    let split = known
        .iter()
        .find_map(|(prefix, namespace)| Some((*namespace, name.strip_prefix(*prefix)?)));
    let (namespace, rest) = split.ok_or_else(|| {
        let other = "an extended attribute with a prefix other than user., trusted. and security.";
        Core::Unsupported(other.into())
    })?;
    if rest.is_empty() {
        return Err(no("the name of an extended attribute is more than its prefix"));
    }
    if rest.len() > NAME_MAX {
        return Err(Core::AttrName.into());
    }
    if value.len() > VALUE_MAX {
        return Err(Core::AttrValue.into());
    }
    Ok((namespace, rest, value.into()))
}
