//! The kept images: volumes that the kernel filled, compressed in `tests/images`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_units::{ByteLen, ByteOffset};

/// Largest window of a compressed image, as a power of two.
const WINDOW_LOG: u32 = 31;
/// Unit in which zeroes are detected, in bytes.
const PIECE: usize = 1 << 16;

/// Returns the image `name`, for example `v5`.
///
/// # Panics
/// If the repository does not hold it.
pub fn unpack(name: &str) -> Vec<u8> {
    decompress(&crate::repository().join(format!("tests/images/{name}.img.zst")))
}

/// Returns the content of a file that `zstd` compressed.
///
/// # Panics
/// If it cannot be read.
pub fn decompress(path: &Path) -> Vec<u8> {
    let packed = fs::File::open(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut decoder = zstd::Decoder::new(packed).expect("zstd");
    decoder.window_log_max(WINDOW_LOG).expect("a long window");
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut decoder, &mut bytes).expect("a whole file");
    bytes
}

/// Unpacks the image `name` to a file in `folder`, and returns the path of the file.
///
/// # Panics
/// If the repository does not hold it, or the file cannot be written.
pub fn file(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{}.img", name.replace('/', "-")));
    fs::write(&path, unpack(name)).expect("an image");
    path
}

/// Returns the image `name` in memory. It is unpacked once for all tests of a program; the changes
/// are the caller's own.
///
/// # Panics
/// If the repository does not hold it.
pub fn device(name: &str) -> Arc<dyn BlockDevice> {
    static UNPACKED: Mutex<BTreeMap<String, Arc<dyn BlockDevice>>> = Mutex::new(BTreeMap::new());
    let mut unpacked = UNPACKED.lock().expect("no image failed to unpack");
    let base = unpacked.entry(name.to_owned()).or_insert_with(|| Arc::new(memory(&unpack(name))));
    Arc::new(OverlayDevice::new(Arc::clone(base)))
}

/// Returns a device in memory with this content. Zeroes use no memory.
///
/// # Panics
/// Never: the device is in memory.
pub fn memory(content: &[u8]) -> MemDevice {
    let device = MemDevice::new(ByteLen(content.len() as u64));
    for (offset, piece) in (0..).step_by(PIECE).zip(content.chunks(PIECE)) {
        if piece.iter().any(|&byte| byte != 0) {
            device.write_at(ByteOffset(offset), piece).expect("memory");
        }
    }
    device
}
