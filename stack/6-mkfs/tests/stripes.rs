//! Compares the stripe of a volume on an array with that of mkfs.xfs 7.2 on a Linux array of the
//! same members.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice, Topology, WindowDevice};
use xfskit_md::create::{BitmapOption, CreateOptions, NewMember};
use xfskit_md::superblock::Version;
use xfskit_md::{Array, Layout, Level};
use xfskit_mkfs::{DeviceFacts, Options, Plan, Stamp, make, plan};
use xfskit_test_support::verify;
use xfskit_units::{ByteLen, ByteOffset, Sectors, Uuid, index};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const STAMP: Stamp = Stamp { uuid: Uuid::from_u128(1), seconds: 0, nanoseconds: 0, generation: 0 };

fn planned(facts: &DeviceFacts, words: &str) -> Result<Plan, String> {
    let mut options = Options::default();
    for pair in words.split_whitespace().collect::<Vec<_>>().chunks(2) {
        match pair {
            ["-f"] => options.force = true,
            [option, arg] => options.sub(option, arg).unwrap(),
            _ => panic!("{words}"),
        }
    }
    plan(&options, facts, STAMP).map_err(|e| e.to_string())
}

/// Makes an array of `n` members of `mib` MiB, whose data begin at 1 MiB.
fn array(n: usize, mib: u64, level: Level, layout: &str, chunk_kib: u64) -> Array {
    let members: Vec<Option<NewMember>> = (0..n)
        .map(|i| {
            let device = Arc::new(MemDevice::new(ByteLen(mib * MIB)));
            Some(NewMember { name: format!("m{i}"), device, uuid: [u8::try_from(i).unwrap(); 16] })
        })
        .collect();
    let recipe = CreateOptions {
        layout: Layout::from_name(level, layout).unwrap_or_else(|| Layout::default_of(level)),
        chunk: Sectors(chunk_kib * 2),
        version: Version::V1_2,
        name: "test".into(),
        uuid: [7; 16],
        size: None,
        data_offset: Some(Sectors(2048)),
        bitmap: BitmapOption::No,
        assume_clean: true,
        now: 1,
    };
    recipe.create(&members, &[]).unwrap();
    let member = |new: NewMember| xfskit_md::Member { name: new.name, device: new.device };
    let members = members.into_iter().flatten().map(member).collect();
    xfskit_md::assemble(members).unwrap().open_writable(1).unwrap()
}

/// Returns `agcount agsize sunit swidth` and the log's stripe unit, in blocks.
fn numbers(plan: &Plan) -> String {
    let geo = &plan.geometry;
    let log = if geo.logsunit > 1 { geo.logsunit >> geo.blocklog } else { 0 };
    format!("{} {} {} {} {log}", geo.agcount, geo.agblocks, geo.unit, geo.width)
}

#[test]
fn a_volume_has_the_stripe_of_its_array() {
    // Members of 3 GiB: the output of `mkfs.xfs -N` 7.2 on Linux 7.2.
    for (n, level, layout, chunk, words, expected) in [
        (4, Level::Raid0, "original", 64, "", "16 196528 16 64 16"),
        (4, Level::Raid0, "original", 64, "-d noalign", "4 786176 0 0 0"),
        (4, Level::Raid0, "original", 64, "-d size=1000m", "4 64000 0 0 0"),
        (4, Level::Raid0, "original", 64, "-d size=1024m", "8 32752 16 64 16"),
        (4, Level::Raid0, "original", 64, "-d su=32k,sw=4", "16 196536 8 32 8"),
        (4, Level::Raid0, "original", 64, "-d sunit=0,swidth=0", "4 786176 0 0 0"),
        (4, Level::Raid0, "original", 64, "-l su=32k", "16 196528 16 64 8"),
        (4, Level::Raid0, "original", 64, "-b size=65536", "16 12283 1 4 1"),
        (4, Level::Raid0, "original", 64, "-d agcount=7", "7 449248 16 64 16"),
        (4, Level::Raid0, "original", 64, "-d agsize=256m", "48 65536 16 64 16"),
        (4, Level::Raid0, "original", 4, "", "16 196543 1 4 1"),
        (4, Level::Raid0, "original", 4, "-b size=8192", "4 393088 0 0 0"),
        (4, Level::Raid0, "original", 4, "-b size=1024", "16 786172 4 16 4"),
        (3, Level::Raid0, "original", 12, "", "16 147408 3 9 3"),
        (4, Level::Raid0, "original", 512, "", "16 196480 128 512 8"),
        (4, Level::Raid0, "original", 1024, "", "16 196352 256 1024 8"),
        (2, Level::Raid1, "", 0, "", "4 196544 0 0 0"),
        (4, Level::Raid5, "left-symmetric", 64, "", "16 147392 16 48 16"),
        (6, Level::Raid6, "left-symmetric", 64, "", "16 196528 16 64 16"),
        (4, Level::Raid10, "n2", 64, "", "8 196528 16 32 16"),
        (5, Level::Raid10, "n2", 64, "", "8 245664 16 80 16"),
        (4, Level::Raid10, "n4", 64, "", "8 98272 16 16 16"),
    ] {
        let array = array(n, 3072, level, layout, chunk);
        let plan = planned(&DeviceFacts::of(&array, None), words).unwrap();
        assert_eq!(numbers(&plan), expected, "{level} of {n}, {chunk} KiB, {words}");
    }
}

