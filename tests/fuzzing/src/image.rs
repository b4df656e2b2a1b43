//! Opens, walks, checks and dumps a whole image with damaged metadata.
//!
//! The kernel filled the image (`tests/images`). An input is a choice of image and a list of
//! [changes](crate::change) of its metadata blocks. CRCs are recomputed, so that the damage reaches
//! the checks behind them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_locate::AgRange;
use xfskit_metadump::{Dump, JournalMode, Watch};
use xfskit_test_support::kept;
use xfskit_units::{ByteLen, ByteOffset, Ino};
use xfskit_vfs::{Clock, Fs, Timestamp};

use crate::change::{self, Change};

/// One metadata block of the image: its offset, its length, and the offset of its CRC.
#[derive(Clone, Copy, Debug)]
struct Metadata {
    offset: u64,
    len: usize,
    crc: Option<usize>,
}

/// An unpacked image and its metadata blocks.
#[derive(Debug)]
pub(crate) struct Image {
    /// The image.
    pub(crate) base: Arc<dyn BlockDevice>,
    metadata: Vec<Metadata>,
}

/// Kept images to damage. The dirty one is checked without a replay.
pub const IMAGES: [&str; 6] = ["v5", "v5-1k", "v5-plain", "v4", "v4-old", "v5-dirty"];

/// Recognises a block by its magic number. Returns its length in bytes, and the offset of its CRC.
fn classify(bytes: &[u8], blocksize: usize) -> Option<(usize, Option<usize>)> {
    let crc = |field| Some(field);
    let magic: [u8; 4] = bytes.first_chunk().copied()?;
    let at8: [u8; 2] = bytes.get(8..)?.first_chunk().copied()?;
    Some(match &magic {
        b"XFSB" => (512, crc(224)),
        b"XAGF" => (512, crc(216)),
        b"XAGI" => (512, crc(312)),
        b"XAFL" => (512, crc(32)),
        b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => (blocksize, crc(52)),
        b"BMA3" => (blocksize, crc(64)),
        b"XDB3" | b"XDD3" | b"XDF3" => (blocksize.max(4096), crc(4)),
        b"XARM" | b"XSLM" => (blocksize, crc(12)),
        b"ABTB" | b"ABTC" | b"IABT" | b"BMAP" | b"XD2B" | b"XD2D" | b"XD2F" => (blocksize, None),
        [b'I', b'N', _, _] if bytes.get(4) == Some(&3) => (512, crc(100)),
        [b'I', b'N', _, _] => (256, None),
        _ => match u16::from_be_bytes(at8) {
            0x3df1 | 0x3dff | 0x3ebe | 0x3bee => (blocksize, crc(12)),
            0xd2f1 | 0xd2ff | 0xfebe | 0xfbee => (blocksize, None),
            _ => return None,
        },
    })
}

impl Image {
    /// Unpacks the kept image `name` and finds its metadata blocks.
    pub(crate) fn load(name: &str) -> Self {
        let bytes = kept::unpack(name);
        let blocksize = if name.ends_with("1k") { 1024 } else { 4096 };
        let mut metadata = Vec::new();
        let mut offset = 0;
        while offset + 512 <= bytes.len() {
            let step = match classify(&bytes[offset..], blocksize) {
                Some((len, crc)) => {
                    metadata.push(Metadata { offset: offset as u64, len, crc });
                    len
                }
                None => 512,
            };
            offset += step;
        }
        let base = MemDevice::new(ByteLen(bytes.len() as u64));
        for (i, chunk) in bytes.chunks(65536).enumerate() {
            if chunk.iter().any(|&b| b != 0) {
                base.write_at(ByteOffset(i as u64 * 65536), chunk).expect("memory");
            }
        }
        Self { base: Arc::new(base), metadata }
    }

    /// Returns the number of metadata blocks.
    pub(crate) fn metadata_len(&self) -> usize {
        self.metadata.len()
    }

    /// Returns a copy-on-write copy with these changes.
    pub(crate) fn damaged(&self, changes: impl Iterator<Item = Change>) -> Arc<dyn BlockDevice> {
        let copy = OverlayDevice::new(Arc::clone(&self.base));
        for change in changes {
            let block = self.metadata[change.which % self.metadata.len()];
            let mut bytes = vec![0; block.len];
            let offset = ByteOffset(block.offset);
            copy.read_at(offset, &mut bytes).expect("memory");
            change.apply(&mut bytes);
            if let Some(field) = block.crc.filter(|_| change.fixes_checksum()) {
                xfskit_crc::update(&mut bytes, field);
            }
            copy.write_at(offset, &bytes).expect("memory");
        }
        Arc::new(copy)
    }
}

fn images() -> &'static [Image] {
    static IMAGES_LOADED: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES_LOADED.get_or_init(|| IMAGES.iter().map(|name| Image::load(name)).collect())
}

/// Most changes of one input.
const CHANGES_MAX: usize = 16;
/// Most groups whose blocks are located; the images have fewer.
const GROUPS_MAX: usize = 16;
/// Most inodes that one walk visits; the images have fewer.
const INODES_MAX: usize = 5000;

/// Returns the damaged image of an input.
pub fn damaged(data: &[u8]) -> Option<Arc<dyn BlockDevice>> {
    let (&choice, changes) = data.split_first()?;
    let image = &images()[usize::from(choice) % images().len()];
    Some(image.damaged(change::changes(changes, CHANGES_MAX)))
}

