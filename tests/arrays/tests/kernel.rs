//! Linux's md takes back arrays that were written here: it assembles them, finds their content and
//! no mismatches, writes them, rebuilds missing members, and returns them.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::assemble::{Member, assemble};
use xfskit_md::layout::Layout;
use xfskit_md::layout::mirror::Raid10;
use xfskit_md::layout::parity::StripeLayout;
use xfskit_test_arrays::{Fixture, NOW, content, sha256};
use xfskit_test_support::guest::{Guest, GuestOutput};
use xfskit_units::{ByteLen, ByteOffset};

/// What happens to an array before the kernel gets it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is written and closed.
    Closed,
    /// The member of this role fails, it is written, and closed.
    Without(usize),
    /// It is written and not closed, and a stripe of its parity, or a copy, is left behind.
    Crashed,
}

use Outcome::{Closed, Crashed, Without};

const WRITTEN: [(&str, Outcome); 19] = [
    ("raid0-zones-original", Closed),
    ("raid1-0.90", Without(1)),
    ("raid1-1.0-bitmap", Closed),
    ("raid1-1.0-bitmap", Crashed),
    ("raid1-1.1-bitmap", Without(0)),
    ("raid1-1.2", Closed),
    ("raid4", Without(2)),
    ("raid5-0.90", Crashed),
    ("raid5-left-symmetric", Closed),
    ("raid5-right-asymmetric", Without(1)),
    ("raid5-journal", Closed),
    ("raid5-ppl", Closed),
    ("raid6-ddf-N-restart", Closed),
    ("raid6-dirty-bitmap", Crashed),
    ("raid6-left-symmetric", Without(3)),
    ("raid10-n2-bitmap", Closed),
    ("raid10-n2-bitmap", Crashed),
    ("raid10-f2-4", Closed),
    ("raid10-o2-4", Without(1)),
];

