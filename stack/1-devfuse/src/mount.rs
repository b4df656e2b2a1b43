//! Mounting, directly or through fusermount3.

use std::ffi::{CString, OsStr};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::device::Channel;

/// The program that mounts for users other than root.
const HELPER: &str = "fusermount3";
/// The variable that tells it the descriptor of its socket.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// How a mount is made.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The source that the list of mounts shows.
    pub fsname: String,
    /// The type behind `fuse.`.
    pub subtype: String,
    /// Flags of mount(2): read-only, `nodev`, ….
    pub flags: MountFlags,
    /// Users other than the mounting one have access.
    pub allow_other: bool,
    /// The kernel checks permissions.
    pub default_permissions: bool,
}

/// Names of flags, as fusermount3 has them.
const FLAGS: &[(MountFlags, &str, &str)] = &[
    (MountFlags::RDONLY, "ro", "rw"),
    (MountFlags::NODEV, "nodev", "dev"),
    (MountFlags::NOSUID, "nosuid", "suid"),
    (MountFlags::NOEXEC, "noexec", "exec"),
    (MountFlags::NOATIME, "noatime", "atime"),
    (MountFlags::SYNCHRONOUS, "sync", "async"),
];

/// Mounts on the directory `dir`, an absolute path, and returns the channel of the requests.
///
/// # Errors
/// The device or fusermount3 is missing, or the system refuses. Without root's rights,
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for flags that fusermount3 would change.
pub fn mount(dir: &Path, options: &MountOptions) -> io::Result<Channel> {
    let channel = Channel::open()?;
    match mount_directly(&channel, dir, options) {
        Err(Errno::PERM) => mount_by_helper(dir, options),
        mounted => Ok(mounted.map(|()| channel)?),
    }
}

fn mount_directly(channel: &Channel, dir: &Path, options: &MountOptions) -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mode = rustix::fs::stat(dir)?.st_mode & 0o170_000;
    let mut data = format!(
        "fd={},rootmode={mode:o},user_id={},group_id={}",
        channel.number(),
        uid.as_raw(),
        gid.as_raw()
    );
    if options.default_permissions {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let kind = format!("fuse.{}", options.subtype);
    rustix::mount::mount(&*options.fsname, dir, &*kind, options.flags, Some(&*data))
}

/// Fails for flags that only root may leave out: fusermount3 would set them without a word.
fn refuse_flags_of_root(flags: MountFlags) -> io::Result<()> {
    let of_root = [MountFlags::NODEV, MountFlags::NOSUID].map(|flag| !flags.contains(flag));
    let names = match of_root {
        [false, false] => return Ok(()),
        [true, false] => "option dev is",
        [false, true] => "option suid is",
        [true, true] => "options dev and suid are",
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("mount {names} for root only")))
}

fn mount_by_helper(dir: &Path, options: &MountOptions) -> io::Result<Channel> {
    refuse_flags_of_root(options.flags)?;
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(HELPER)
        .args([OsStr::new("-o"), OsStr::new(&words(options)), OsStr::new("--"), dir.as_os_str()])
        // Its standard input is inherited without further ado.
        .env(HELPER_SOCKET, "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{HELPER}: {error}")))?;
    let received = receive_descriptor(&ours);
    drop(ours);
    finish(child)?;
    let missing = || io::Error::other(format!("{HELPER} sent no descriptor"));
    Ok(Channel::from_fd(received?.ok_or_else(missing)?))
}

/// Returns the options for fusermount3.
fn words(options: &MountOptions) -> String {
    let mut words = Vec::new();
    for &(flag, set, unset) in FLAGS {
        words.push(if options.flags.contains(flag) { set.into() } else { unset.into() });
    }
    if options.default_permissions {
        words.push("default_permissions".into());
    }
    if options.allow_other {
        words.push("allow_other".into());
    }
    words.push(format!("subtype={}", options.subtype));
    words.push(format!("fsname={}", escaped(&options.fsname)));
    words.join(",")
}

/// Returns a value with its commas and backslashes escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// Waits for the helper, and fails with what it says.
fn finish(child: Child) -> io::Result<()> {
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::new(io::ErrorKind::PermissionDenied, said))
}

/// Receives the descriptor that the helper sends; `None` if it ends without.
fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(received)
}

/// Takes the mount on `dir` down; with `lazy` as soon as it is not in use.
///
/// # Errors
/// It is in use, or the system refuses.
pub fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(dir, flags) {
        Err(Errno::PERM) => unmount_by_helper(dir, lazy),
        unmounted => Ok(unmounted?),
    }
}

fn unmount_by_helper(dir: &Path, lazy: bool) -> io::Result<()> {
    let mut command = Command::new(HELPER);
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(dir);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    finish(child.map_err(|error| io::Error::new(error.kind(), format!("{HELPER}: {error}")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_root_are_refused_without_the_helper() {
        let (safe, nodev) = (MountFlags::NODEV | MountFlags::NOSUID, MountFlags::NODEV);
        assert!(refuse_flags_of_root(safe | MountFlags::RDONLY).is_ok());
        for (flags, says) in [
            (nodev, "mount option suid is for root only"),
            (MountFlags::NOSUID, "mount option dev is for root only"),
            (MountFlags::RDONLY, "mount options dev and suid are for root only"),
        ] {
            let refused = refuse_flags_of_root(flags).unwrap_err();
            assert_eq!(
                (refused.kind(), refused.to_string()),
                (io::ErrorKind::PermissionDenied, says.into())
            );
        }
    }

    #[test]
    fn the_helper_is_told_everything() {
        let options = MountOptions {
            fsname: "a,b".into(),
            subtype: "xfskit".into(),
            flags: MountFlags::RDONLY | MountFlags::NODEV | MountFlags::SYNCHRONOUS,
            allow_other: true,
            default_permissions: true,
        };
        assert_eq!(
            words(&options),
            "ro,nodev,suid,exec,atime,sync,default_permissions,allow_other,subtype=xfskit,fsname=a\\,b"
        );
    }
}