/// Opens, walks, checks and dumps a damaged image. Errors are allowed, panics and hangs are not. No
/// finding is required, since a change may be harmless, but the sound image must have none.
pub fn open_walk_check(data: &[u8]) {
    let Some(dev) = damaged(data) else { return };
    let changes = &data[1..];
    let mut findings = 0u32;
    let options = xfskit_check::Options { threads: 1, ..Default::default() };
    let report = xfskit_check::check(&*dev, None, &options, &mut |_| findings += 1);
    if changes.is_empty() {
        assert!(report.is_ok_and(|report| report.clean()), "a sound image has {findings} findings");
    }
    dump(&dev, changes.is_empty());
    if let Ok(volume) = Volume::open(dev, &OpenOptions::default()) {
        walk(&volume);
        locate(volume);
    }
}

/// Finds the owners of all blocks in both ways, and the paths of their inodes. Every block has an
/// owner, whatever is damaged.
fn locate(volume: Volume) {
    let geo = volume.geo().clone();
    let ags = geo.ags().take(GROUPS_MAX);
    let ranges: Vec<AgRange> =
        ags.map(|agno| AgRange { agno, blocks: 0..geo.ag_length(agno) }).collect();
    let mut inos = BTreeSet::new();
    for scan in [false, true] {
        let options = xfskit_locate::Options { scan, ..Default::default() };
        let found = xfskit_locate::owners(&volume, &ranges, &options);
        for (range, owned) in ranges.iter().zip(&found.owned) {
            let mut covered = 0;
            for run in owned {
                assert!(run.start.0 <= covered, "blocks of {range:?} have no owner");
                covered = covered.max(run.end());
            }
            assert_eq!(covered, range.blocks.end, "blocks of {range:?} have no owner");
            inos.extend(owned.iter().filter_map(|run| run.owner.ino()));
        }
    }
    let fs = Fs::new(volume, Clock::fixed(Timestamp { sec: 0, nsec: 0 }));
    let inos = inos.into_iter().take(INODES_MAX);
    let found = fs.find_paths(inos, 4, &mut |_| ControlFlow::Continue(()));
    assert!(found.inodes.values().all(|inode| inode.paths.len() <= 4));
}

/// Dumps the metadata with obfuscated names, which changes every block.
fn dump(dev: &Arc<dyn BlockDevice>, sound: bool) {
    let journal = JournalMode::Copy;
    let dump = Dump { obfuscate: Some([7; 16]), journal, ..Dump::default() };
    let Ok(prepared) = dump.prepare(Arc::clone(dev), None) else {
        assert!(!sound, "a sound image is refused");
        return;
    };
    let (_, report) = prepared.write(std::io::sink(), Watch::default()).expect("a dump goes on");
    assert!(!sound || report.is_clean(), "a sound image has warnings: {report:#?}");
}

/// Returns the seeds: each image as it is, and a change of many of its blocks.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, image) in (0u8..).zip(images()) {
        seeds.push(vec![choice]);
        for block in (0..image.metadata.len()).step_by(image.metadata.len().div_ceil(200)) {
            let [hi, lo] = u16::try_from(block).unwrap_or(u16::MAX).to_be_bytes();
            seeds.push(vec![choice, hi, lo, 0, 16, 10, 1, 0]);
        }
    }
    seeds
}

/// Walks every inode that is allocated or that a name refers to, with all its content.
pub(crate) fn walk(volume: &Volume) {
    let mut inodes: BTreeSet<Ino> = BTreeSet::from([volume.geo().rootino]);
    for agno in volume.geo().ags() {
        let _ = (volume.agf(agno), volume.agi(agno));
        let _ = volume.for_each_chunk(agno, |chunk| {
            let used = (0..64u32).filter(|bit| chunk.used() >> bit & 1 != 0);
            let aginos = used.filter_map(|bit| chunk.startino.checked_add(bit));
            inodes.extend(aginos.map(|agino| volume.geo().agino_to_ino(agno, agino)));
            Ok(())
        });
    }
    let mut named = BTreeSet::new();
    for ino in inodes.iter().take(INODES_MAX) {
        visit(volume, *ino, &mut named);
    }
    for ino in named.difference(&inodes).take(INODES_MAX) {
        visit(volume, *ino, &mut BTreeSet::new());
    }
}

/// Reads everything about one inode; adds the inodes that its names refer to.
fn visit(volume: &Volume, ino: Ino, named: &mut BTreeSet<Ino>) {
    let Ok(inode) = volume.iget(ino) else { return };
    let _ = volume.readdir(&inode, 0, &mut |entry| {
        if let Ok(entry) = entry {
            named.insert(entry.ino);
        }
        ControlFlow::Continue(())
    });
    let _ = volume.lookup(&inode, b"another-link-with-a-longer-name-77");
    let _ = volume.xattrs(&inode, &mut |_| ControlFlow::Continue(()));
    let _ = volume.xattr_get(&inode, b"user.name7");
    let _ = (volume.parents(&inode), volume.paths(ino, 4), volume.readlink(&inode));
    let mut content = vec![0; 8192];
    let _ = volume.read_at(&inode, ByteOffset(4000), &mut content);
}
