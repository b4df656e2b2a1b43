//! Linux' md takes back what was written here: it assembles the arrays, finds their content and nothing
//! to mend, writes them, rebuilds what is missing, and gives them back.

#![allow(missing_docs)]

use std::fmt::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::assemble::{Member, assemble};
use xfskit_test_arrays::Fixture;
use xfskit_test_guest::{Answer, Guest};
use xfskit_units::{ByteLen, ByteOffset, index};

const NOW: u64 = 1_800_000_000;

/// Arrays and the role that is taken out of use before they are written, if any.
const WRITTEN: [(&str, Option<usize>); 13] = [
    ("raid0-zones-original", None),
    ("raid1-1.0-bitmap", None),
    ("raid1-1.1-bitmap", Some(0)),
    ("raid1-1.2", None),
    ("raid4", None),
    ("raid4", Some(2)),
    ("raid5-left-symmetric", None),
    ("raid5-right-asymmetric", Some(1)),
    ("raid6-ddf-N-restart", None),
    ("raid6-left-symmetric", Some(3)),
    ("raid10-n2-bitmap", None),
    ("raid10-f2-4", None),
    ("raid10-o2-4", Some(1)),
];

/// What the kernel is asked about every array. `$1` is the folder of its members.
const QUESTIONS: &str = r#"
ask() {
    members=$(loops $1/m*.img)
    mdadm --assemble --run /dev/md0 $members 2>/dev/null || echo "$1 refused"
    sync_action=/sys/block/md0/md/sync_action
    echo "$1 state $(mdadm --detail /dev/md0 | sed -n 's/ *State : //p')"
    echo "$1 content $(sha256sum /dev/md0 | cut -d' ' -f1)"
    if [ -e $sync_action ]; then
        idle md0; echo check > $sync_action; idle md0
        echo "$1 mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    fi
    for m in $members; do
        mdadm --detail /dev/md0 | grep -q " $m\$" || mdadm --add /dev/md0 $m 2>/dev/null
    done
    [ -e $sync_action ] && sleep 0.5 && idle md0
    dd if=change of=/dev/md0 bs=4096 seek=20 conv=notrunc,fsync 2>/dev/null
    echo "$1 changed $(sha256sum /dev/md0 | cut -d' ' -f1)"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

fn name(fixture: &str, failed: Option<usize>) -> String {
    failed.map_or_else(|| fixture.to_owned(), |role| format!("{fixture}-without-{role}"))
}

fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut all = vec![0; index(device.size().0)];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    all
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Writes the array, healthy or not, and packs its members for the guest. Its content is the answer.
fn written(guest: &mut Guest, fixture: &str, failed: Option<usize>) -> Vec<u8> {
    let kept = Fixture::open(fixture);
    let members = kept.named().into_iter().map(|(name, device)| Member { name, device });
    let array = assemble(members.collect()).unwrap().open_writable(NOW).unwrap();
    if let Some(role) = failed {
        array.fail(role).unwrap();
    }
    let mut expected = content(&array);
    for (at, len) in [(4_000, 9_000), (100_000, 90_000), (expected.len() - 5_000, 5_000)] {
        expected[at..at + len].fill(0x5a);
        array.write_at(ByteOffset(at as u64), &expected[at..at + len]).unwrap();
    }
    array.close().unwrap();
    for (member, device) in kept.named() {
        guest.file(&format!("{}/{member}", name(fixture, failed)), content(&*device));
    }
    expected
}

/// The array of the members that came back.
fn came_back(answer: &Answer, name: &str) -> Array {
    let folder = format!("{name}/");
    let members = answer.files.iter().filter(|(file, _)| file.starts_with(&folder));
    let member = |(name, bytes): (&String, &Vec<u8>)| {
        let device = Arc::new(MemDevice::new(ByteLen(bytes.len() as u64)));
        device.write_at(ByteOffset(0), bytes).unwrap();
        Member { name: name.clone(), device }
    };
    assemble(members.map(member).collect()).unwrap().open_array().unwrap()
}

#[test]
fn the_kernel_assembles_what_was_written_finds_nothing_to_mend_and_gives_it_back() {
    if !xfskit_test_guest::is_here() {
        return;
    }
    let mut guest = Guest::new();
    let change: Vec<u8> = (0u8..=255).cycle().take(65_536).collect();
    guest.file("change", change.clone());
    guest.script(QUESTIONS);
    let expected = WRITTEN.map(|(fixture, failed)| {
        guest.script(&format!("ask {}", name(fixture, failed)));
        written(&mut guest, fixture, failed)
    });
    guest.script("give */m*.img");
    let answer = guest.run().unwrap();
    for ((fixture, failed), mut expected) in WRITTEN.into_iter().zip(expected) {
        let name = name(fixture, failed);
        let says = |what: &str| {
            let found =
                answer.text.lines().find_map(|l| l.strip_prefix(&format!("{name} {what} ")));
            found.map(|text| text.trim().to_owned())
        };
        let state = if failed.is_some() { "clean, degraded" } else { "clean" };
        assert_eq!(says("state").as_deref(), Some(state), "{name}: {}", answer.text);
        assert_eq!(says("content"), Some(sha256(&expected)), "{name}");
        assert!(says("mismatches").is_none_or(|count| count == "0"), "{name}: {}", answer.text);
        expected[20 * 4096..][..change.len()].copy_from_slice(&change);
        assert_eq!(says("changed"), Some(sha256(&expected)), "{name}");
        let array = came_back(&answer, &name);
        assert!(array.states().iter().all(|state| *state == MemberState::InSync), "{name}");
        assert!(content(&array) == expected, "{name}");
        let wrong: Vec<_> =
            (0..array.scrub_rows()).flat_map(|row| array.scrub_row(row, false).unwrap()).collect();
        assert_eq!(wrong, [], "{name}");
    }
}
