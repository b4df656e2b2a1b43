//! The kernel's side of a comparison: an image mounted through a loop device with direct I/O, and
//! the ioctl that lists inodes. Needs root.
#![allow(unsafe_code)] // ioctl

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

/// Runs a command, which must succeed, and answers with what it printed.
///
/// # Errors
/// Where the command cannot be started or fails.
pub fn run(program: &str, args: &[&str]) -> io::Result<String> {
    let out = Command::new(program).args(args).output()?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim().to_string());
    }
    let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
    Err(io::Error::other(format!("{program} {}: {said}", args.join(" "))))
}

/// Forgets every page, inode and name that the machine caches.
///
/// # Errors
/// Without root.
pub fn drop_caches() -> io::Result<()> {
    run("sync", &[])?;
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// An image, mounted by the kernel until dropped.
#[derive(Debug)]
pub struct Mounted {
    loop_device: String,
    mount_point: PathBuf,
}

impl Mounted {
    /// Mounts `image` for reading, past the cache of its own pages.
    ///
    /// # Errors
    /// Without root, or where the kernel does not take the image.
    pub fn new(image: &Path) -> io::Result<Self> {
        Self::mount(image, &["--read-only", "--direct-io=on"], "ro")
    }

    /// Mounts `image` for writing, past the cache of its own pages.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn writable(image: &Path) -> io::Result<Self> {
        Self::mount(image, &["--direct-io=on"], "rw")
    }

    fn mount(image: &Path, loop_options: &[&str], how: &str) -> io::Result<Self> {
        let image = image.to_str().ok_or_else(|| io::Error::other("an image name in UTF-8"))?;
        let loop_args = [&["--find", "--show"], loop_options, &[image]].concat();
        let loop_device = run("losetup", &loop_args)?;
        let mount_point = std::env::temp_dir().join(format!("xfskit-bench-{}", std::process::id()));
        std::fs::create_dir_all(&mount_point)?;
        let mounted = Self { loop_device, mount_point };
        let target = mounted.mount_point.to_string_lossy();
        run("mount", &["-o", how, "-t", "xfs", &mounted.loop_device, &target])?;
        Ok(mounted)
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }
}

/// What a mounted volume has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Flushes of the device, those of writes with FUA included: loop devices have no FUA of their own.
    pub flushes: u64,
    /// Writes of the journal.
    pub log_writes: u64,
    /// Bytes of the journal.
    pub log_bytes: u64,
}

impl Mounted {
    /// What it has cost so far, as the kernel counts.
    ///
    /// # Errors
    /// Where the kernel does not count.
    pub fn costs(&self) -> io::Result<Costs> {
        let name = self.loop_device.trim_start_matches("/dev/");
        let read = |path: String| std::fs::read_to_string(path);
        let field = |line: &str, n: usize| -> u64 {
            line.split_whitespace().nth(n).and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let device = read(format!("/sys/block/{name}/stat"))?;
        let xfs = read(format!("/sys/fs/xfs/{name}/stats/stats"))?;
        let log = xfs.lines().find(|line| line.starts_with("log ")).unwrap_or_default();
        let (log_writes, log_bytes) = (field(log, 1), field(log, 2) * 512);
        Ok(Costs { flushes: field(&device, 15), log_writes, log_bytes })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let target = self.mount_point.to_string_lossy();
        for (program, args) in
            [("umount", &[&*target][..]), ("losetup", &["--detach", &self.loop_device][..])]
        {
            if let Err(err) = run(program, args) {
                eprintln!("{err}");
            }
        }
        let _ = std::fs::remove_dir(&self.mount_point);
    }
}

/// Inodes asked for at once.
const BATCH: u32 = 4096;
/// Words of the head of a request, `struct xfs_bulk_ireq`.
const HEAD: usize = 8;
/// Words of an answer, `struct xfs_bulkstat`: inode number, size, and 22 more.
const STAT: usize = 24;
/// Ask for one allocation group only.
const ONE_GROUP: u32 = 1;

/// `struct xfs_bulkstat_req` in words of 64 bits: the head, then room for [`BATCH`] answers.
struct Request(Vec<u64>);

impl Request {
    fn of_group(agno: u32) -> Self {
        let mut words = vec![0; HEAD + STAT * BATCH as usize];
        words[1] = pair(ONE_GROUP, BATCH);
        words[2] = pair(0, agno);
        Self(words)
    }

    /// The answers, as the head counts them.
    fn stats(&self) -> impl Iterator<Item = &[u64]> {
        let [b0, b1, b2, b3, ..] = self.0[2].to_ne_bytes();
        let found = u32::from_ne_bytes([b0, b1, b2, b3]);
        self.0[HEAD..].chunks(STAT).take(found as usize)
    }
}

/// Two neighbouring 32-bit fields.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

// SAFETY: the opcode is XFS_IOC_BULKSTAT, `_IOR('X', 127, struct xfs_bulkstat_req)`; the kernel
// reads the head, and writes it and at most as many answers behind it as the head asks for: BATCH,
// for which there is room. `Request` is private and made in one place.
unsafe impl Ioctl for &mut Request {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::read::<[u64; HEAD]>(b'X', 127)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Lists all inodes in use of group `agno` of the filesystem that holds `dir`; answers with their
/// count and the sum of their sizes.
///
/// # Errors
/// Where `dir` is not on XFS.
pub fn bulkstat(dir: &File, agno: u32) -> io::Result<(u64, u64)> {
    let mut request = Request::of_group(agno);
    let (mut count, mut bytes) = (0, 0);
    loop {
        // SAFETY: as at `Ioctl for &mut Request`.
        unsafe { rustix::ioctl::ioctl(dir, &mut request) }?;
        if request.stats().next().is_none() {
            return Ok((count, bytes));
        }
        for stat in request.stats() {
            count += 1;
            bytes += stat[1];
        }
    }
}
