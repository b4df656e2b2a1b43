//! `xfskit mkfs` against mkfs.xfs 6.13: both write the same bytes, and the kernel and `xfs_repair`
//! accept the volume before and after work.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use xfskit_test_support::trees::{self, Shape};
use xfskit_test_support::{
    Image, Mount, Need, Scratch, Xfsprogs, bytes, long, needs, note, ours, verify,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Device sizes at which a rule of the geometry changes, and odd sizes.
const SIZES: &[u64] = &[
    300 * MIB,
    300 * MIB + 512 * 3,
    GIB - 4096,
    GIB,
    5 * GIB + 123_456 * 512,
    130 * GIB,
    600 * GIB + 77 * 4096,
    3 * TIB,
    4 * TIB - 65536,
    4 * TIB,
    4 * TIB + 10 * MIB,
    17 * TIB + 999 * 512,
    100 * TIB,
];

/// Options that change the bytes.
const OPTIONS: &[&str] = &[
    "",
    "-b size=1024",
    "-b size=2048",
    "-b size=8192",
    "-b size=16384",
    "-b size=65536",
    "-i size=1024",
    "-i size=2048",
    "-b size=1024 -i size=512",
    "-b size=65536 -i size=2048",
    "-s size=4096",
    "-s size=1024",
    "-s size=4096 -b size=4096 -i size=1024",
    "-n size=8192",
    "-n size=65536",
    "-n version=ci",
    "-n parent=1",
    "-i exchange=1",
    "-i sparse=0",
    "-i nrext64=0",
    "-i maxpct=0",
    "-i maxpct=77",
    "-m rmapbt=0",
    "-m reflink=0",
    "-m rmapbt=0,reflink=0",
    "-m finobt=0,inobtcount=0",
    "-m inobtcount=0",
    "-m bigtime=0",
    "-m finobt=0,rmapbt=0,reflink=0,bigtime=0,inobtcount=0 -i sparse=0,nrext64=0",
    "-m uuid=01020304-0506-4708-890a-0b0c0d0e0f10 -L twelve-bytes",
    "-d agcount=2",
    "-d agcount=7",
    "-d agcount=16",
    "-d agsize=64m",
    "-d su=64k,sw=4",
    "-d su=256k,sw=3 -l su=64k",
    "-d su=512k,sw=2",
    "-d sunit=24,swidth=72",
    "-d noalign",
    "-l size=32m",
    "-l size=100m",
    "-l su=32k",
    "-l agnum=0",
    "-l agnum=1 -d agcount=3",
];

struct Pair<'scratch> {
    ours: Image<'scratch>,
    theirs: Image<'scratch>,
}

/// Formats with both. Returns `None` if both refuse, and an error if only one does.
fn both<'a>(
    scratch: &'a Scratch,
    tools: &Xfsprogs,
    size: u64,
    log: u64,
    options: &str,
) -> Result<Option<Pair<'a>>, String> {
    let uuid = "a1b2c3d4-0102-4304-8506-070809aabbcc";
    let given = if options.contains("uuid=") { String::new() } else { format!("-m uuid={uuid}") };
    let image = |name: &str| {
        let image = Image::sparse(scratch, name, size);
        if log > 0 { image.with_external_log(log) } else { image }
    };
    let (ours, theirs) = (image("ours.img"), image("theirs.img"));
    let make = |image: &Image, make: &dyn Fn(&[&str]) -> Result<(), String>| {
        let log_name = image.log().map(|log| format!("logdev={}", log.display()));
        let mut words: Vec<&str> = options.split_whitespace().collect();
        words.extend(given.split_whitespace());
        if let Some(log_name) = &log_name {
            words.extend(["-l", log_name]);
        }
        make(&words)
    };
    let by_us = make(&ours, &|words| ours::mkfs(&ours, words));
    let by_them = make(&theirs, &|words| tools.mkfs(&theirs, words));
    match (by_us, by_them) {
        (Ok(()), Ok(())) => Ok(Some(Pair { ours, theirs })),
        (Err(_), Err(_)) => Ok(None),
        (Err(why), Ok(())) => Err(format!("only xfskit refuses: {why}")),
        (Ok(()), Err(why)) => Err(format!("only mkfs.xfs refuses: {}", head(&why))),
    }
}

fn head(text: &str) -> String {
    text.lines().take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the byte ranges that the options do not determine: times, generations and thus checksums
/// of the inodes that mkfs makes. A chunk has 64 inodes, or a block of them if that is more.
fn undecided(image: &Image) -> Vec<Range<u64>> {
    let file = File::open(image.path()).expect("open");
    let mut sector = [0; 264];
    file.read_exact_at(&mut sector, 0).expect("a superblock");
    let rootino = u64::from_be_bytes(sector[56..64].try_into().expect("8 bytes"));
    let inodesize = u64::from(u16::from_be_bytes([sector[104], sector[105]]));
    let in_chunk = u64::from(u16::from_be_bytes([sector[106], sector[107]])).max(64);
    let fields = [32..56, 92..96, 100..104, 144..152];
    let of_one = |number: u64| {
        let at = (rootino + number) * inodesize;
        fields.clone().map(|field| at + field.start..at + field.end)
    };
    (0..in_chunk).flat_map(of_one).collect()
}

fn compare(tools: &Xfsprogs, size: u64, log: u64, options: &str) -> Option<String> {
    let scratch = Scratch::new("mkfs");
    let found = match both(&scratch, tools, size, log, options) {
        Err(refusal) => vec![refusal],
        Ok(None) => return None,
        Ok(Some(pair)) => {
            let ignored = undecided(&pair.theirs);
            let mut found = bytes::differences(pair.ours.path(), pair.theirs.path(), &ignored, 4);
            if let (Some(ours), Some(theirs)) = (pair.ours.log(), pair.theirs.log()) {
                found.extend(bytes::differences(ours, theirs, &[], 4));
            }
            if size <= GIB {
                // xfs_repair 6.1 knows fewer alignment rules.
                let repair = |image: &Image| tools.repair_n(image, &[]);
                found.extend(verify::volume_with(repair, &pair.ours, &scratch).err());
            }
            found
        }
    };
    (!found.is_empty()).then(|| format!("{size} bytes, `{options}`:\n  {}", found.join("\n  ")))
}

fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "{} differ:\n{}", found.len(), found.join("\n"));
}

