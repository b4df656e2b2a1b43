//! Sync actions on arrays created here: members fail, spares take over, rebuilds are stopped and
//! continued, members are replaced, re-added, removed. The content stays the same, also without any
//! one member.

#![allow(missing_docs)]

use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::Level;
use xfskit_md::array::MemberState;
use xfskit_md::array::sync_action::{Completion, Progress};
use xfskit_md::assemble::{Freshness, Member, assemble};
use xfskit_md::bitmap::Bitmap;
use xfskit_md::create::{CreateOptions, NewMember};
use xfskit_test_arrays::member_set::{
    MIB, MemberSet, create_array, create_options, fill, layout, run_to_end,
};
use xfskit_test_arrays::{Fixture, NOW, content, is_consistent};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, MemberSector, Sectors, index};

/// Asserts that the array is complete, clean, and has this content, also without any one of its
/// members.
fn assert_whole(set: &MemberSet, expected: &[u8], what: &str) {
    let assembly = set.assembly();
    assert!(!assembly.is_degraded() && !assembly.is_dirty(), "{what}: {assembly:?}");
    assert!(content(&*assembly.open().unwrap()) == expected, "{what}");
    for role in 0..assembly.roles.len() {
        let mut one_less = assembly.clone();
        one_less.roles[role] = None;
        assert!(content(&*one_less.open().unwrap()) == expected, "{what} without {role}");
    }
    let array = assembly.open_array().unwrap();
    for stripe in 0..array.scrub_stripes() {
        assert_eq!(array.scrub_stripe(stripe, false).unwrap(), [], "{what}");
    }
}

const SHAPES: [(Level, &str, usize); 12] = [
    (Level::Raid1, "", 3),
    (Level::Raid4, "", 3),
    (Level::Raid5, "left-symmetric", 4),
    (Level::Raid5, "parity-first", 3),
    (Level::Raid6, "left-symmetric", 5),
    (Level::Raid6, "ddf-N-continue", 4),
    (Level::Raid6, "right-asymmetric-6", 5),
    (Level::Raid10, "n2", 4),
    (Level::Raid10, "n2", 3),
    (Level::Raid10, "f2", 3),
    (Level::Raid10, "o2", 4),
    (Level::Raid10, "n3", 5),
];

#[test]
fn a_spare_takes_over_while_the_array_is_written_and_is_rebuilt() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 1, members % 2 == 0);
        let array = set.open();
        fill(&array, 1);
        array.fail(1).unwrap();
        assert_eq!(array.states()[1], MemberState::Recovering(MemberByte(0)), "{what}");
        let expected = fill(&array, 2);
        array.close().unwrap();
        drop(array);
        let freshness = set.assembly().members[members].freshness;
        assert_eq!(freshness, Freshness::Rebuilding { role: 1, until: MemberSector(0) }, "{what}");
        assert!(matches!(set.assembly().members[1].freshness, Freshness::Stale { .. }), "{what}");
        assert!(content(&*set.assembly().open().unwrap()) == expected, "{what}");
        let array = set.open();
        assert_eq!(array.rebuild(run_to_end).unwrap(), Completion::Finished, "{what}");
        assert!(!array.needs_rebuild(), "{what}");
        assert_eq!(array.states()[1], MemberState::InSync, "{what}");
        array.close().unwrap();
        drop(array);
        assert_whole(&set, &expected, &what);
        assert_eq!(set.assembly().bitmap.as_ref().map_or(0, Bitmap::dirty), 0, "{what}");
    }
}

#[test]
fn two_members_of_a_raid6_are_rebuilt_in_one_pass() {
    let set = create_array(layout(Level::Raid6, "left-symmetric"), 6, 2, false);
    let array = set.open();
    let expected = fill(&array, 3);
    array.fail(0).unwrap();
    array.fail(4).unwrap();
    let before = array.io_stats().read;
    array.rebuild(run_to_end).unwrap();
    // Four members of data are read once.
    assert_eq!(array.io_stats().read.minus(before), ByteLen(4 * 1024 * 512));
    drop(array);
    assert_whole(&set, &expected, "two at once");
}

