//! Arrays created here are used by Linux: md assembles them, reads them, runs them without a
//! member, rebuilds it, and they are taken back. They are also compared with arrays that mdadm
//! creates of the same members: all bytes are equal except names and times.

#![allow(missing_docs)]

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::Level;
use xfskit_md::array::MemberState;
use xfskit_md::bitmap::Bitmap;
use xfskit_md::create::{CreateOptions, NewMember};
use xfskit_md::superblock::{self, Version};
use xfskit_test_arrays::member_set::{MIB, MemberSet, create_options, fill, layout, run_to_end};
use xfskit_test_arrays::{assembly, content, is_consistent, sha256};
use xfskit_test_support::guest::{Guest, GuestOutput};
use xfskit_units::{ByteLen, ByteOffset, index};

/// The commands run in the guest. `$1` is the directory of an array's members.
const QUESTIONS: &str = r#"
sum() { echo "$1 $2 $(sha256sum /dev/md0 | cut -d' ' -f1)"; }
check() {
    echo check > /sys/block/md0/md/sync_action; idle md0
    echo "$1 $2 $(cat /sys/block/md0/md/mismatch_cnt)"
}
ours() {
    members=$(loops $1/m*)
    mdadm --assemble --run /dev/md0 $members 2>/dev/null || echo "$1 refused"
    if [ $2 = redundant ]; then sleep 0.3; idle md0; fi
    sum $1 content
    if [ $2 = redundant ]; then
        check $1 mismatches
        set -- $1 $members
        mdadm --fail /dev/md0 $3 2>/dev/null; sleep 0.1; mdadm --remove /dev/md0 $3 2>/dev/null
        sum $1 degraded
        dd if=change of=/dev/md0 bs=4096 seek=20 conv=notrunc,fsync 2>/dev/null
        mdadm --zero-superblock $3; mdadm --add /dev/md0 $3 2>/dev/null
        sleep 0.3; idle md0
        sum $1 rebuilt
        check $1 left
    else
        dd if=change of=/dev/md0 bs=4096 seek=20 conv=notrunc,fsync 2>/dev/null
        sum $1 rebuilt
    fi
    echo "$1 state $(mdadm --detail /dev/md0 | sed -n 's/ *State : //p')"
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
theirs() {
    folder=$1; shift
    members=$(loops $folder/m*)
    rm -f /dev/md0
    mdadm --create /dev/md0 --run --homehost=none --name=test "$@" $members 2>&1
    sleep 0.3; [ -e /sys/block/md0/md/sync_action ] && idle md0
    dd if=content of=/dev/md0 bs=64k conv=notrunc,fsync 2>/dev/null
    mdadm --stop /dev/md0 2>/dev/null
    for m in $members; do losetup -d $m; done
}
"#;

/// An array that is created by both.
struct Case {
    level: Level,
    layout: &'static str,
    members: usize,
    version: Version,
    bitmap: bool,
}

const fn case(level: Level, layout: &'static str, version: Version) -> Case {
    let members = match level {
        Level::Raid1 => 2,
        Level::Raid6 | Level::Raid10 => 4,
        _ => 3,
    };
    Case { level, layout, members, version, bitmap: false }
}

impl Case {
    const fn bitmap(self) -> Self {
        Self { bitmap: true, ..self }
    }
}

use Version::{V1_0, V1_1, V1_2};

const CASES: [Case; 16] = [
    case(Level::Raid0, "original", V1_0),
    case(Level::Raid0, "original", V1_2),
    case(Level::Raid1, "", V1_0).bitmap(),
    case(Level::Raid1, "", V1_1),
    case(Level::Raid1, "", V1_2),
    case(Level::Raid4, "", V1_0),
    case(Level::Raid4, "", V1_2),
    case(Level::Raid5, "left-symmetric", V1_0),
    case(Level::Raid5, "right-asymmetric", V1_1),
    case(Level::Raid5, "left-symmetric", V1_2).bitmap(),
    case(Level::Raid6, "left-symmetric", V1_0),
    case(Level::Raid6, "ddf-N-continue", V1_1),
    case(Level::Raid6, "left-symmetric", V1_2).bitmap(),
    case(Level::Raid10, "n2", V1_0).bitmap(),
    case(Level::Raid10, "f2", V1_1),
    case(Level::Raid10, "o2", V1_2),
];

impl Case {
    fn name(&self) -> String {
        let (level, layout, bitmap) = (self.level, self.layout, self.bitmap);
        format!("{level}-{layout}-{}-{bitmap}", self.metadata()).to_lowercase().replace(' ', "")
    }

    fn metadata(&self) -> &'static str {
        match self.version {
            V1_0 => "1.0",
            V1_1 => "1.1",
            _ => "1.2",
        }
    }

    fn is_redundant(&self) -> bool {
        self.level != Level::Raid0
    }

    /// Returns members that held something before.
    fn set(&self) -> MemberSet {
        let mut set = MemberSet::default();
        for i in 0..self.members {
            set.put(3 * MIB);
            let noise = vec![u8::try_from(i + 1).unwrap(); index(2 * MIB)];
            set.0[i].1.write_at(ByteOffset(MIB), &noise).unwrap();
        }
        set
    }

    /// Creates the array here, resyncs and rebuilds it, and fills it.
    fn create_array(&self) -> (MemberSet, Vec<u8>) {
        let set = self.set();
        let wanted = create_options(layout(self.level, self.layout), self.bitmap);
        let size = wanted.size.filter(|_| self.is_redundant());
        let wanted = CreateOptions { version: self.version, assume_clean: false, size, ..wanted };
        let roles: Vec<Option<NewMember>> =
            (0..self.members).map(|i| Some(set.new_member(i))).collect();
        wanted.create(&roles, &[]).unwrap();
        let array = set.open();
        assert!(array.resync(|_, _| true).unwrap());
        array.rebuild(run_to_end).unwrap();
        let expected = fill(&array, 5);
        array.close().unwrap();
        drop(array);
        (set, expected)
    }

    /// Returns the options of mdadm.
    fn words(&self) -> String {
        let level = self.level.name().trim_start_matches("raid").to_owned();
        let (members, metadata) = (self.members, self.metadata());
        let mut words =
            vec![format!("--level={level} --raid-devices={members} --metadata={metadata}")];
        if !self.layout.is_empty() {
            words.push(format!("--layout={}", self.layout));
        }
        if self.level != Level::Raid1 {
            words.push("--chunk=16".into());
        }
        if self.is_redundant() {
            words.push("--size=512".into());
        }
        if self.bitmap {
            words.push("--bitmap=internal --bitmap-chunk=64K".into());
        }
        words.join(" ")
    }
}