fn newer() -> Option<Xfsprogs> {
    needs(&[Need::NewerXfsprogs]).then(|| Xfsprogs::newer().expect("needed"))
}

#[test]
fn every_option_gives_the_bytes_of_mkfs_xfs() {
    let Some(tools) = newer() else { return };
    let sizes: &[u64] = if long() { &[400 * MIB, GIB, 5 * GIB] } else { &[GIB] };
    let pairs = sizes.iter().flat_map(|&size| OPTIONS.iter().map(move |options| (size, options)));
    assert_none(pairs.filter_map(|(size, options)| compare(&tools, size, 0, options)).collect());
}

#[test]
fn every_size_gives_the_bytes_of_mkfs_xfs() {
    let Some(tools) = newer() else { return };
    // mkfs.xfs writes zeroes to its whole log, so the log is small except in the long run.
    let options: &[&str] = if long() {
        &["-l size=64m", "-l size=64m -d su=64k,sw=4", "-l size=64m -b size=1024", ""]
    } else {
        &["-l size=64m"]
    };
    let pairs = options.iter().flat_map(|options| SIZES.iter().map(move |&size| (size, options)));
    let fits = |size: u64| Scratch::new("fits").holds(size);
    let (pairs, too_large): (Vec<_>, Vec<_>) = pairs.partition(|(size, _)| fits(*size));
    if !too_large.is_empty() {
        note("some sizes need scratch space that holds sparse files of 100 TiB");
    }
    let differing =
        pairs.into_iter().filter_map(|(size, options)| compare(&tools, size, 0, options));
    assert_none(differing.collect());
}

#[test]
fn an_external_log_gives_the_bytes_of_mkfs_xfs() {
    let Some(tools) = newer() else { return };
    let cases = [(64, ""), (200, "-s size=4096"), (64, "-b size=1024"), (80, "-n parent=1")];
    let found = cases.map(|(log, options)| compare(&tools, 512 * MIB, log * MIB, options));
    assert_none(found.into_iter().flatten().collect());
}

#[test]
fn the_kernel_fills_and_empties_a_new_volume_and_xfs_repair_finds_nothing() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let plain = Shape::DEFAULT;
    let cases = [
        ("", Shape { tall: true, ..plain }),
        ("-b size=1024", Shape { block: 1024, ..plain }),
        ("-b size=16384", Shape { block: 16384, dir_block: 16384, ..plain }),
        ("-i size=2048 -s size=4096", plain),
        ("-n size=65536", Shape { dir_block: 65536, ..plain }),
        ("-m rmapbt=0,reflink=0", Shape { reflink: false, ..plain }),
        ("-m finobt=0,inobtcount=0,bigtime=0 -i sparse=0,nrext64=0", plain),
        ("-d su=64k,sw=4", plain),
        ("-n parent=1", plain),
        ("-d agcount=20 -l size=32m", plain),
    ];
    for (options, shape) in cases {
        fill_and_empty(options, &shape);
    }
}

fn fill_and_empty(options: &str, shape: &Shape) {
    let scratch = Scratch::new("made");
    let image = Image::sparse(&scratch, "made.img", GIB);
    let words: Vec<&str> = options.split_whitespace().collect();
    ours::mkfs(&image, &words).unwrap_or_else(|why| panic!("`{options}`: {why}"));
    let repair_tools: Vec<Xfsprogs> = if options.contains("parent") {
        Xfsprogs::newer().into_iter().collect()
    } else {
        Xfsprogs::all()
    };
    let verify = |when: &str| {
        for tools in &repair_tools {
            tools.repair_n(&image, &[]).unwrap_or_else(|why| panic!("`{options}`, {when}: {why}"));
        }
        let report = ours::check(&image);
        assert!(report.errors.is_empty(), "`{options}`, {when}: check: {report:#?}");
    };
    verify("new");
    let mount = match Mount::read_write(&image, &scratch) {
        Ok(mount) => mount,
        Err(why) if options.contains("16384") => return note(&why),
        Err(why) => panic!("`{options}`: {why}"),
    };
    trees::corners(mount.path(), shape).expect("fill");
    mount.unmount().expect("unmount");
    verify("filled");
    let mount = Mount::read_write(&image, &scratch).expect("mount again");
    trees::empty(mount.path()).expect("empty");
    mount.unmount().expect("unmount");
    verify("emptied");
}
