//! Removed files with content on a realtime device. No kernel here writes one, so the remains of
//! such a file are made by hand: an inode in a freed chunk, as Linux leaves it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::format::inode::{InodeFlags, InodeMut, stamp, template};
use xfskit::raw::units::{AgBlock, AgNumber};
use xfskit::{Confidence, LostReason, RemovedFile, Undelete, Volume};
use xfskit_test_support::kept;

/// Size of the file in bytes: a bit less than its two realtime extents of 64 KiB.
const SIZE: usize = 100_000;
/// First block of the file on the realtime device.
const START: u64 = 32;
/// Bytes of a block.
const BLOCK: u64 = 4096;

/// A volume with a realtime device, on which one file was removed.
struct Place {
    dir: TempDir,
    image: PathBuf,
    realtime: PathBuf,
}

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| (n * 31 + n / 251).to_le_bytes()[0]).collect()
}

fn write(path: &Path, bytes: &[u8], at: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = kept::file("v5-rt", dir.path());
        let realtime = dir.path().join("rt");
        // As long as that of the volume.
        fs::File::create(&realtime).unwrap().set_len(64 << 20).unwrap();
        write(&realtime, &content(), START * BLOCK);
        let volume = Volume::open(&image).unwrap();
        let geo = volume.fs().volume().geo();
        let ino = geo.agino_to_ino(AgNumber(1), geo.agb_to_agino(AgBlock(1000)));
        let mut bytes = vec![0; geo.inodesize()];
        template(&mut bytes, geo, ino, 5);
        let inode = InodeMut::new(&mut bytes).unwrap();
        let core = &mut inode.core.core;
        (core.mode, core.format, core.aformat) = (0o100_644.into(), 2, 2);
        (core.nlinkv2, core.nextents) = (1.into(), 1.into());
        core.flags = InodeFlags::REALTIME.bits().into();
        (core.size, core.nblocks) = ((SIZE as u64).into(), 32.into());
        // An extent record: 32 blocks at the start of the file.
        inode.literal[8..16].copy_from_slice(&(START << 21 | 32).to_be_bytes());
        stamp(&mut bytes);
        write(&image, &bytes, geo.ino_to_byte(ino).unwrap().0);
        Self { dir, image, realtime }
    }

    /// Returns the removed file, found by a search.
    fn find(&self) -> (Volume, RemovedFile) {
        let volume = Volume::open(&self.image).unwrap();
        let found = Undelete::new(&volume).run().unwrap();
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        let file = found.files.into_iter().find(|file| file.realtime).expect("the file");
        (volume, file)
    }
}

#[test]
fn content_on_a_realtime_device_is_copied_from_the_named_one() {
    let place = Place::new();
    let (volume, file) = place.find();
    assert_eq!((file.confidence, file.extents[0].device_offset), (Confidence::Good, START * BLOCK));
    let files = [file];
    let to = place.dir.path().join("to");
    let copied = Undelete::new(&volume).copy_to(&to, &files).unwrap();
    let error = copied[0].error.as_ref().expect("the device is not named").to_string();
    assert!(error.contains("realtime") && copied[0].to.is_none(), "{error}");
    let copied = Undelete::new(&volume).realtime(&place.realtime).copy_to(&to, &files).unwrap();
    assert!(copied[0].error.is_none(), "{:?}", copied[0]);
    assert!(fs::read(copied[0].to.as_ref().unwrap()).unwrap() == content());
    // In place it is refused by name, in a plan too.
    let planned = Undelete::new(&volume).plan_restore(&files).unwrap();
    let error = planned[0].error.as_ref().expect("refused").to_string();
    assert!(error.contains("realtime device"), "{error}");
}

#[test]
fn blocks_of_a_realtime_device_that_are_in_use_are_lost() {
    let place = Place::new();
    let (volume, _) = place.find();
    // Realtime extent 2 gets in use: the first of the file.
    let core = volume.fs().volume();
    let bitmap = core.iget(core.geo().rbmino.unwrap()).unwrap();
    let map = core.extents(&bitmap, xfskit::raw::format::Fork::Data).unwrap();
    let at = core.geo().fsb_to_byte(map.as_slice()[0].startblock).unwrap().0;
    let mut byte = [0];
    fs::File::open(&place.image).unwrap().read_exact_at(&mut byte, at).unwrap();
    assert_eq!(byte[0], 0xff, "all is free");
    write(&place.image, &[byte[0] & !4], at);
    let (_, file) = place.find();
    assert_eq!((file.confidence, file.lost.len()), (Confidence::Partial, 1), "{file:?}");
    let lost = &file.lost[0];
    assert_eq!((lost.range.clone(), lost.reason), (0..65_536, LostReason::InUse));
}