fn put(guest: &mut Guest, folder: &str, set: &MemberSet) {
    for (member, device) in &set.0 {
        guest.file(&format!("{folder}/{member}"), content(&**device));
    }
}

/// Returns the members of a directory that came back.
fn came_back(output: &GuestOutput, folder: &str) -> Vec<Arc<dyn BlockDevice>> {
    let folder = format!("{folder}/");
    let members = output.files.iter().filter(|(file, _)| file.starts_with(&folder));
    let device = |(_, bytes): (&String, &Vec<u8>)| {
        let device = MemDevice::new(ByteLen(bytes.len() as u64));
        device.write_at(ByteOffset(0), bytes).unwrap();
        Arc::new(device) as Arc<dyn BlockDevice>
    };
    members.map(device).collect()
}

fn output_line(output: &GuestOutput, name: &str, what: &str) -> String {
    let start = format!("{name} {what} ");
    let found = output.text.lines().find_map(|line| line.strip_prefix(&start));
    found.unwrap_or("nothing").trim().to_owned()
}

#[test]
fn the_kernel_reads_degrades_and_rebuilds_arrays_created_here_and_returns_them() {
    if !xfskit_test_support::guest::available_or_skip() {
        return;
    }
    let mut guest = Guest::new();
    let change: Vec<u8> = (0u8..=255).cycle().take(65_536).collect();
    guest.file("change", change.clone());
    guest.script(QUESTIONS);
    let made: Vec<Vec<u8>> = CASES
        .iter()
        .map(|case| {
            let (set, expected) = case.create_array();
            put(&mut guest, &case.name(), &set);
            let redundant = if case.is_redundant() { "redundant" } else { "plain" };
            guest.script(&format!("ours {} {redundant}", case.name()));
            expected
        })
        .collect();
    guest.script("give */m*");
    let output = guest.run().unwrap();
    for (case, mut expected) in CASES.iter().zip(made) {
        let name = case.name();
        let before = sha256(&expected);
        expected[20 * 4096..][..change.len()].copy_from_slice(&change);
        let after = sha256(&expected);
        let mut outputs = vec![("content", &*before), ("rebuilt", &*after), ("state", "clean")];
        if case.is_redundant() {
            outputs.extend([("mismatches", "0"), ("degraded", &*before), ("left", "0")]);
        }
        for (what, expected) in outputs {
            assert_eq!(
                output_line(&output, &name, what),
                expected,
                "{name}: {what} of {}",
                output.text
            );
        }
        let array = assembly(&came_back(&output, &name)).open_array().unwrap();
        assert!(array.states().iter().all(|state| *state == MemberState::InSync), "{name}");
        assert!(content(&array) == expected && is_consistent(&array), "{name}: came back");
    }
}

