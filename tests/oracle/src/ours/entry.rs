//! One file as xfskit sees it, in the words of the manifest.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode, OverlayDevice};
use xfskit_core::{Inode, OpenOptions, Volume};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::ByteOffset;

use crate::fsxattr;
use crate::image::Image;
use crate::manifest::{Digest, Entry, Extra, Time};

/// Opens the volume as any reader does, its journal replayed in memory; and says how many changes
/// the journal began and did not end.
pub fn open(image: &Image) -> (Volume, usize) {
    let device = FileDevice::open(image.path(), OpenMode::ReadOnly).expect("open the image");
    let overlay: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::new(device)));
    let log_dev = image.log().map(|path| -> Arc<dyn BlockDevice> {
        Arc::new(FileDevice::open(path, OpenMode::ReadOnly).expect("open the log"))
    });
    let sb = xfskit_core::volume::read_superblock(&*overlay).expect("a superblock");
    let replay = xfskit_core::recovery::replay(&*overlay, log_dev.as_deref(), &sb).expect("replay");
    let options = OpenOptions { recovery: false, log_dev, ..OpenOptions::default() };
    let volume = Volume::open(overlay, &options).expect("open the volume");
    (volume, replay.unfinished.len())
}

/// Everything about one inode but its attributes.
pub fn entry(volume: &Volume, inode: &Inode) -> Result<Entry, String> {
    let (core, geo) = (inode.core(), volume.geo());
    let time = |t: Timestamp| -> Time { (t.sec, t.nsec) };
    let kind = u32::from(core.mode()) & 0o170_000;
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
        ..Entry::default()
    };
    if core.is_dir() || core.is_regular() {
        entry.extra = Some(extra(inode, geo.blocklog));
    }
    if core.is_regular() {
        let file = volume.open_file(inode).map_err(|error| error.to_string())?;
        let ranges = file.data_ranges();
        entry.data = ranges.iter().map(|range| (range.start, range.end - range.start)).collect();
        let mut digest = Digest::default();
        let mut buffer = vec![0; 1 << 20];
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
                let part = left.min(buffer.len());
                let read = file.read_at(ByteOffset(at), &mut buffer[..part]);
                if read.map_err(|error| error.to_string())? != part {
                    return Err(format!("short read at {at}"));
                }
                digest.update(&buffer[..part]);
                at += part as u64;
            }
        }
        entry.digest = digest.finish();
    }
    if kind == 0o120_000 {
        let target = volume.readlink(inode).map_err(|error| error.to_string())?;
        entry.target = Some(target);
    }
    Ok(entry)
}

/// What `FS_IOC_FSGETXATTR` makes of an inode: `xfs.h` gives the flags of both sides.
fn extra(inode: &Inode, blocklog: u8) -> Extra {
    const DAX: u64 = 1;
    const COWEXTSIZE: u64 = 4;
    // Of the flags on disk only NEWRTBM (4) is no flag of the call; the others have the same bits.
    const SHOWN: u16 = 0x7fff & !4;
    let core = inode.core();
    let mut xflags = u32::from(core.flags() & SHOWN);
    for (bit, flag) in [(DAX, 0x8000), (COWEXTSIZE, fsxattr::COWEXTSIZE)] {
        if core.flags2() & bit != 0 {
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
