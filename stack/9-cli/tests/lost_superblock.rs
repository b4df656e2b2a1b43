//! A volume whose primary superblock is lost, alone or with the headers of group 0: reading
//! commands use a secondary and print a note, writing commands refuse.

use std::fs;
use std::path::Path;

use crate::common::{self, Bench, damage, expect, json, shown};

/// Overwrites the first `bytes` bytes of the volume at `offset` with zeroes.
fn lose(image: &Path, offset: u64, bytes: usize) {
    damage(image, offset, &vec![0; bytes]);
}

/// Expects one warning that names the secondary.
fn assert_warned(stderr: &str) {
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("primary superblock")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].contains("note: ") && lines[0].contains("read by the copy in group "));
}

#[test]
fn every_reading_command_uses_a_secondary_and_prints_the_same() {
    let bench = Bench::new();
    for name in ["v5", "v5-1k", "v4", "v5-dirty", "v4-old"] {
        let path = bench.kept(name);
        let image = shown(&path);
        let commands: [&[&str]; 4] = [
            &["ls", "-lR", &image],
            &["df", &image],
            &["stat", &image, "/"],
            &["get", &image, "/", "-"],
        ];
        let before = commands.map(|args| expect(0, args).bytes);
        lose(&path, 0, 512);
        for (args, before) in commands.iter().zip(before) {
            let run = expect(0, args);
            assert!(run.bytes == before, "{name}: {args:?}\n{}", run.stdout);
            assert_warned(&run.stderr);
        }
        for args in [
            &["info", &image][..],
            &["bulkstat", &image],
            &["info", "--compat", &image],
            &["log", &image],
            &["recover", "-n", &image],
        ] {
            assert_warned(&expect(0, args).stderr);
        }
        expect(0, &["targets", &image]);
        assert!(expect(0, &["inspect", "--norecovery", &image, "sb"]).stdout.contains("dblocks"));
        assert_warned(&expect(0, &["inspect", &image, "inode", "128"]).stderr);
    }
}

#[test]
fn check_reports_the_primary_and_checks_the_rest_with_a_secondary() {
    let bench = Bench::new();
    for name in ["v5", "v4", "v5-dirty"] {
        let path = bench.kept(name);
        lose(&path, 0, 512);
        let report = &json_of_check(&path)["report"];
        assert_eq!((&report["errors"], &report["fatals"]), (&1.into(), &0.into()), "{name}");
        let said = expect(1, &["check", &shown(&path)]).stdout;
        assert!(said.contains("[sb.magicnum]"), "{said}");
    }
}

fn json_of_check(image: &Path) -> serde_json::Value {
    common::objects(&expect(1, &["check", "--json", &shown(image)])).pop().unwrap()
}

#[test]
fn the_root_is_found_without_the_headers_of_group_0() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let image = shown(&path);
    let before = expect(0, &["get", &image, "/", "-"]).bytes;
    lose(&path, 0, 32 << 10);
    let run = expect(0, &["get", &image, "/", "-"]);
    assert!(run.bytes == before);
    assert_warned(&run.stderr);
    // Some content is between the headers and the root; the rest is copied.
    lose(&path, 0, 64 << 10);
    let run = expect(0, &["find", &image]);
    assert!(run.stdout.lines().count() > 40, "{}", run.stdout);
    assert!(expect(1, &["check", &image]).stdout.contains("[agf.magicnum]"));
}

#[test]
fn sectors_stripes_and_sizes_do_not_matter() {
    let bench = Bench::new();
    let file = shown(&bench.file("file", b"content"));
    for (number, options) in [
        &["-s", "size=4096"][..],
        &["-b", "size=65536"],
        &["-d", "agsize=17m"],
        &["-d", "su=64k,sw=3"],
        &["-b", "size=1024", "-d", "agcount=7"],
        &["-d", "agcount=2"],
    ]
    .iter()
    .enumerate()
    {
        let path = bench.path(&format!("{number}.img"));
        let image = shown(&path);
        expect(0, &[&["mkfs", "-q", "--size", "700M"], *options, &[&image]].concat());
        expect(0, &["put", "-q", &image, &file, "/"]);
        for bytes in [512, 16 << 10] {
            lose(&path, 0, bytes);
            let run = expect(0, &["ls", &image]);
            assert_eq!(run.stdout, "file\n", "{options:?}");
            assert_warned(&run.stderr);
        }
    }
}

