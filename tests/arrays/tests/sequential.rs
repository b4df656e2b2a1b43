//! Sequential readers of degraded arrays, with requests that are smaller than a stripe.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::{Array, Options};
use xfskit_md::{Geometry, Layout, Level, Slot};
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, Sectors, index};

const CHUNK: u64 = 64 << 10;
const DISKS: usize = 8;
const STRIPE: u64 = CHUNK * (DISKS as u64 - 2);
/// Stripes of each reader: every member has every role.
const STRIPES: u64 = 2 * DISKS as u64;
/// Bytes of a request: chunks and stripes do not end where requests do.
const REQUEST: u64 = 40 << 10;
/// Bytes behind a request that its reader may ask for.
const AHEAD: ByteLen = ByteLen(1 << 40);

/// Returns a RAID6 with something in it for so many readers, without the `missing` members, and its
/// content.
fn array(readers: u64, missing: &[usize], stripe_cache: u64) -> (Array, Vec<u8>) {
    let size = Sectors(readers * STRIPES * CHUNK / 512);
    let layout = Layout::default_of(Level::Raid6);
    let chunk = Sectors(CHUNK / 512);
    let geometry = Geometry::new(layout, chunk, u32::try_from(DISKS).unwrap(), size, &[]).unwrap();
    let devices: Vec<Arc<dyn BlockDevice>> =
        (0..DISKS).map(|_| Arc::new(MemDevice::new(size.byte_len())) as _).collect();
    let open = |missing: &[usize]| {
        let slot = |role: usize| {
            if missing.contains(&role) {
                return Slot::missing();
            }
            Slot::new(Arc::clone(&devices[role]), format!("m{role}"), Sectors(0), size)
        };
        let options = Options { stripe_cache: ByteLen(stripe_cache), threads: 2 };
        Array::open_with(geometry.clone(), (0..DISKS).map(slot).collect(), options).unwrap()
    };
    let healthy = open(&[]);
    let mut content = vec![0; index(healthy.size().0)];
    Random::of_test(1).fill(&mut content);
    healthy.write_at(ByteOffset(0), &content).unwrap();
    (open(missing), content)
}

/// Reads a range, lent if that is possible. Returns true if it was lent.
fn read(array: &Array, at: u64, buf: &mut [u8]) -> bool {
    let mut copied = 0;
    let lent = array.lend(ByteOffset(at), ByteLen(buf.len() as u64), AHEAD, &mut |parts| {
        for part in parts {
            buf[copied..copied + part.len()].copy_from_slice(part);
            copied += part.len();
        }
    });
    if lent {
        assert_eq!(copied, buf.len());
    } else {
        assert_eq!(copied, 0, "not lent and yet called");
        array.read_at(ByteOffset(at), buf).unwrap();
    }
    lent
}

/// Has readers take turns, each in its own part of the array, the first one `ahead` bytes ahead of
/// the second one and so on. Returns the bytes that were lent.
fn take_turns(array: &Array, content: &[u8], readers: u64, ahead: u64) -> u64 {
    let part = STRIPES * STRIPE;
    let mut lent = 0;
    let mut buf = vec![0; index(REQUEST)];
    let steps = (part + readers * ahead).div_ceil(REQUEST);
    for step in 0..steps {
        for reader in 0..readers {
            let Some(at) = (step * REQUEST).checked_sub(reader * ahead / REQUEST * REQUEST) else {
                continue;
            };
            let len = REQUEST.min(part.saturating_sub(at));
            if len == 0 {
                continue;
            }
            let (at, buf) = (reader * part + at, &mut buf[..index(len)]);
            buf.fill(0xee);
            if read(array, at, buf) {
                lent += len;
            }
            assert!(*buf == content[index(at)..index(at + len)], "reader {reader} at {at}");
        }
    }
    lent
}

/// Returns the bytes that readers of the whole content read from members: each once, but for what
/// the first request of each needs, before it is known that it is the first of many.
fn once(content: &[u8], readers: u64) -> ByteLen {
    ByteLen(content.len() as u64 + readers * REQUEST * DISKS as u64)
}

#[test]
fn every_byte_is_read_from_the_members_once() {
    for missing in [&[2][..], &[7], &[0, 1], &[3, 6]] {
        let (array, content) = array(3, missing, 3 * STRIPE);
        let before = array.io_stats().read;
        let lent = take_turns(&array, &content, 3, 0);
        let read = array.io_stats().read.minus(before);
        assert!(read <= once(&content, 3), "without {missing:?}: {read}");
        assert!(lent > content.len() as u64 / 2, "without {missing:?}: {lent} bytes were lent");
        assert!(array.stripe_cache_bytes() <= ByteLen(3 * STRIPE));
    }
}

#[test]
fn memory_of_chunks_that_were_delivered_serves_other_readers() {
    // One reader begins a stripe when the other is in the middle of one.
    let budget = STRIPE + STRIPE / 2 + CHUNK;
    let (array, content) = array(2, &[2], budget);
    let before = array.io_stats().read;
    take_turns(&array, &content, 2, STRIPE / 2);
    assert!(array.io_stats().read.minus(before) <= once(&content, 2));
    assert!(array.stripe_cache_bytes() <= ByteLen(budget));
}

#[test]
fn readers_without_memory_get_the_same_bytes() {
    for budget in [0, CHUNK, STRIPE] {
        let (array, content) = array(3, &[1, 4], budget);
        take_turns(&array, &content, 3, STRIPE / 3);
        assert!(array.stripe_cache_bytes() <= ByteLen(budget));
    }
}

#[test]
fn bytes_that_are_lent_do_not_change_when_their_stripe_is_written() {
    let (array, content) = array(1, &[2], 2 * STRIPE);
    let mut buf = vec![0; index(REQUEST)];
    read(&array, 0, &mut buf);
    let mut lent = 0;
    assert!(array.lend(ByteOffset(REQUEST), ByteLen(REQUEST), AHEAD, &mut |parts| {
        array.write_at(ByteOffset(0), &vec![0xaa; index(STRIPE)]).unwrap();
        let bytes = parts.concat();
        assert!(bytes == content[index(REQUEST)..index(2 * REQUEST)]);
        lent = bytes.len();
    }));
    assert_eq!(lent as u64, REQUEST);
    read(&array, 2 * REQUEST, &mut buf);
    assert!(buf.iter().all(|byte| *byte == 0xaa), "what was cached is forgotten");
}

#[test]
fn a_healthy_array_lends_nothing_and_no_array_beyond_its_end() {
    let (healthy, _) = array(1, &[], STRIPE);
    let (beyond, content) = array(1, &[2], STRIPE);
    let mut buf = vec![0; index(REQUEST)];
    for at in [0, REQUEST] {
        assert!(!read(&healthy, at, &mut buf));
    }
    let end = content.len() as u64;
    assert!(
        !beyond.lend(ByteOffset(end - 1), ByteLen(2), AHEAD, &mut |_| panic!("beyond the end"))
    );
    assert!(!beyond.lend(ByteOffset(0), ByteLen(0), AHEAD, &mut |_| panic!("nothing")));
}
