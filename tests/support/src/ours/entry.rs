//! One file as xfskit shows it, as a record of the manifest.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_core::attr::Xattr;
use xfskit_core::file::File;
use xfskit_core::{Inode, OpenOptions, Result, Volume};
use xfskit_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::ByteOffset;
use xfskit_units::flags::FlagWord;

use crate::fsxattr;
use crate::image::Image;
use crate::manifest::{Digest, Entry, Extra, Time};

/// Opens the volume read-only, with its journal replayed in memory.
pub fn open(image: &Image) -> Volume {
    let open = |path: &Path| -> Arc<dyn BlockDevice> {
        Arc::new(FileDevice::open(path, OpenMode::ReadOnly).expect("open the image"))
    };
    let options = OpenOptions { log_dev: image.log().map(open), ..OpenOptions::default() };
    Volume::open(open(image.path()), &options).expect("open the volume")
}

/// Returns the record of one inode.
pub(super) fn entry(volume: &Volume, inode: &Inode) -> Result<Entry> {
    let (core, geo) = (inode.core(), volume.geo());
    let time = |t: Timestamp| -> Time { (t.sec, t.nsec) };
    let mut entry = Entry {
        ino: inode.ino().0,
        mode: core.mode().into(),
        uid: core.uid(),
        gid: core.gid(),
        nlink: core.nlink(),
        size: core.size().0,
        blocks: core.nblocks().0 << (geo.blocklog - 9),
        rdev: core.rdev().unwrap_or_default(),
        atime: time(core.atime()),
        mtime: time(core.mtime()),
        ctime: time(core.ctime()),
        btime: core.crtime().map(time).unwrap_or_default(),
        xattrs: xattrs(volume, inode)?,
        ..Entry::default()
    };
    if core.is_dir() || core.is_regular() {
        entry.extra = Some(extra(inode, geo.blocklog));
    }
    if core.is_regular() {
        let file = volume.open_file(inode)?;
        let ranges = file.data_ranges();
        entry.data =
            ranges.iter().map(|range| (range.start.0, range.end.0 - range.start.0)).collect();
        entry.digest = digest(&file, &ranges)?;
    }
    if core.file_type() == Some(FileType::Symlink) {
        entry.target = Some(volume.readlink(inode)?);
    }
    Ok(entry)
}

fn digest(file: &File, ranges: &[Range<ByteOffset>]) -> Result<u64> {
    let mut digest = Digest::default();
    let mut buffer = vec![0; 1 << 20];
    for range in ranges {
        let mut at = range.start.0;
        while at < range.end.0 {
            let left = usize::try_from(range.end.0 - at).unwrap_or(usize::MAX);
            let part = left.min(buffer.len());
            let read = file.read_at(ByteOffset(at), &mut buffer[..part])?;
            assert_eq!(read, part, "bytes read at {at}");
            digest.update(&buffer[..part]);
            at += part as u64;
        }
    }
    Ok(digest.finish())
}

fn xattrs(volume: &Volume, inode: &Inode) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut failed = None;
    volume.xattrs(inode, &mut |xattr| match xattr {
        Ok(Xattr { name, value }) => {
            let twin = found.insert(name, value.into_owned());
            assert!(twin.is_none(), "inode {}: an attribute is listed twice", inode.ino());
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(found), Err)
}

/// Returns the record that `FS_IOC_FSGETXATTR` would return. `xfs.h` defines the flags of both
/// sides.
fn extra(inode: &Inode, blocklog: u8) -> Extra {
    let core = inode.core();
    // Of the on-disk flags only NEWRTBM is not a flag of the ioctl; the others have the same bits.
    let flags = core.flags() - InodeFlags::NEWRTBM;
    let mut xflags = u32::from((flags - flags.undefined()).bits());
    for (bit, flag) in [(InodeFlags2::DAX, 0x8000), (InodeFlags2::COWEXTSIZE, fsxattr::COWEXTSIZE)]
    {
        if core.flags2().contains(bit) {
            xflags |= flag;
        }
    }
    if core.forkoff() != 0 {
        xflags |= fsxattr::HASATTR;
    }
    let count = u32::try_from(core.nextents()).unwrap_or(u32::MAX);
    Extra {
        xflags,
        extsize: core.extsize().0 << blocklog,
        nextents: if core.is_dir() { 0 } else { count },
        projid: core.projid(),
        cowextsize: core.cowextsize().0 << blocklog,
    }
}