#[test]
fn the_width_is_that_of_linux_for_every_level() {
    // `optimal_io_size`, in chunks.
    for (n, level, layout, members) in [
        (4, Level::Raid4, "", 3),
        (5, Level::Raid5, "right-symmetric", 4),
        (5, Level::Raid6, "left-symmetric-6", 3),
        (3, Level::Raid10, "n2", 3),
        (4, Level::Raid10, "f2", 4),
        (3, Level::Raid10, "f2", 3),
        (4, Level::Raid10, "o2", 4),
        (4, Level::Raid10, "n3", 4),
        (6, Level::Raid10, "n3", 2),
    ] {
        let found = array(n, 8, level, layout, 64).topology();
        let width = ByteLen(members * 64 * KIB);
        assert_eq!((found.stripe_unit, found.stripe_width), (ByteLen(64 * KIB), width), "{layout}");
    }
}

#[test]
fn a_requested_stripe_that_is_not_the_arrays_is_noted() {
    let facts = DeviceFacts::of(&array(4, 3072, Level::Raid0, "original", 64), None);
    let notes = |words| planned(&facts, words).unwrap().notes.join("\n");
    for words in ["", "-d su=64k,sw=4", "-d noalign", "-d sunit=0,swidth=0"] {
        assert_eq!(notes(words), "", "{words}");
    }
    assert!(notes("-d su=32k,sw=4").contains("not the device's (unit 65536, width 262144)"));
    assert!(notes("-d su=64k,sw=2").contains("not the device's"));
    assert!(notes("-d size=1000m").contains("smaller than 1 GiB"));
}

#[test]
fn a_partition_that_is_not_aligned_is_refused_without_force() {
    let array: Arc<dyn BlockDevice> = Arc::new(array(4, 3072, Level::Raid5, "left-symmetric", 64));
    let part = |sector: u64| {
        let (start, len) = (ByteOffset(sector * 512), ByteLen(8_000_000 * 512));
        DeviceFacts::of(&WindowDevice::new(Arc::clone(&array), start, len).unwrap(), None)
    };
    for sector in [2048, 128] {
        assert_eq!(numbers(&planned(&part(sector), "").unwrap()), "8 125008 16 48 16");
    }
    for sector in [63, 64, 1000, 8] {
        let why = planned(&part(sector), "").unwrap_err();
        assert!(why.contains("not aligned to the stripes"), "{why}");
        let forced = planned(&part(sector), "-f").unwrap();
        assert_eq!(numbers(&forced), "8 125008 16 48 16");
        assert!(forced.notes.join("\n").contains("not aligned"));
        assert_eq!(numbers(&planned(&part(sector), "-d noalign").unwrap()), "4 250000 0 0 0");
    }
}

#[test]
fn a_volume_on_an_array_is_the_one_made_with_its_stripe_requested() {
    let array = array(3, 401, Level::Raid0, "original", 64);
    let size = array.size();
    make(&array, None, &planned(&DeviceFacts::of(&array, None), "").unwrap()).unwrap();
    let requested = MemDevice::new(size);
    let plan = planned(&DeviceFacts::file(size), "-d su=64k,sw=3").unwrap();
    make(&requested, None, &plan).unwrap();
    let step = 16 * MIB;
    let (mut a, mut b) = (vec![0; index(step)], vec![0; index(step)]);
    for at in (0..size.0).step_by(index(step)) {
        let len = index(step.min(size.0 - at));
        array.read_at(ByteOffset(at), &mut a[..len]).unwrap();
        requested.read_at(ByteOffset(at), &mut b[..len]).unwrap();
        assert!(a[..len] == b[..len], "from byte {at}");
    }
    verify::device(&array).unwrap();
}

#[test]
fn impossible_stripes_of_a_device_are_ignored() {
    let stripes = |unit, width| {
        let [stripe_unit, stripe_width] = [ByteLen(unit), ByteLen(width)];
        let stripes = Topology { stripe_unit, stripe_width, ..Topology::default() };
        let facts = DeviceFacts { stripes, ..DeviceFacts::file(ByteLen(4096 * MIB)) };
        numbers(&planned(&facts, "").unwrap())
    };
    let none = "4 262144 0 0 0";
    for (unit, width) in [(65536, 0), (0, 65536), (65536, 98_304), (65537, 131_074)] {
        assert_eq!(stripes(unit, width), none, "{unit} {width}");
    }
}
