//! The monitor: an idle array is marked clean on its disks, and a spare that takes over is filled
//! while the array is in use.

#![allow(missing_docs)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xfskit_block::BlockDevice;
use xfskit_md::Level;
use xfskit_md::array::MemberState;
use xfskit_md::array::monitor::MonitoredArray;
use xfskit_test_arrays::member_set::{MemberSet, create_array, fill, layout};
use xfskit_test_arrays::{NOW, content, is_consistent};
use xfskit_units::ByteOffset;

const IDLE: Duration = Duration::from_millis(20);

/// Waits until a condition holds.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn monitored(set: &MemberSet) -> MonitoredArray {
    MonitoredArray::new(set.assembly().open_writable(NOW).unwrap(), IDLE)
}

#[test]
fn an_idle_array_is_marked_clean_and_active_again_by_the_next_write() {
    for (level, bitmap) in [(Level::Raid1, true), (Level::Raid5, false), (Level::Raid6, true)] {
        let set = create_array(layout(level, ""), 4, 0, bitmap);
        let events = set.assembly().superblock().events();
        let array = monitored(&set);
        for round in 0..3 {
            array.write_at(ByteOffset(4096), &[round; 9000]).unwrap();
            wait("clean when idle", || !set.assembly().is_dirty());
            assert_eq!(set.assembly().superblock().events(), events, "{level} {round}");
        }
        // The array does not become clean while it is written.
        let writing = Instant::now();
        let mut active = 0;
        while writing.elapsed() < 10 * IDLE {
            array.write_at(ByteOffset(0), &[9; 512]).unwrap();
            active += u32::from(set.assembly().is_dirty());
        }
        assert!(active > 0, "{level}");
        drop(array);
        assert!(!set.assembly().is_dirty());
    }
}

#[test]
fn a_spare_that_takes_over_is_filled_while_the_array_is_in_use() {
    let set = create_array(layout(Level::Raid6, ""), 5, 2, true);
    let array = Arc::new(monitored(&set));
    let mut expected = fill(array.array(), 4);
    array.array().fail(1).unwrap();
    array.array().fail(3).unwrap();
    for i in 0..200 {
        let at = i * 7919 % (expected.len() - 5000);
        expected[at..at + 5000].fill(u8::try_from(i).unwrap());
        array.write_at(ByteOffset(at as u64), &expected[at..at + 5000]).unwrap();
    }
    let whole = |state: &MemberState| *state == MemberState::InSync;
    wait("rebuilt", || array.array().states().iter().all(whole));
    assert!(content(&*array) == expected && is_consistent(array.array()));
    drop(array);
    let after = set.assembly();
    assert!(!after.is_degraded() && !after.is_dirty());
    assert!(content(&after.open_array().unwrap()) == expected);
}

/// Dropping the array does not wait for the rebuild to end. The rebuild continues the next time.
#[test]
fn a_rebuild_stops_when_the_array_is_dropped_and_continues_later() {
    let set = create_array(layout(Level::Raid5, ""), 3, 1, false);
    let array = monitored(&set);
    let expected = fill(array.array(), 4);
    array.array().fail(0).unwrap();
    drop(array);
    let again = set.open();
    again.rebuild(xfskit_test_arrays::member_set::run_to_end).unwrap();
    assert!(content(&again) == expected && is_consistent(&again));
}