/// Fields of a superblock with identities and times: set_uuid, set_name and ctime; device_uuid;
/// utime and events; sb_csum.
const OWN: [Range<usize>; 4] = [0x10..0x48, 0xa8..0xb8, 0xc0..0xd0, 0xd8..0xdc];

/// The same fields of a bitmap: uuid, events, events_cleared.
const OWN_OF_BITMAP: Range<usize> = 8..40;

/// Returns superblock and bitmap of a member without identities and times, and its data. The
/// bad-block log is left out: it is written here and left untouched by mdadm, and it is not used
/// unless the superblock has the feature.
fn parts(device: &dyn BlockDevice) -> [(&'static str, Vec<u8>); 3] {
    let bytes = content(device);
    let found = superblock::read(device).unwrap().expect("a superblock").superblock;
    let at = index(found.at().byte_offset().0);
    let mut superblock = bytes[at..at + 256 + 2 * index(u64::from(found.max_dev()))].to_vec();
    for field in OWN {
        superblock[field].fill(0);
    }
    if found.level() == 0 {
        // RAID0_LAYOUT: mdadm does not set it if all members are equal, because then all layouts
        // are the same.
        superblock[9] &= !0x10;
    }
    let bitmap = Bitmap::read(device, &found).unwrap();
    let mut bitmap = bitmap.map_or_else(Vec::new, |bitmap| bitmap.encode());
    if let Some(own) = bitmap.get_mut(OWN_OF_BITMAP) {
        own.fill(0);
    }
    let start = index(found.data_offset().byte_len().0);
    let size = if found.level() == 0 { found.data_size() } else { found.size() };
    let data = bytes[start..start + index(size.byte_len().0)].to_vec();
    [("superblock", superblock), ("bitmap", bitmap), ("data", data)]
}

#[test]
fn members_created_here_equal_those_of_mdadm() {
    if !xfskit_test_support::guest::available_or_skip() {
        return;
    }
    let mut guest = Guest::new();
    guest.script(QUESTIONS);
    let made: Vec<MemberSet> = CASES
        .iter()
        .map(|case| {
            let (set, expected) = case.create_array();
            let name = case.name();
            put(&mut guest, &name, &case.set());
            guest.file(&format!("{name}.content"), expected);
            guest.script(&format!("ln -sf {name}.content content; theirs {name} {}", case.words()));
            set
        })
        .collect();
    guest.script("give */m*");
    let output = guest.run().unwrap();
    for (case, set) in CASES.iter().zip(made) {
        let theirs = came_back(&output, &case.name());
        assert_eq!(theirs.len(), set.0.len());
        for ((member, ours), theirs) in set.0.iter().zip(theirs) {
            for ((what, ours), (_, theirs)) in parts(&**ours).into_iter().zip(parts(&*theirs)) {
                assert_eq!(ours.len(), theirs.len(), "{} {member}: {what}", case.name());
                let differs = (0..ours.len()).find(|i| ours[*i] != theirs[*i]);
                assert_eq!(differs, None, "{} {member}: {what}, of\n{}", case.name(), output.text);
            }
        }
    }
}
