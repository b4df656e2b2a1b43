//! Volumes that this kernel does not mount: version 4 with all its options, and case-insensitive
//! names. mkfs.xfs fills them from a protofile, xfs_db adds attributes, and xfs_repair verifies
//! them.

use std::collections::BTreeMap;

use xfskit_test_support::proto::{Proto, ProtoFile};
use xfskit_test_support::{Image, Need, Scratch, Xfsprogs, needs, note, ours};

const OPTIONS: &[&str] = &[
    "-m crc=0",
    "-m crc=0 -b size=512",
    "-m crc=0 -b size=1024",
    "-m crc=0 -b size=2048 -i size=512",
    "-m crc=0 -b size=16384",
    "-m crc=0 -b size=65536",
    "-m crc=0 -i size=512",
    "-m crc=0 -i size=2048",
    "-m crc=0 -s size=4096",
    "-m crc=0 -n size=8192",
    "-m crc=0 -n size=65536",
    "-m crc=0 -b size=512 -n size=4096",
    "-m crc=0 -n ftype=0",
    "-m crc=0 -n version=ci",
    "-m crc=0 -i attr=1",
    "-m crc=0 -i projid32bit=0",
    "-m crc=0 -l version=1",
    "-m crc=0 -l lazy-count=0",
    "-m crc=0 -d su=64k,sw=2",
    "-m crc=0 -b size=1024 -n ftype=0 -i attr=1,projid32bit=0 -l version=1,lazy-count=0",
    "-n version=ci",
    "-n version=ci -b size=1024",
];

/// Sizes of the values that xfs_db stores, in bytes, one attribute each.
const VALUES: [usize; 6] = [1, 10, 100, 300, 3500, 20_000];

#[test]
fn volumes_from_protofiles_are_read_as_written() {
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    for tools in Xfsprogs::all() {
        for options in OPTIONS {
            verify_volume(&tools, options);
        }
    }
}

fn verify_volume(tools: &Xfsprogs, options: &str) {
    let what = format!("xfsprogs {}, `{options}`", tools.version);
    let scratch = Scratch::new("proto");
    let image = Image::sparse(&scratch, "proto.img", 1 << 30);
    // xfs_repair reports the remote links that mkfs.xfs itself makes on version 5 as corrupt.
    let longest_link = if options.contains("crc=0") { 1023 } else { 300 };
    let proto = Proto::corners(scratch.path(), longest_link);
    let protofile = scratch.path().join("protofile");
    proto.write(&protofile);
    let mut words: Vec<&str> = options.split_whitespace().collect();
    words.extend(["-p", protofile.to_str().expect("a plain path")]);
    if let Err(why) = tools.mkfs(&image, &words) {
        return note(&format!("{what}: {why}"));
    }
    let attributed = attributes(tools, &image);
    tools.repair_n(&image, &[]).unwrap_or_else(|why| panic!("{what}: {why}"));

    let volume = ours::open(&image);
    let (ours, failed) = ours::manifest(&volume);
    assert!(failed.is_empty(), "{what}: {}", failed.join("\n"));
    let found: BTreeMap<Vec<u8>, ProtoFile> = ours
        .entries
        .iter()
        .map(|(path, entry)| {
            let content = entry.target.clone().unwrap_or_else(|| ours::content(&volume, entry.ino));
            let owner = (entry.uid, entry.gid);
            (path.clone(), ProtoFile { mode: entry.mode, owner, rdev: entry.rdev, content })
        })
        .collect();
    for (path, made) in &proto.files {
        let found = found.get(path);
        assert!(found == Some(made), "{what}: {}: {found:?}", String::from_utf8_lossy(path));
    }
    assert_eq!(found.len(), proto.files.len(), "{what}");
    if attributed {
        let xattrs = &ours.entries[&b"/file500"[..]].xattrs;
        let lengths = xattrs.iter().map(|(name, value)| (name.clone(), value.len()));
        let expected = VALUES.iter().map(|&size| (format!("user.a{size}").into_bytes(), size));
        let expected: BTreeMap<Vec<u8>, usize> = expected.collect();
        assert_eq!(lengths.collect::<BTreeMap<_, _>>(), expected, "{what}");
    }
    let report = ours::check(&image);
    assert!(report.errors.is_empty(), "{what}: check: {report:#?}");
}

/// Sets attributes of all sizes on one file with xfs_db, if it supports that.
fn attributes(tools: &Xfsprogs, image: &Image) -> bool {
    let set: Vec<String> =
        VALUES.iter().map(|size| format!("attr_set -n -v {size} a{size}")).collect();
    let mut commands = vec!["path /file500"];
    for command in &set {
        // After each command the cursor must return to the inode, read anew.
        commands.extend(["path /file500", command]);
    }
    tools.db(image, true, &commands).is_ok()
}
