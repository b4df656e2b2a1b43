//! A RAID0 has the same size and content as in Linux, for any chunk and any member sizes.

#![allow(missing_docs)]

use xfskit_block::BlockDevice;
use xfskit_md::create::{CreateOptions, NewMember};
use xfskit_md::{Layout, Raid0Layout};
use xfskit_test_arrays::member_set::{MIB, MemberSet, create_options, fill};
use xfskit_test_arrays::{content, sha256};
use xfskit_test_support::guest::Guest;
use xfskit_units::{ByteOffset, Sectors};

const ASK: &str = r#"
ask() {
    members=$(loops $1/m*)
    mdadm --assemble --run /dev/md0 $members 2>/dev/null || echo "$1 refused"
    echo "$1 $(blockdev --getsize64 /dev/md0) $(sha256sum /dev/md0 | cut -d' ' -f1)"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

/// Chunk in KiB, sectors of the members behind the first MiB.
const CASES: [(u64, &[u64]); 4] = [
    (12, &[2048, 2048, 2048]),
    (12, &[2048, 4096, 6000]),
    (20, &[5000, 5000, 7777]),
    (64, &[2048, 2999]),
];

/// Creates an array of members with so many sectors behind their first MiB.
fn create_array(layout: Raid0Layout, kib: u64, sizes: &[u64]) -> MemberSet {
    let mut set = MemberSet::default();
    for sectors in sizes {
        set.put(MIB + sectors * 512);
    }
    let roles: Vec<Option<NewMember>> = (0..sizes.len()).map(|m| Some(set.new_member(m))).collect();
    let data_offset = Some(Sectors(2048));
    let wanted = create_options(Layout::Raid0(layout), false);
    let wanted = CreateOptions { chunk: Sectors(2 * kib), size: None, data_offset, ..wanted };
    wanted.create(&roles, &[]).unwrap();
    set
}

#[test]
fn member_space_beyond_the_arrays_end_maps_to_no_range() {
    for (kib, sizes) in CASES {
        let array = create_array(Raid0Layout::Original, kib, sizes).open();
        let all = |(role, sectors): (usize, &u64)| {
            let range = ByteOffset(MIB)..ByteOffset(MIB + sectors / (2 * kib) * (2 * kib) * 512);
            array.array_ranges(role, &range).unwrap()
        };
        let parts: Vec<_> = sizes.iter().enumerate().flat_map(all).collect();
        assert!(parts.iter().all(|part| part.start < part.end && part.end.0 <= array.size().0));
        let held: u64 = parts.iter().map(|part| part.end.0 - part.start.0).sum();
        assert_eq!(held, array.size().0, "{kib} KiB, {sizes:?}");
    }
}

#[test]
fn a_raid0_has_the_same_size_and_content_in_linux() {
    if !xfskit_test_support::guest::available_or_skip() {
        return;
    }
    let mut guest = Guest::new();
    guest.script(ASK);
    let mut expected = Vec::new();
    for (i, (kib, sizes)) in CASES.iter().enumerate() {
        for layout in [Raid0Layout::Original, Raid0Layout::Alternate] {
            let set = create_array(layout, *kib, sizes);
            let array = set.open();
            let sum = sha256(&fill(&array, 7));
            let (bytes, name) = (array.size(), format!("{i}-{layout:?}"));
            array.close().unwrap();
            for (member, device) in &set.0 {
                guest.file(&format!("{name}/{member}"), content(&**device));
            }
            guest.script(&format!("ask {name}"));
            expected.push(format!("{name} {bytes} {sum}"));
        }
    }
    let output = guest.run().unwrap();
    for line in expected {
        assert!(
            output.text.lines().any(|output_line| output_line == line),
            "{line}, not\n{}",
            output.text
        );
    }
}
