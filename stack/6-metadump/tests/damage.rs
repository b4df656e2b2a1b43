//! Damaged volumes: a dump of them ends, and holds what can be found.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Error, IoRead, OverlayDevice, Result};
use xfskit_metadump::{Dump, JournalMode, WarningKind};
use xfskit_test_support::kept;
use xfskit_test_support::random::Random;
use xfskit_units::{ByteLen, ByteOffset};

use crate::common::{KEY, content, dump, restored};

fn options() -> Dump {
    let journal = JournalMode::Copy;
    Dump { obfuscate: Some(KEY), journal, threads: 2, ..Dump::default() }
}

/// Returns the sectors that a dump of the volume has.
fn metadata_sectors(device: &Arc<dyn BlockDevice>) -> Vec<u64> {
    let (file, _) = dump(device, &Dump { zero_stale: false, ..Dump::default() });
    let copy = content(&*restored(&file).0);
    let log = {
        let reader = xfskit_metadump::Reader::open(&file[..]).unwrap();
        let geo = reader.superblock().geometry();
        let start = geo.log_daddr().unwrap().0;
        start..start + u64::from(geo.log_bbs())
    };
    let sectors = (0u64..).zip(copy.chunks(512));
    let used = sectors.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
    used.map(|(sector, _)| sector).filter(|sector| !log.contains(sector)).collect()
}

#[test]
fn random_damage_causes_no_panic_and_no_hang() {
    let mut random = Random::of_test(5);
    for name in ["v5-1k", "v4-old", "v5-metadir", "v5-tall"] {
        let base = kept::device(name);
        let sectors = metadata_sectors(&base);
        for _ in 0..25 {
            let device = OverlayDevice::new(Arc::clone(&base));
            for _ in 0..=random.below(60usize) {
                // The primary superblock stays: without it nothing would be tested.
                let sector = sectors[1 + random.below(sectors.len() - 1)];
                let mut bytes = [0; 512];
                device.read_at(ByteOffset(sector * 512), &mut bytes).unwrap();
                for _ in 0..=random.below(12usize) {
                    let at = random.below(512usize);
                    bytes[at] = [0, 0xff, random.byte()][random.below(3usize)];
                }
                device.write_at(ByteOffset(sector * 512), &bytes).unwrap();
            }
            let device: Arc<dyn BlockDevice> = Arc::new(device);
            restored(&dump(&device, &options()).0);
        }
    }
}

#[test]
fn a_damaged_block_is_dumped_with_its_wrong_checksum() {
    for name in ["v5", "v5-1k"] {
        let base = kept::device(name);
        let sectors = metadata_sectors(&base);
        let mut damaged = 0;
        for &sector in sectors.iter().skip(8).step_by(sectors.len() / 40) {
            let device: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(&base)));
            let at = ByteOffset(sector * 512 + 300);
            let mut byte = [0];
            device.read_at(at, &mut byte).unwrap();
            device.write_at(at, &[!byte[0]]).unwrap();
            let plain = Dump { zero_stale: false, journal: JournalMode::Copy, ..Dump::default() };
            let (file, report) = dump(&device, &plain);
            let copy = restored(&file).0;
            copy.read_at(at, &mut byte).unwrap();
            let mut old = [0];
            base.read_at(at, &mut old).unwrap();
            assert_eq!(byte[0], !old[0], "{name}: sector {sector}");
            damaged +=
                report.counts.iter().filter(|(kind, _)| *kind == WarningKind::BadCrc).count();
        }
        assert!(damaged > 10, "{name}: {damaged}");
    }
}

#[test]
fn a_pointer_to_itself_is_followed_once() {
    let mut changed = 0;
    for name in ["v5-1k", "v5-tall", "v5", "v4"] {
        let base = kept::device(name);
        let len = if name == "v5-1k" { 1024 } else { 4096 };
        let per_block = len as u64 / 512;
        for sector in metadata_sectors(&base).into_iter().filter(|s| s % per_block == 0) {
            let mut block = vec![0; len];
            let at = ByteOffset(sector * 512);
            if base.read_at(at, &mut block).is_err() || block[4] != 0 || !(1..6).contains(&block[5])
            {
                continue;
            }
            let magics = [&b"IAB3"[..], b"AB3B", b"RMB3", b"BMA3", b"IABT", b"ABTB", b"BMAP"];
            if !magics.iter().any(|magic| block.starts_with(magic)) {
                continue;
            }
            // All words of the block's second half name the block itself.
            let device: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(&base)));
            let own = u32::try_from(sector / per_block).unwrap().to_be_bytes();
            block[len / 2..].chunks_mut(4).for_each(|word| word.copy_from_slice(&own));
            device.write_at(at, &block).unwrap();
            restored(&dump(&device, &options()).0);
            changed += 1;
        }
    }
    assert!(changed > 0, "the images have no node");
}

#[test]
fn ranges_that_cannot_be_read_are_left_out() {
    let base = kept::device("v5");
    let sectors = metadata_sectors(&base);
    let bad = sectors[sectors.len() / 2] * 512;
    let device: Arc<dyn BlockDevice> = Arc::new(BadSector { below: Arc::clone(&base), bad });
    let (file, report) = dump(&device, &options());
    let unreadable =
        |(kind, count): &(WarningKind, u64)| *kind == WarningKind::Unreadable && *count > 0;
    assert!(report.counts.iter().any(unreadable), "{:?}", report.counts);
    restored(&file);
}

/// A device with one sector that cannot be read, at byte `bad`.
#[derive(Debug)]
struct BadSector {
    below: Arc<dyn BlockDevice>,
    bad: u64,
}

impl BlockDevice for BadSector {
    xfskit_block::plain!(lend, write_batch, write_fua, discard, write_zeroes);
    xfskit_block::forward!(this => *this.below; size, logical_block_size, physical_block_size,
        topology, will_need, skip_hole, alternatives, heal);

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        let end = offset.0 + buf.len() as u64;
        if offset.0 < self.bad + 512 && end > self.bad {
            let len = ByteLen(buf.len() as u64);
            let source = std::io::Error::other("a bad sector");
            return Err(Error::Io { op: "read", offset, len, source });
        }
        self.below.read_at(offset, buf)
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        batch.iter_mut().map(|read| self.read_at(read.offset, read.buf)).collect()
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], _: usize) -> Result<()> {
        self.read_at(offset, buf)
    }

    fn write_at(&self, _: ByteOffset, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
