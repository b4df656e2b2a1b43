//! Extended attributes from one inode of a volume to another.

use xfskit_units::Ino;
use xfskit_vfs::{Error, Fs, SetMode};
/// Copies the extended attributes that `from` has and `wanted` accepts to inode `to`.
pub(crate) fn copy_xattrs(
    fs: &Fs,
    from: Ino,
    to: Ino,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<(), Error> {
    let (xattrs, errors) = fs.xattrs(&fs.inode(from)?);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    for xattr in xattrs.iter().filter(|xattr| is_wanted(&xattr.name)) {
        fs.set_xattr(to, &xattr.name, &xattr.value, SetMode::Any)?;
    }
    Ok(())
}
