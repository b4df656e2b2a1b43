//! Reads of a degraded array through a mount.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use xfskit::raw::VolumeOptionsExt as _;
use xfskit::raw::block::{BlockDevice, MemDevice};
use xfskit::raw::md::array::{Array, Options};
use xfskit::raw::md::{Geometry, Layout, Level, Slot};
use xfskit::raw::units::{ByteLen, Sectors};
use xfskit::raw::{make, mkfs};
use xfskit_test_mount::pair::possible;
use xfskit_test_support::image::Scratch;

const DISKS: usize = 10;
const CHUNK: Sectors = Sectors(512);
/// Bytes of a member.
const MEMBER: Sectors = Sectors(48 << 11);
const FILES: u8 = 6;
/// Bytes of a stripe.
const STRIPE: u64 = 2 << 20;
/// Bytes of a file: twenty stripes.
const FILE: usize = 40 << 20;

fn content(file: u8) -> Vec<u8> {
    let word =
        |at: usize| (at as u64 ^ (u64::from(file) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..FILE / 8).flat_map(|at| word(at).to_le_bytes()).collect()
}

#[test]
fn sequential_readers_of_a_degraded_array_read_its_members_once() {
    if !possible() {
        return;
    }
    let devices: Vec<Arc<dyn BlockDevice>> =
        (0..DISKS).map(|_| Arc::new(MemDevice::new(MEMBER.byte_len())) as _).collect();
    let array = |missing: &[usize]| {
        let layout = Layout::default_of(Level::Raid6);
        let disks = u32::try_from(DISKS).expect("a few");
        let geometry = Geometry::new(layout, CHUNK, disks, MEMBER, &[]).expect("a geometry");
        let slot = |(role, device): (usize, &Arc<dyn BlockDevice>)| {
            if missing.contains(&role) {
                return Slot::missing();
            }
            Slot::new(Arc::clone(device), format!("m{role}"), Sectors(0), MEMBER)
        };
        // The kernel asks for two stripes of each reader at once, which may begin within one.
        let options = Options { stripe_cache: ByteLen(u64::from(FILES) * 3 * STRIPE), threads: 2 };
        let slots = devices.iter().enumerate().map(slot).collect();
        Arc::new(Array::open_with(geometry, slots, options).expect("an array"))
    };
    let volume = make(array(&[]), &mkfs::Options::default()).expect("a volume");
    for file in 0..FILES {
        let handle = volume.create(format!("/file{file}")).expect("a file");
        handle.write_at(&content(file), 0).expect("written");
    }
    volume.close().expect("closed");

    let scratch = Scratch::new("mount-degraded");
    for missing in [&[3][..], &[1, 8]] {
        let array = array(missing);
        let volume = xfskit::VolumeOptions::new().open_device(Arc::clone(&array) as _, None);
        let mounted = xfskit::Mount::new().start(volume.expect("opened"), scratch.path());
        let mounted = mounted.expect("mounted");
        let before = array.io_stats().read;
        std::thread::scope(|scope| {
            for file in 0..FILES {
                let path = scratch.path().join(format!("file{file}"));
                scope.spawn(move || {
                    let mut read = Vec::new();
                    File::open(path)
                        .and_then(|mut file| file.read_to_end(&mut read))
                        .expect("read");
                    assert!(read == content(file), "file{file}");
                });
            }
        });
        let read = array.io_stats().read.minus(before).0;
        mounted.unmount().expect("unmounted");
        mounted.close().expect("closed");
        // Two files share the stripe in which one ends and the other begins. It is read for each.
        let delivered = u64::from(FILES) * FILE as u64;
        assert!(read < delivered * 5 / 4, "{read} bytes were read for {delivered}");
    }
}