#[test]
fn a_stopped_rebuild_continues_where_it_was() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let mut create_options = create_options(layout(level, name), false);
        create_options.size = Some(Sectors(24 << 11));
        let mut set = MemberSet::default();
        (0..=members).for_each(|_| set.put(32 * MIB));
        let roles: Vec<_> = (0..members).map(|i| Some(set.new_member(i))).collect();
        create_options.create(&roles, &[set.new_member(members)]).unwrap();
        let array = set.open();
        array.fail(0).unwrap();
        let mut expected = content(&array);
        let stop = |step: Progress| {
            if step.done.times(2) >= step.total {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        assert_eq!(array.rebuild(stop).unwrap(), Completion::Stopped, "{what}");
        let MemberState::Recovering(at) = array.states()[0] else { panic!("{what}") };
        drop(array);
        let Freshness::Rebuilding { role: 0, until } = set.assembly().members[members].freshness
        else {
            panic!("{what}: {:?}", set.assembly().members);
        };
        assert_eq!(until.byte().0, at.0, "{what}");
        assert!(until.0 >= 12 << 11, "{what}");
        // Writes below and above the rebuild's position.
        let array = set.open();
        for offset in (0..expected.len()).step_by(2_000_000) {
            let end = expected.len().min(offset + 3000);
            expected[offset..end].fill(0x77);
            array.write_at(ByteOffset(offset as u64), &expected[offset..end]).unwrap();
        }
        let mut first = None;
        array
            .rebuild(|step| {
                first.get_or_insert(step.done);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(first.unwrap().0 > at.0, "{what}");
        drop(array);
        let assembly = set.assembly();
        for role in 0..members {
            let mut one_less = assembly.clone();
            one_less.roles[role] = None;
            assert!(content(&*one_less.open().unwrap()) == expected, "{what} without {role}");
        }
    }
}

#[test]
fn a_rebuild_stopped_at_its_very_end_is_finished_later() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 1, false);
        let array = set.open();
        let expected = fill(&array, 10);
        array.fail(1).unwrap();
        // All of it is one window.
        assert_eq!(
            array.rebuild(|_| ControlFlow::Break(())).unwrap(),
            Completion::Stopped,
            "{what}"
        );
        drop(array);
        assert!(set.assembly().is_degraded(), "{what}");
        let array = set.open();
        assert!(array.needs_rebuild(), "{what}");
        array.rebuild(run_to_end).unwrap();
        drop(array);
        assert_whole(&set, &expected, &what);
    }
}

#[test]
fn a_replacement_is_filled_while_the_member_serves_and_then_takes_the_role() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 1, true);
        let array = set.open();
        fill(&array, 4);
        assert_eq!(array.replace(2, None).unwrap().as_deref(), Some(&*format!("m{members}")));
        assert_eq!(array.replace(2, None).unwrap(), None, "{what}: it has one already");
        let mut expected = fill(&array, 5);
        array.close().unwrap();
        drop(array);
        let freshness = set.assembly().members[members].freshness;
        assert_eq!(freshness, Freshness::Replacement { role: 2 }, "{what}");
        assert!(!set.assembly().is_degraded(), "{what}");
        let array = set.open();
        expected[5000..6000].fill(1);
        array.write_at(ByteOffset(5000), &expected[5000..6000]).unwrap();
        array.rebuild(run_to_end).unwrap();
        drop(array);
        let after = set.assembly();
        assert_eq!(after.members[members].freshness, Freshness::InSync { role: 2 }, "{what}");
        assert!(matches!(after.members[2].freshness, Freshness::Stale { .. }), "{what}");
        assert_whole(&set, &expected, &what);
    }
}

#[test]
fn a_member_that_is_rebuilt_and_its_replacement_are_filled_together() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 2, false);
        let array = set.open();
        array.fail(1).unwrap();
        array.replace(1, None).unwrap().expect("a second spare");
        let expected = fill(&array, 8);
        // Everything is filled in the first window; the member continues to serve.
        assert_eq!(
            array.rebuild(|_| ControlFlow::Break(())).unwrap(),
            Completion::Stopped,
            "{what}"
        );
        assert!(is_consistent(&array), "{what}: the member");
        array.rebuild(run_to_end).unwrap();
        assert!(is_consistent(&array), "{what}: the replacement");
        drop(array);
        assert_whole(&set, &expected, &what);
    }
}

#[test]
fn a_re_added_member_gets_only_what_the_bitmap_names() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 0, true);
        let array = set.open();
        let mut expected = fill(&array, 6);
        array.close().unwrap();
        array.fail(1).unwrap();
        expected[100_000..104_000].fill(9);
        array.write_at(ByteOffset(100_000), &expected[100_000..104_000]).unwrap();
        drop(array);
        let candidate = set.assembly().re_add_candidate("m1").expect("a bitmap that knows");
        let array = set.open();
        array.re_add(&candidate).unwrap();
        let before = array.io_stats().read;
        array.rebuild(run_to_end).unwrap();
        let read = array.io_stats().read.minus(before);
        // A mirror is read a megabyte at a time, and this one is smaller.
        assert!(read < ByteLen(1024 * 512) || level == Level::Raid1, "{what}: {read}");
        drop(array);
        assert_whole(&set, &expected, &what);
    }
}

#[test]
fn a_spare_that_fails_before_it_is_filled_cannot_be_re_added() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = create_array(layout(level, name), members, 1, true);
        let array = set.open();
        fill(&array, 9);
        array.close().unwrap();
        array.fail(1).unwrap();
        array.fail(1).unwrap();
        drop(array);
        let spare = format!("m{members}");
        assert!(set.assembly().re_add_candidate(&spare).is_none(), "{what}");
    }
}

