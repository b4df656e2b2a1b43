//! The mounts of this machine that xfskit serves, from `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::exit::Failure;

/// The type of our mounts.
const TYPE: &[u8] = b"fuse.xfskit";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountEntry {
    /// `major:minor` of its device number: no other mount has it.
    pub device: String,
    /// What it was mounted on.
    pub dir: PathBuf,
    /// What was mounted, as the table says.
    pub source: OsString,
}

/// Returns our mount on `dir`, an absolute path: the topmost if there are several.
pub(super) fn find(dir: &Path) -> Result<Option<MountEntry>, Failure> {
    last(|entry| entry.dir == dir)
}

/// Returns our mount with this device number.
pub(super) fn with_number(device: &str) -> Result<Option<MountEntry>, Failure> {
    last(|entry| entry.device == device)
}

/// Returns our mount that `path` is on; symbolic links are followed. A mount whose process is gone
/// is found by its directory only.
pub(super) fn of(path: &Path) -> Result<Option<MountEntry>, Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) => {
            let (major, minor) = (major(metadata.dev()), minor(metadata.dev()));
            with_number(&format!("{major}:{minor}"))
        }
        Err(error) => match find(&absolute(path)?)? {
            Some(entry) => Ok(Some(entry)),
            None => Err(Failure::cannot(format!("{}: {error}", path.display()))),
        },
    }
}

/// Returns our mount that `path` is on.
///
/// # Errors
/// It is on none.
pub(super) fn on(path: &Path) -> Result<MountEntry, Failure> {
    of(path)?.ok_or_else(|| {
        Failure::cannot(format!("{}: not on a mount by xfskit", path.display()))
            .hint("`findmnt -t fuse.xfskit` lists its mounts")
    })
}

/// Returns the last of our mounts that `is_it` accepts.
fn last(is_it: impl Fn(&MountEntry) -> bool) -> Result<Option<MountEntry>, Failure> {
    let table = std::fs::read("/proc/self/mountinfo")
        .map_err(|error| Failure::cannot(format!("/proc/self/mountinfo: {error}")))?;
    Ok(table.split(|&byte| byte == b'\n').filter_map(parse).rfind(is_it))
}

/// Parses a line; `None` if the mount is not ours.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = String::from_utf8(fields.nth(2)?.to_vec()).ok()?;
    let dir = unescaped(fields.nth(1)?);
    let mut behind = fields.skip_while(|field| *field != b"-");
    if behind.nth(1)? != TYPE {
        return None;
    }
    let source = unescaped(behind.next()?).into_os_string();
    Some(MountEntry { device, dir, source })
}

/// Returns a path whose blanks, tabs, newlines and backslashes are written as `\ooo`.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| byte == b'\\');
        let code = code.and_then(|octal| std::str::from_utf8(octal).ok());
        if let Some(escaped) = code.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            path.push(escaped);
            rest = &behind[3..];
        } else {
            path.push(byte);
            rest = behind;
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Returns the absolute path of a mount point, even if its process is gone.
pub(super) fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let cannot = |error: std::io::Error| Failure::cannot(format!("{}: {error}", dir.display()));
    // The root of a dead mount cannot be looked at; its parent can.
    let (parent, name) = match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) if !name.as_bytes().is_empty() => (parent, name),
        _ => return dir.canonicalize().map_err(cannot),
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let path = parent.canonicalize().map_err(cannot)?.join(name);
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_symlink() => dir.canonicalize().map_err(cannot),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_parsed() {
        let line = b"99 26 0:53 / /srv/my\\040disk rw,nosuid shared:3 - fuse.xfskit a.img rw";
        let (device, dir) = ("0:53".to_owned(), PathBuf::from("/srv/my disk"));
        let source = "a.img".into();
        assert_eq!(parse(line), Some(MountEntry { device, dir, source }));
        assert_eq!(parse(b"99 26 0:53 / /srv rw - fuse.sshfs a rw"), None);
        assert_eq!(parse(b""), None);
    }
}
