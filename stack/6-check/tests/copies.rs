//! Checks of devices that have two copies of their bytes.

use std::sync::Arc;

use crate::common::{Image, check_all};
use xfskit_block::{BlockDevice, FaultDevice, FaultPlan, OverlayDevice, Result};
use xfskit_check::{Options, check};
use xfskit_units::{ByteLen, ByteOffset};

/// A mirror: reads come from the first copy.
#[derive(Debug)]
struct Mirror([OverlayDevice; 2]);

impl BlockDevice for Mirror {
    xfskit_block::plain!(
        lend,
        logical_block_size,
        physical_block_size,
        topology,
        is_read_only,
        read_batch,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        heal
    );
    fn size(&self) -> ByteLen {
        self.0[0].size()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.0[0].read_at(offset, buf)
    }
    fn write_at(&self, _: ByteOffset, _: &[u8]) -> Result<()> {
        Err(xfskit_block::Error::ReadOnly)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn alternatives(&self, _: ByteOffset, _: ByteLen) -> usize {
        2
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.0[k].read_at(offset, buf)
    }
}

#[test]
fn scrub_finds_damage_in_a_copy_that_is_not_read() {
    let image = Image::kept("v5");
    let agf = image.header(1, 1);
    let dev = Mirror([image.copy(), image.damaged(agf, |bytes| bytes[52] ^= 1)]);
    assert!(check_all(&dev).1.is_empty(), "the first copy is sound");

    let mut ids = Vec::new();
    let options = Options { scrub: true, ..Options::default() };
    let report = check(&dev, None, &options, &mut |f| ids.push(f.corruption.check.0)).unwrap();
    assert_eq!(ids, ["scrub.copy"]);
    assert!(!report.clean());
}

#[test]
fn a_sound_copy_is_used_instead_of_a_damaged_one() {
    let image = Image::kept("v5");
    let root = image.magic(b"IAB3", 0);
    let dev = Mirror([image.damaged(root, |bytes| bytes[0..4].fill(0)), image.copy()]);
    let (report, findings) = check_all(&dev);
    let ids: Vec<_> = findings.iter().map(|f| f.corruption.check.0).collect();
    assert_eq!(ids, ["inobt.magic"], "the tree is known all the same");
    assert!(report.inodes > 60);

    let file = image.file(1);
    let dev = Mirror([image.damaged(file, |bytes| bytes[0..2].fill(0)), image.copy()]);
    let ids: Vec<_> = check_all(&dev).1.iter().map(|f| f.corruption.check.0).collect();
    assert_eq!(ids, ["inode.magic"], "the inode is known all the same");
}

#[test]
fn a_primary_that_asks_for_an_unknown_feature_is_refused_where_a_copy_is_sound() {
    let image = Image::kept("v5");
    let dev = Mirror([image.damaged(image.header(0, 0), |sb| sb[216] = 0x80), image.copy()]);
    let ids: Vec<_> = check_all(&dev).1.iter().map(|f| f.corruption.check.0).collect();
    assert_eq!(ids, ["sb.refused"]);
}

#[test]
fn a_block_that_cannot_be_read_is_fatal() {
    let image = Image::kept("v5");
    let bad_sector = Some(ByteOffset(image.magic(b"AB3B", 1).offset as u64));
    let plan = FaultPlan { bad_sector, ..FaultPlan::default() };
    let device = FaultDevice::new(Arc::new(image.copy()), plan);
    let (report, findings) = check_all(&device);
    let ids: Vec<_> = findings.iter().map(|f| f.corruption.check.0).collect();
    assert_eq!((ids, report.fatals), (vec!["device.read"], 1));
}