#[test]
fn a_volume_in_a_partition_is_read_with_a_secondary() {
    const START: usize = 1 << 20;
    let bench = Bench::new();
    let volume = fs::read(bench.kept("v5")).unwrap();
    let mut disk = vec![0; START + volume.len()];
    disk[START..].copy_from_slice(&volume);
    let sectors = |bytes: usize| u32::try_from(bytes / 512).unwrap().to_le_bytes();
    disk[450] = 0x83;
    disk[454..458].copy_from_slice(&sectors(START));
    disk[458..462].copy_from_slice(&sectors(volume.len()));
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    let path = bench.file("disk.img", &disk);
    let part = format!("{}#p1", shown(&path));
    let before = expect(0, &["ls", "-R", &part]).stdout;
    lose(&path, START as u64, 4096);
    let run = expect(0, &["ls", "-R", &part]);
    assert_eq!(run.stdout, before);
    assert_warned(&run.stderr);
}

#[test]
fn writing_commands_refuse_with_a_hint() {
    let bench = Bench::new();
    let path = bench.kept("v5-dirty");
    lose(&path, 0, 512);
    let (image, before) = (shown(&path), fs::read(&path).unwrap());
    for args in [&["mkdir", &image, "/new"][..], &["recover", &image], &["rm", &image, "/sf/a"]] {
        let run = expect(2, args);
        assert!(run.stderr.contains("primary superblock is damaged"), "{}", run.stderr);
        assert!(run.stderr.contains("can be read, not changed"), "{}", run.stderr);
        assert!(run.stderr.contains("`xfskit repair` writes it anew"), "{}", run.stderr);
    }
    assert!(fs::read(&path).unwrap() == before, "nothing was written");
    expect(0, &["repair", &image]);
    expect(0, &["mkdir", &image, "/new"]);
    expect(0, &["check", &image]);
}

#[test]
fn a_damaged_primary_is_replaced_by_a_secondary_and_an_unfinished_mkfs_is_not() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    damage(&path, 84, &[0xff; 8]); // agblocks and agcount; the checksum no longer agrees
    let run = expect(0, &["ls", &shown(&path)]);
    assert_warned(&run.stderr);
    assert!(expect(1, &["check", &shown(&path)]).stdout.contains("[sb."));
    let path = bench.kept("v4");
    damage(&path, 126, &[1]); // inprogress, on a version without checksums
    let run = expect(2, &["ls", &shown(&path)]);
    assert!(run.stderr.contains("inprogress"), "{}", run.stderr);
}

#[test]
fn secondaries_at_wrong_offsets_are_ignored() {
    let bench = Bench::new();
    let volume = fs::read(bench.kept("v5-plain")).unwrap();
    let start = 4096 * 4096;
    let copy = volume[start..start + 512].to_vec();
    // Superblocks at every sector, most of them wrong by their own geometry; and one with a wrong
    // checksum at the right sector.
    let mut stray = vec![0; 9 << 20];
    stray.chunks_exact_mut(512).for_each(|sector| sector.copy_from_slice(&copy));
    expect(2, &["ls", &shown(&bench.file("stray", &stray))]);
    let mut alone = vec![0; volume.len()];
    alone[start..start + 512].copy_from_slice(&copy);
    alone[start + 300] ^= 1;
    let run = expect(2, &["ls", &shown(&bench.file("alone", &alone))]);
    assert!(run.stderr.contains("No copy of an XFS superblock"), "{}", run.stderr);
    // The secondaries of an earlier volume agree with each other as well: the majority counts.
    let mut mixed = volume.clone();
    mixed[..512].fill(0);
    mixed[start..start + 512].fill(0);
    let path = bench.file("mixed", &mixed);
    let run = expect(0, &["ls", &shown(&path)]);
    assert!(run.stderr.contains("2 of 3 copies agree"), "{}", run.stderr);
    assert_eq!(json(&["info", "--json", &shown(&path)])[0]["geometry"]["agcount"], 4);
}
