//! Linux crashes while it writes arrays with logs. Synced data are present here, also with any one
//! member missing, because the logs hold the writes in flight.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::Array;
use xfskit_test_arrays::{NOW, assembly, content, is_consistent};
use xfskit_test_support::guest::Guest;
use xfskit_units::{ByteLen, ByteOffset};

const PAGE: usize = 4096;

/// Pages of the array whose writes are synced one by one. Unsynced writes go to the pages behind
/// them.
const SYNCED: usize = 128;

/// Synced writes before the crash.
const WRITES: usize = 60;

/// `$1`: further options of mdadm; `$2` …: the members. Page n of `pages` is full of n.
const SCRIPT: &str = r#"
workload() {
    what=$1; shift
    mdadm --create /dev/md0 --run --level=5 --raid-devices=3 --chunk=16 --size=1024 --metadata=1.2 \
        --homehost=none --name=test --assume-clean $what "$@" 2>&1
    (while :; do i=1; while [ $i -lt 120 ]; do
        dd if=pages of=/dev/md0 bs=4096 skip=$i seek=$((128 + i * 3)) count=2 conv=notrunc oflag=direct 2>/dev/null
        i=$((i + 1)); done; done) &
    i=1
    while [ $i -le 60 ]; do
        dd if=pages of=/dev/md0 bs=4096 skip=$i seek=$((i * 37 % 128)) count=1 conv=notrunc,fsync 2>/dev/null
        echo "synced $i"
        i=$((i + 1))
    done
    crash
}
"#;

/// Returns the disks after the crash of an array that is created with these options.
fn crashed(what: &str, disks: usize) -> Vec<Arc<dyn BlockDevice>> {
    let mut guest = Guest::new();
    guest.file("pages", (0..=255u8).flat_map(|n| [n; PAGE]).collect());
    guest.script(SCRIPT);
    let names: Vec<String> = ["d", "e", "f"].map(|letter| format!("/dev/ubd{letter}")).into();
    guest.script(&format!("workload \"{what}\" {}", names.join(" ")));
    let mut bytes = vec![vec![0; 8 << 20]; disks];
    let output = guest.crash(&mut bytes).unwrap();
    assert!(output.contains(&format!("synced {WRITES}")), "{output}");
    let device = |bytes: &Vec<u8>| {
        let device = MemDevice::new(ByteLen(bytes.len() as u64));
        device.write_at(ByteOffset(0), bytes).unwrap();
        Arc::new(device) as Arc<dyn BlockDevice>
    };
    bytes.iter().map(device).collect()
}

/// Asserts that all synced data are present.
fn assert_synced_data_present(array: &Array, how: &str) {
    let mut expected = vec![0u8; SYNCED * PAGE];
    for i in 1..=WRITES {
        let at = i * 37 % SYNCED * PAGE;
        expected[at..at + PAGE].fill(u8::try_from(i).unwrap());
    }
    assert!(content(array)[..expected.len()] == expected, "{how}");
}

fn check(what: &str, devices: &[Arc<dyn BlockDevice>], members: usize) {
    let whole = assembly(devices).open_array().unwrap();
    assert_synced_data_present(&whole, what);
    assert!(is_consistent(&whole), "{what}: parity");
    let pages = content(&whole);
    let is_torn = |page: &[u8]| page.iter().any(|byte| *byte != page[0]);
    assert!(!pages.chunks(PAGE).any(is_torn), "{what}: pages are old or new");
    assert!(
        pages[SYNCED * PAGE..].iter().any(|byte| *byte != 0),
        "{what}: the random_writes was there"
    );
    for removed in 0..members {
        let mut fewer = devices.to_vec();
        fewer.remove(removed);
        let assembly = assembly(&fewer);
        assert!(!assembly.is_parity_untrusted(), "{what} without {removed}");
        assert_synced_data_present(
            &assembly.open_array().unwrap(),
            &format!("{what} without {removed}"),
        );
    }
    let array = assembly(devices).open_writable(NOW).unwrap();
    array.write_at(ByteOffset(5000), &[7; 9000]).unwrap();
    array.close().unwrap();
    assert!(is_consistent(&array) && !assembly(devices).is_dirty(), "{what}: taken over");
}

#[test]
fn data_synced_before_linux_crashed_are_in_arrays_with_a_partial_parity_log() {
    if xfskit_test_support::guest::available_or_skip() {
        check("ppl", &crashed("--consistency-policy=ppl", 3), 3);
    }
}

#[test]
fn data_synced_before_linux_crashed_are_in_arrays_with_a_journal() {
    if xfskit_test_support::guest::available_or_skip() {
        check("journal", &crashed("--write-journal=/dev/ubdg", 4), 3);
    }
}
