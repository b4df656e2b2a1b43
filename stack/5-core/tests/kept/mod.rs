//! The volumes kept in `tests/images`, unpacked into memory.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_units::{ByteLen, ByteOffset};

/// Unpacks a kept image.
fn unpack(name: &str) -> Arc<dyn BlockDevice> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/images"));
    let packed = std::fs::read(folder.join(format!("{name}.img.zst"))).expect("a kept image");
    let mut decoder = zstd::Decoder::new(packed.as_slice()).expect("zstd");
    decoder.window_log_max(31).expect("a long window");
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).expect("a whole image");
    let dev = MemDevice::new(ByteLen(bytes.len() as u64));
    dev.write_at(ByteOffset(0), &bytes).unwrap();
    Arc::new(dev)
}

/// A kept image, unpacked once for all tests; changes to it are the caller's own.
pub(crate) fn device(name: &str) -> Arc<dyn BlockDevice> {
    static UNPACKED: Mutex<BTreeMap<String, Arc<dyn BlockDevice>>> = Mutex::new(BTreeMap::new());
    let mut unpacked = UNPACKED.lock().unwrap();
    let base = unpacked.entry(name.into()).or_insert_with(|| unpack(name));
    Arc::new(OverlayDevice::new(Arc::clone(base)))
}

/// Opens it.
pub(crate) fn open(dev: Arc<dyn BlockDevice>) -> Volume {
    Volume::open(dev, &OpenOptions::default()).unwrap()
}