#[test]
fn a_new_device_becomes_a_spare_and_then_a_member() {
    let mut set = create_array(layout(Level::Raid6, ""), 4, 0, true);
    let removed = set.0.remove(1);
    let assembly = set.assembly();
    set.put(3 * MIB);
    set.0[3].0 = "new".into();
    let new = NewMember { uuid: [77; 16], ..set.new_member(3) };
    assembly.add(&new, NOW).unwrap();
    assert_eq!(set.assembly().members[3].freshness, Freshness::Spare);
    let array = set.open();
    let expected = fill(&array, 7);
    assert_eq!(array.activate_spares().unwrap(), [(1, "new".to_owned())]);
    array.rebuild(run_to_end).unwrap();
    drop(array);
    assert_whole(&set, &expected, "a new device");
    // The member that was left out is stale now.
    set.0.push(removed);
    assert!(matches!(set.assembly().members[4].freshness, Freshness::Stale { .. }));
    let small = NewMember { device: Arc::new(MemDevice::new(ByteLen(MIB))), ..set.new_member(0) };
    assert!(set.assembly().add(&small, NOW).is_err());
}

#[test]
fn the_last_complete_member_does_not_fail_in_favour_of_one_being_rebuilt() {
    let set = create_array(layout(Level::Raid5, ""), 3, 1, false);
    let array = set.open();
    let expected = fill(&array, 8);
    array.fail(0).unwrap();
    assert!(array.fail(1).is_err());
    array.rebuild(run_to_end).unwrap();
    array.fail(1).unwrap();
    drop(array);
    assert!(content(&*set.assembly().open().unwrap()) == expected);
}

#[test]
fn a_new_array_without_assume_clean_is_resynced() {
    for (level, name, members) in SHAPES {
        let what = format!("{level} {name} of {members}");
        let set = MemberSet::new(members);
        for (i, (_, device)) in set.0.iter().enumerate() {
            let noise = vec![u8::try_from(i + 1).unwrap(); index(3 * MIB)];
            device.write_at(ByteOffset(0), &noise).unwrap();
        }
        let roles: Vec<_> = (0..members).map(|i| Some(set.new_member(i))).collect();
        CreateOptions { assume_clean: false, ..create_options(layout(level, name), members == 5) }
            .create(&roles, &[])
            .unwrap();
        let array = set.open();
        array.resync(|_, _| true).unwrap();
        array.rebuild(run_to_end).unwrap();
        let expected = content(&array);
        drop(array);
        assert_whole(&set, &expected, &what);
    }
}

#[test]
fn a_rebuild_started_by_linux_is_finished_here() {
    let fixture = Fixture::open("raid5-rebuilding");
    let assembly = || {
        let members = fixture.named().into_iter().map(|(name, device)| Member { name, device });
        assemble(members.collect()).unwrap()
    };
    let array = assembly().open_writable(NOW).unwrap();
    let expected = content(&array);
    assert_eq!(array.rebuild(run_to_end).unwrap(), Completion::Finished);
    drop(array);
    let after = assembly();
    assert!(!after.is_degraded());
    for role in 0..after.roles.len() {
        let mut one_less = after.clone();
        one_less.roles[role] = None;
        assert!(content(&*one_less.open().unwrap()) == expected, "without {role}");
    }
}

#[test]
fn a_stopped_resync_continues_where_it_was() {
    for (level, name, members) in
        [(Level::Raid1, "", 2), (Level::Raid6, "left-symmetric", 4), (Level::Raid10, "n2", 4)]
    {
        let what = format!("{level} of {members}");
        let mut set = MemberSet::default();
        (0..members).for_each(|_| set.put(32 * MIB));
        let roles: Vec<_> = (0..members).map(|i| Some(set.new_member(i))).collect();
        let size = Some(Sectors(24 << 11));
        CreateOptions { assume_clean: false, size, ..create_options(layout(level, name), false) }
            .create(&roles, &[])
            .unwrap();
        let array = set.open();
        let expected = fill(&array, 12);
        array.close().unwrap();
        assert!(!array.resync(|done, total| done.times(2) < total).unwrap(), "{what}");
        drop(array);
        let from = set.assembly().superblock().resync_offset().expect("not in sync yet").0;
        assert!(from >= 12 << 11, "{what}: {from}");
        let array = set.open();
        let mut first = None;
        let finished = array.resync(|done, total| {
            first.get_or_insert(total);
            done <= total
        });
        assert!(finished.unwrap() && first.unwrap().0 <= array.size().0 - from * 512, "{what}");
        drop(array);
        assert_whole(&set, &expected, &what);
    }
}
