//! Compares the geometry with what mkfs.xfs 6.13 printed.
//!
//! `geometry-6.13.txt` was recorded with `mkfs.xfs -N` on sparse files (with its policy of 300 MB
//! turned off, as its own tests do): a size in bytes, options, and either `refused` or every number
//! of the summary in order. The options were drawn at random, the sizes around every threshold.

use xfskit_mkfs::{DeviceFacts, Options, Plan, Stamp, Summary, plan};
use xfskit_units::{AgNumber, ByteLen, Uuid};

const STAMP: Stamp = Stamp { uuid: Uuid::from_u128(1), seconds: 0, nanoseconds: 0, generation: 0 };

fn planned(size: u64, words: &str) -> Result<Plan, String> {
    let mut options = Options::default();
    let words: Vec<&str> = words.split_whitespace().collect();
    for pair in words.chunks(2) {
        let [option, arg] = pair else { panic!("options come in pairs: {words:?}") };
        options.sub(option, arg).map_err(|e| e.to_string())?;
    }
    plan(&options, &DeviceFacts::file(ByteLen(size)), STAMP).map_err(|e| e.to_string())
}

/// Returns the numbers of a summary after an `=`, in order.
fn numbers(summary: &str) -> String {
    let after = summary.split('=').skip(2).filter_map(|text| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    });
    after.collect::<Vec<_>>().join(" ")
}

fn ours(size: u64, words: &str) -> String {
    match planned(size, words) {
        Ok(plan) => numbers(&Summary::of(&plan.geometry, "image", None).to_string()),
        Err(_) => "refused".into(),
    }
}

#[test]
fn every_recorded_geometry_is_the_same() {
    let recorded = include_str!("geometry-6.13.txt");
    let mut wrong = Vec::new();
    for line in recorded.lines() {
        let (requested, theirs) = line.split_once(" | ").expect("a line has two parts");
        let (size, words) = requested.split_once(' ').unwrap_or((requested, ""));
        let ours = ours(size.parse().expect("a size"), words);
        if ours != theirs {
            wrong.push(format!("{requested}\n  theirs {theirs}\n  ours   {ours}"));
        }
    }
    assert!(recorded.lines().count() > 300, "the record was not read");
    assert!(wrong.is_empty(), "{} geometries differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn differences_from_mkfs_xfs_are_intended() {
    // mkfs.xfs counts the groups again after aligning them, and then drops a short last one by the
    // old count: 785664 blocks on a device of 781781.
    let plan = planned(3_202_175_867, "-d agcount=100,su=512k,sw=5").unwrap();
    assert!(plan.geometry.dblocks.0 <= 3_202_175_867 / 4096);
    // mkfs.xfs 6.13 makes a log of 878 blocks here, which Linux 6.16 and later refuse to mount.
    let plan = planned(67_108_864, "-i nrext64=0 -m reflink=0").unwrap();
    assert_eq!(plan.geometry.logblocks, 975);
    // mkfs.xfs places the log in the middle group as if that were a whole one, and fails.
    let geo = planned(1_133_231_175, "-d agsize=1g").unwrap().geometry;
    assert_eq!((geo.agcount, geo.logblocks), (2, geo.ag_length(AgNumber(1)) - 7 - 5));
    // mkfs.xfs plans this and gives up in the middle of writing it: the gap before the log makes
    // the root directory land elsewhere than where xfs_repair looks.
    let why = planned(12_789_837_167, "-l su=256k,agnum=0").unwrap_err();
    assert_eq!(why, "group 0 has no room for the root directory where xfs_repair looks for it");
}

#[test]
fn the_summary_reads_as_that_of_mkfs_xfs() {
    let plan = planned(1 << 30, "-d su=64k,sw=4 -s size=4096 -b size=16k").unwrap();
    let expected = "\
meta-data=disk.img               isize=512    agcount=8, agsize=8188 blks
         =                       sectsz=4096  attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=1
         =                       reflink=1    bigtime=1 inobtcount=1 nrext64=1
         =                       exchange=0   metadir=0
data     =                       bsize=16384  blocks=65504, imaxpct=25
         =                       sunit=4      swidth=16 blks
naming   =version 2              bsize=16384  ascii-ci=0, ftype=1, parent=0
log      =internal log           bsize=16384  blocks=4096, version=2
         =                       sectsz=4096  sunit=1 blks, lazy-count=1
realtime =none                   extsz=16384  blocks=0, rtextents=0
         =                       rgcount=0    rgsize=0 extents
";
    assert_eq!(Summary::of(&plan.geometry, "disk.img", None).to_string(), expected);
}

#[test]
fn the_summary_as_data_has_the_superblocks_field_names() {
    let plan = planned(1 << 30, "").unwrap();
    let json = serde_json::to_value(Summary::of(&plan.geometry, "disk.img", None)).unwrap();
    assert_eq!(json["data"], "disk.img");
    assert_eq!(json["geometry"]["agcount"], 4);
    assert_eq!(json["geometry"]["logblocks"], 16384);
}

#[test]
fn small_volumes_come_with_a_warning() {
    let notes = planned(16 << 20, "").unwrap().notes.join("\n");
    assert!(notes.contains("300 MiB") && notes.contains("-o force_geometry"), "{notes}");
    assert_eq!(planned(300 << 20, "").unwrap().notes, [""; 0]);
    assert!(planned((16 << 20) - 4096, "").unwrap_err().contains("at least 16 MiB"));
}