/// The commands run on every array. `$1` is the directory of its members.
const QUESTIONS: &str = r#"
ask() {
    members=$(loops $1/m*.img)
    mdadm --assemble --run /dev/md0 $members 2>/dev/null || echo "$1 refused"
    sync_action=/sys/block/md0/md/sync_action
    [ -e $sync_action ] && idle md0
    detail=$(mdadm --detail /dev/md0)
    echo "$1 state $(echo "$detail" | sed -n 's/ *State : //p')"
    echo "$1 content $(sha256sum /dev/md0 | cut -d' ' -f1)"
    if [ -e $sync_action ]; then
        idle md0; echo check > $sync_action; idle md0
        echo "$1 mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    fi
    for m in $members; do
        echo "$detail" | grep -q " $m\$" || mdadm --add /dev/md0 $m 2>/dev/null
    done
    [ -e $sync_action ] && sleep 0.2 && idle md0
    dd if=change of=/dev/md0 bs=4096 seek=20 conv=notrunc,fsync 2>/dev/null
    echo "$1 changed $(sha256sum /dev/md0 | cut -d' ' -f1)"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

fn name(fixture: &str, outcome: Outcome) -> String {
    match outcome {
        Closed => fixture.to_owned(),
        Without(role) => format!("{fixture}-without-{role}"),
        Crashed => format!("{fixture}-crashed"),
    }
}

/// Writes the array and packs its members for the guest. Returns its content.
fn written(guest: &mut Guest, fixture: &str, outcome: Outcome) -> Vec<u8> {
    let kept = Fixture::open(fixture);
    let members = kept.named().into_iter().map(|(name, device)| Member { name, device });
    let array = assemble(members.collect()).unwrap().open_writable(NOW).unwrap();
    if let Without(role) = outcome {
        array.fail(role).unwrap();
    }
    let mut expected = content(&array);
    for (at, len) in [(4_000, 9_000), (100_000, 90_000), (expected.len() - 5_000, 5_000)] {
        expected[at..at + len].fill(0x5a);
        array.write_at(ByteOffset(at as u64), &expected[at..at + len]).unwrap();
    }
    if outcome == Crashed {
        std::mem::forget(array);
        tear(&kept);
    } else {
        array.close().unwrap();
    }
    for (member, device) in kept.named() {
        guest.file(&format!("{}/{member}", name(fixture, outcome)), content(&*device));
    }
    expected
}

/// Leaves parity, or a copy, out of date within the second write, at sector 200.
fn tear(kept: &Fixture) {
    let members = kept.named().into_iter().map(|(name, device)| Member { name, device });
    let assembly = assemble(members.collect()).unwrap();
    let geometry = &assembly.geometry;
    let (roles, chunk) = (geometry.raid_disks(), geometry.chunk().0);
    let (role, sector) = match geometry.layout() {
        Layout::Raid1 => (1, 200),
        Layout::Raid10(layout) => {
            let map = Raid10::new(layout, roles, geometry.array_size().0 / chunk);
            let second = map.copies(200 / chunk).nth(1).unwrap();
            (second.role, second.chunk * chunk)
        }
        layout => {
            let stripe = 200 / (chunk * u64::from(geometry.data_disks()));
            (StripeLayout::new(layout, assembly.roles.len(), stripe).unwrap().p, stripe * chunk)
        }
    };
    let member = &assembly.members[assembly.roles[role].unwrap()];
    let at = member.superblock.data_offset().0 + sector;
    member.device.write_at(ByteOffset(at * 512), &[0x11; 512]).unwrap();
}

/// Returns the array of the returned members.
fn came_back(output: &GuestOutput, name: &str) -> Array {
    let folder = format!("{name}/");
    let members = output.files.iter().filter(|(file, _)| file.starts_with(&folder));
    let member = |(name, bytes): (&String, &Vec<u8>)| {
        let device = Arc::new(MemDevice::new(ByteLen(bytes.len() as u64)));
        device.write_at(ByteOffset(0), bytes).unwrap();
        Member { name: name.clone(), device }
    };
    assemble(members.map(member).collect()).unwrap().open_array().unwrap()
}

#[test]
fn the_kernel_assembles_written_arrays_without_mismatches_and_returns_them() {
    if !xfskit_test_support::guest::available_or_skip() {
        return;
    }
    let mut guest = Guest::new();
    let change: Vec<u8> = (0u8..=255).cycle().take(65_536).collect();
    guest.file("change", change.clone());
    guest.script(QUESTIONS);
    let expected = WRITTEN.map(|(fixture, outcome)| {
        guest.script(&format!("ask {}", name(fixture, outcome)));
        written(&mut guest, fixture, outcome)
    });
    guest.script("give */m*.img");
    let output = guest.run().unwrap();
    for ((fixture, outcome), expected) in WRITTEN.into_iter().zip(expected) {
        let name = name(fixture, outcome);
        if let Err(why) = check(&output, &name, outcome, expected, &change) {
            panic!("{name}: {why}, of:\n{}", output.text);
        }
    }
}

/// Checks the kernel's report about an array that held `expected`, and the array it returned.
fn check(
    output: &GuestOutput,
    name: &str,
    outcome: Outcome,
    mut expected: Vec<u8>,
    change: &[u8],
) -> Result<(), String> {
    let reported = |what: &str| {
        let start = format!("{name} {what} ");
        let found = output.text.lines().find_map(|line| line.strip_prefix(&start));
        found.map_or_else(String::new, |text| text.trim().to_owned())
    };
    let is = |what: &str, expected: &str| match reported(what) {
        found if found == expected => Ok(()),
        found => Err(format!("{what} is {found}, not {expected}")),
    };
    is("state", if matches!(outcome, Without(_)) { "clean, degraded" } else { "clean" })?;
    is("content", &sha256(&expected))?;
    if !name.starts_with("raid0") {
        is("mismatches", "0")?;
    }
    expected[20 * 4096..][..change.len()].copy_from_slice(change);
    is("changed", &sha256(&expected))?;
    let array = came_back(output, name);
    if array.states().iter().any(|state| *state != MemberState::InSync) {
        return Err(format!("came back as {:?}", array.states()));
    }
    let agree = |stripe| array.scrub_stripe(stripe, false).is_ok_and(|wrong| wrong.is_empty());
    if content(&array) != expected || !(0..array.scrub_stripes()).all(agree) {
        return Err("came back with other content".into());
    }
    Ok(())
}
