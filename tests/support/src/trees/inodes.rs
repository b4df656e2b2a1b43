//! The content of inodes: types, device numbers, modes, owners, times, flags, projects; and inode
//! chunks that are partly or completely free.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::fresh;
use crate::fsxattr::{self, FsXattr};

/// Builds every form.
pub fn all(root: &Path) -> io::Result<()> {
    special(&fresh(root, "special")?)?;
    modes(&fresh(root, "modes")?)?;
    owners(&fresh(root, "owners")?)?;
    times(&fresh(root, "times")?)?;
    flags(&fresh(root, "flags")?)?;
    chunks(&fresh(root, "chunks")?)
}

fn special(dir: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o640);
    // XFS stores 9 bits of major and 18 bits of minor.
    let numbers = [(0, 0), (1, 3), (8, 0), (255, 255), (256, 256), (0, 0x3_ffff), (511, 0x3_ffff)];
    for (major, minor) in numbers {
        let device = rustix::fs::makedev(major, minor);
        for (letter, kind) in [('c', FileType::CharacterDevice), ('b', FileType::BlockDevice)] {
            // 0/0 as a character device is a whiteout, which is valid as well.
            let path = dir.join(format!("{letter}-{major}-{minor}"));
            rustix::fs::mknodat(CWD, path, kind, mode, device)?;
        }
    }
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, mode, 0)?;
    rustix::fs::mknodat(CWD, dir.join("socket"), FileType::Socket, mode, 0)?;
    Ok(())
}

fn modes(dir: &Path) -> io::Result<()> {
    for mode in [0, 0o777, 0o1777, 0o2755, 0o4711, 0o7777, 0o644, 0o1, 0o400] {
        let path = dir.join(format!("file-{mode:o}"));
        fs::write(&path, "")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        let path = fresh(dir, &format!("directory-{mode:o}"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn owners(dir: &Path) -> io::Result<()> {
    for id in [0, 1, 1000, 65_534, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe] {
        let path = dir.join(id.to_string());
        fs::write(&path, "")?;
        chown(&path, Some(id), Some(id / 2))?;
    }
    Ok(())
}

fn times(dir: &Path) -> io::Result<()> {
    let moments = [
        -0x8000_0000,
        -1_000_000_000,
        -1,
        0,
        1,
        999_999_999,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        16_299_260_424,
        16_299_260_425,
    ];
    for moment in moments {
        for nanoseconds in [0, 1, 123_456_789, 999_999_999] {
            let path = dir.join(format!("{moment}.{nanoseconds}"));
            fs::write(&path, "")?;
            let times = Timestamps {
                last_access: Timespec { tv_sec: moment, tv_nsec: 999_999_999 - nanoseconds },
                last_modification: Timespec { tv_sec: moment, tv_nsec: nanoseconds },
            };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn set_extra(path: &Path, change: impl FnOnce(&mut FsXattr)) -> io::Result<()> {
    let file = File::open(path)?;
    let mut extra = fsxattr::get(file.as_fd())?;
    change(&mut extra);
    Ok(fsxattr::set(file.as_fd(), extra)?)
}

fn flags(dir: &Path) -> io::Result<()> {
    let of_files = [
        ("immutable", fsxattr::IMMUTABLE),
        ("append", fsxattr::APPEND),
        ("sync", fsxattr::SYNC),
        ("noatime", fsxattr::NOATIME),
        ("nodump", fsxattr::NODUMP),
        ("nodefrag", fsxattr::NODEFRAG),
        ("several", fsxattr::NODUMP | fsxattr::NOATIME | fsxattr::SYNC),
    ];
    for (name, flags) in of_files {
        let path = dir.join(name);
        fs::write(&path, name)?;
        set_extra(&path, |extra| extra.xflags |= flags)?;
    }
    let hinted = dir.join("extsize");
    File::create(&hinted)?;
    set_extra(&hinted, |extra| {
        extra.xflags |= fsxattr::EXTSIZE;
        extra.extsize = 256 << 10;
    })?;
    fs::write(&hinted, "x".repeat(70_000))?;
    for (number, project) in [1, 65_535, 65_536, 0x8000_0000, u32::MAX - 1].into_iter().enumerate()
    {
        let path = dir.join(format!("project{number}"));
        fs::write(&path, "")?;
        set_extra(&path, |extra| extra.projid = project)?;
    }
    for (name, flags) in [
        ("projinherit", fsxattr::PROJINHERIT),
        ("nosymlinks", fsxattr::NOSYMLINKS),
        ("extszinherit", fsxattr::EXTSZINHERIT),
    ] {
        let path = fresh(dir, name)?;
        set_extra(&path, |extra| {
            extra.xflags |= flags;
            extra.projid = 4_000_000_000;
            if flags == fsxattr::EXTSZINHERIT {
                extra.extsize = 128 << 10;
            }
        })?;
        fs::write(path.join("heir"), "inherits")?;
        fresh(&path, "heiress")?;
    }
    Ok(())
}

/// Makes inode chunks: full, with holes, and some completely freed.
fn chunks(dir: &Path) -> io::Result<()> {
    for number in 0..1500 {
        fs::write(dir.join(number.to_string()), "")?;
    }
    for number in (0..1500).filter(|number| (400..900).contains(number) || number % 3 == 1) {
        fs::remove_file(dir.join(number.to_string()))?;
    }
    Ok(())
}

/// Fills the volume, then frees it in pieces smaller than an inode chunk, and creates files until
/// that fails.
pub fn sparse_chunks(root: &Path) -> io::Result<()> {
    let vfs = rustix::fs::statvfs(root)?;
    let (piece, inode) = (16 << 10, 512);
    let filler = File::create_new(root.join("filler"))?;
    let mut length = vfs.f_bavail * vfs.f_bsize;
    while length > 4 * piece {
        let at = filler.metadata()?.len();
        match rustix::fs::fallocate(&filler, FallocateFlags::empty(), at, length) {
            Ok(()) => {}
            Err(Errno::NOSPC) => length /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    let end = filler.metadata()?.len();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for number in 0..300 {
        let at = end / 300 * number / piece * piece;
        rustix::fs::fallocate(&filler, punch, at, piece)?;
    }
    let many = fresh(root, "many")?;
    for number in 0..300 * piece / inode {
        match File::create_new(many.join(number.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
            made => drop(made?),
        }
    }
    Ok(())
}

/// Clears the flags below `root` that forbid removal. Works by descriptors, since a path may be too
/// long.
pub fn clear_flags(root: &Path) -> io::Result<()> {
    clear_flags_below(rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)
}

fn clear_flags_below(dir: OwnedFd) -> io::Result<()> {
    let forbidding = fsxattr::IMMUTABLE | fsxattr::APPEND;
    for listed in rustix::fs::Dir::read_from(&dir)? {
        let listed = listed?;
        let name = listed.file_name();
        let is_directory = listed.file_type() == FileType::Directory;
        if name == c"." || name == c".." || !(is_directory || listed.file_type().is_file()) {
            continue;
        }
        let fd = rustix::fs::openat(&dir, name, OFlags::RDONLY, Mode::empty())?;
        let mut extra = fsxattr::get(fd.as_fd())?;
        if extra.xflags & forbidding != 0 {
            extra.xflags &= !forbidding;
            fsxattr::set(fd.as_fd(), extra)?;
        }
        if is_directory {
            clear_flags_below(fd)?;
        }
    }
    Ok(())
}
