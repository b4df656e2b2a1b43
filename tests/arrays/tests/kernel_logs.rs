//! Linux's md takes over arrays with logs after writes here were cut off, and replays their logs
//! correctly. It also takes back an array with partial parity logs that got new members here.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::Level;
use xfskit_md::create::NewMember;
use xfskit_test_arrays::member_set::{create_array, journaled, layout, run_to_end};
use xfskit_test_arrays::recording::random_writes;
use xfskit_test_arrays::{
    Crash, Fixture, NOW, Recording, WriteHistory, assembly, content, is_consistent, sha256,
};
use xfskit_test_support::Random;
use xfskit_test_support::guest::Guest;
use xfskit_units::{ByteLen, ByteOffset};

/// The commands run on every array. `$1` is the directory of the members.
const QUESTIONS: &str = r#"
ask() {
    members=$(loops $1/m*)
    mdadm --assemble --run /dev/md0 $members 2>&1 | sed "s/^/$1 reported /"
    sleep 0.3; idle md0
    echo "$1 content $(sha256sum /dev/md0 | cut -d' ' -f1)"
    echo check > /sys/block/md0/md/sync_action; idle md0
    echo "$1 mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

/// Lets the kernel check each array, members and content.
fn checked(arrays: &[(String, Vec<Arc<dyn BlockDevice>>)]) {
    let mut guest = Guest::new();
    guest.script(QUESTIONS);
    for (name, devices) in arrays {
        for (i, device) in devices.iter().enumerate() {
            guest.file(&format!("{name}/m{i}"), content(device));
        }
        guest.script(&format!("ask {name}"));
    }
    let text = guest.run().unwrap().text;
    for (name, devices) in arrays {
        let expected = sha256(&content(&assembly(devices).open_array().unwrap()));
        assert!(text.contains(&format!("{name} content {expected}")), "{name}: {text}");
        assert!(text.contains(&format!("{name} mismatches 0")), "{name}: {text}");
    }
}

/// Returns what crashes leave of an array with these members.
fn crashed(
    name: &str,
    before: Vec<Arc<dyn BlockDevice>>,
) -> Vec<(String, Vec<Arc<dyn BlockDevice>>)> {
    let mut random = Random::of_test(3);
    let recording = Recording::new(before);
    let array = assembly(&recording.devices()).open_writable(NOW).unwrap();
    let mut history = WriteHistory::new(content(&array));
    random_writes(&mut history, &recording, &array, &mut random, 60);
    let cuts = (0..4).map(|_| random.below(recording.len())).collect::<Vec<_>>();
    let crash = |cut: &usize| (format!("{name}-{cut}"), recording.crash(*cut, Crash::Process));
    cuts.iter().map(crash).collect()
}

#[test]
fn linux_replays_journals_written_here() {
    if xfskit_test_support::guest::available_or_skip() {
        checked(&crashed("raid5", Fixture::open("raid5-journal").devices()));
        let set = journaled(&create_array(layout(Level::Raid6, ""), 4, 1, false));
        let devices = set.0.iter().map(|(_, device)| Arc::clone(device) as _).collect();
        checked(&crashed("raid6", devices));
    }
}

/// Returns a new device of this size.
fn new(name: &str, bytes: u64) -> NewMember {
    let device = Arc::new(MemDevice::new(ByteLen(bytes)));
    NewMember { name: name.into(), device, uuid: [u8::try_from(bytes >> 20).unwrap(); 16] }
}

/// Returns the array with partial parity logs after one member failed and was rebuilt, and another
/// was replaced.
fn renewed() -> Vec<Arc<dyn BlockDevice>> {
    let mut devices = Fixture::open("raid5-ppl").devices();
    for (round, role) in [(1u8, 0usize), (2, 2)] {
        let before = assembly(&devices);
        let spare = new("new", devices[0].size().0 + (1 << 20) * u64::from(round));
        before.add(&spare, NOW).unwrap();
        devices.push(Arc::clone(&spare.device));
        let assembly = assembly(&devices);
        let array = assembly.open_writable(NOW).unwrap();
        let mut expected = content(&array);
        if round == 1 {
            array.fail(role).unwrap();
        } else {
            assert!(array.replace(role, None).unwrap().is_some());
        }
        // Written while it is filled, and afterwards; the new member's log is used, too.
        expected[70_000..90_000].fill(round);
        array.write_at(ByteOffset(70_000), &expected[70_000..90_000]).unwrap();
        array.rebuild(run_to_end).unwrap();
        expected[500_000..700_000].fill(round);
        array.write_at(ByteOffset(500_000), &expected[500_000..700_000]).unwrap();
        array.close().unwrap();
        assert!(content(&array) == expected && is_consistent(&array), "round {round}");
        drop(array);
        let removed = assembly.roles[role].unwrap();
        devices.remove(removed);
        let again = xfskit_test_arrays::assembly(&devices);
        assert!(!again.is_degraded() && !again.is_dirty(), "round {round}");
        assert!(content(&again.open_array().unwrap()) == expected, "round {round}");
    }
    devices
}

#[test]
fn arrays_with_partial_parity_logs_get_new_members() {
    let devices = renewed();
    for removed in 0..3 {
        let mut fewer = devices.clone();
        fewer.remove(removed);
        let whole = content(&assembly(&devices).open_array().unwrap());
        assert!(content(&assembly(&fewer).open_array().unwrap()) == whole);
    }
    if xfskit_test_support::guest::available_or_skip() {
        checked(&[("renewed".into(), devices.clone())]);
        let mut crashed = crashed("ppl", devices);
        crashed.truncate(3);
        checked(&crashed);
    }
}

/// The device is refused, and nothing is written to it.
#[test]
fn a_device_too_small_for_a_partial_parity_log_is_refused() {
    let devices = Fixture::open("raid5-ppl").devices();
    let why = assembly(&devices).add(&new("small", 2 << 20), NOW).unwrap_err();
    assert!(why.to_string().contains("small"), "{why}");
}
