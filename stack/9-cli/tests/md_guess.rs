//! `md guess`: members without superblocks, the volume at the array's start, in a partition, in a
//! logical volume.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Bench, damage, expect, objects, shown, xfskit};
use serde_json::Value;

/// A disk whose sectors are kept in the fixtures of `3-target`, as an image.
fn disk(bench: &Bench, name: &str) -> String {
    let kept =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/images/target").join(name);
    let path = bench.path("disk.img");
    let file = fs::File::create(&path).unwrap();
    for sector in fs::read(kept).unwrap().chunks(520) {
        let at = u64::from_le_bytes(sector[..8].try_into().unwrap());
        file.write_all_at(&sector[8..], at).unwrap();
    }
    shown(&path)
}

/// Makes a tree with inodes and directories in many places.
fn tree(bench: &Bench) -> String {
    let root = bench.path("tree");
    for dir in 0..24 {
        let dir = root.join(format!("dir{dir}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..30u8 {
            fs::write(dir.join(format!("file-with-a-longer-name-{file}")), vec![file; 4000])
                .unwrap();
        }
    }
    shown(&root)
}

/// An array of members, its contents, and its target.
struct Case<'a> {
    level: &'a str,
    layout: &'a str,
    chunk: &'a str,
    members: usize,
    /// A disk to begin with, and the partition for the volume.
    disk: Option<(&'a str, &'a str)>,
}

const fn case<'a>(level: &'a str, layout: &'a str, chunk: &'a str, members: usize) -> Case<'a> {
    Case { level, layout, chunk, members, disk: None }
}

impl Case<'_> {
    /// The members, without superblocks, in role order, and their target.
    fn made(&self, bench: &Bench) -> (Vec<String>, String) {
        let names: Vec<String> =
            (0..self.members).map(|i| shown(&bench.path(&format!("m{i}.img")))).collect();
        let mut words = vec!["md", "create", "--level", self.level, "--member-size", "40M"];
        words.extend(["--data-offset", "1M", "--bitmap", "none", "--assume-clean"]);
        words.extend(if self.level == "1" { vec![] } else { vec!["--chunk", self.chunk] });
        words.extend(if self.layout.is_empty() { vec![] } else { vec!["--layout", self.layout] });
        words.extend(names.iter().map(String::as_str));
        expect(0, &words);
        let array = format!("md:{}", names.join(","));
        let target = match self.disk {
            None => array,
            Some((disk_name, part)) => {
                expect(0, &["md", "load", "--write", &array, &disk(bench, disk_name)]);
                format!("[{array}]#{part}")
            }
        };
        expect(0, &["mkfs", "-q", "-f", "--from", &tree(bench), &target]);
        for name in &names {
            damage(name.as_ref(), 4096, &[0; 4096]);
        }
        let chunk = if self.level == "1" { "0K" } else { self.chunk };
        let layout = match self.layout {
            "" => String::new(),
            layout => format!(",layout={layout}"),
        };
        let bare = format!(
            "md:level=raid{}{layout},chunk={chunk},offset=1024K:{}",
            self.level,
            names.join(",")
        );
        let part = self.disk.map(|(_, part)| part);
        (names, part.map_or(bare.clone(), |part| format!("[{bare}]#{part}")))
    }
}

/// Returns the guesses for members in this order.
fn guessed(code: i32, names: &[String], order: &[usize]) -> (Vec<Value>, String) {
    let words = order.iter().map(|i| names[*i].as_str());
    let run = expect(code, &["md", "guess", "--json"].into_iter().chain(words).collect::<Vec<_>>());
    (objects(&run), run.stderr)
}

const GPT: (&str, &str) = ("gpt-67108864.sectors", "p3");
const LVM: (&str, &str) = ("lvm-100663296.sectors", "lv:vg0/root");

#[test]
fn a_volume_at_the_start_of_an_array_tells_what_the_array_is() {
    for (case, order) in [
        (case("5", "left-symmetric", "64K", 4), &[2, 0, 3, 1][..]),
        (case("5", "right-asymmetric", "16K", 3), &[1, 2, 0]),
        (case("6", "left-symmetric", "64K", 5), &[4, 3, 2, 1, 0]),
        (case("0", "original", "32K", 3), &[1, 0, 2]),
        (case("10", "near=2", "64K", 4), &[3, 1, 2, 0]),
    ] {
        let bench = Bench::new();
        let (names, _) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, order);
        let target = guesses[0]["target"].as_str().unwrap();
        let start = format!("md:level=raid{}", case.level);
        assert!(target.starts_with(&start), "{guesses:#?} {notes}");
        assert!(target.contains(&format!(",chunk={},offset=1024K:", case.chunk)), "{guesses:#?}");
        assert_eq!(guesses[0]["check_errors"], 0, "{guesses:#?}");
        expect(0, &["check", target]);
    }
}

#[test]
fn a_volume_in_a_partition_or_a_logical_volume_is_found_there() {
    for (level, disk, order) in
        [("6", GPT, [3, 1, 4, 0, 2]), ("5", GPT, [2, 4, 0, 3, 1]), ("6", LVM, [1, 0, 4, 3, 2])]
    {
        let bench = Bench::new();
        let case = Case { disk: Some(disk), ..case(level, "left-symmetric", "64K", 5) };
        let (names, target) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, &order);
        assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
        assert_eq!(guesses[0]["check_errors"], 0, "{guesses:#?}");
        expect(0, &["check", &target]);
    }
}

#[test]
fn a_member_that_is_partly_garbage_is_named() {
    let bench = Bench::new();
    let case = Case { disk: Some(LVM), ..case("6", "left-symmetric", "64K", 5) };
    let (names, target) = case.made(&bench);
    let mut x = 1u64;
    let garbage: Vec<u8> = std::iter::repeat_with(|| {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 56).to_le_bytes()[0]
    })
    .take(6 << 20)
    .collect();
    damage(Path::new(&names[1]), 4 << 20, &garbage);
    let (guesses, notes) = guessed(0, &names, &[1, 0, 4, 3, 2]);
    assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
    assert_eq!(guesses[0]["sureness"], "likely", "{guesses:#?}");
    assert!(guesses[0]["against"].to_string().contains("m1.img"), "{guesses:#?}");
}

#[test]
fn a_guess_that_does_not_fit_the_members_is_no_answer() {
    let bench = Bench::new();
    let (names, target) = case("6", "left-symmetric", "64K", 5).made(&bench);
    let (guesses, notes) = guessed(1, &names, &[3, 0, 4, 1]);
    assert!(guesses.is_empty() && notes.contains("give the word missing"), "{guesses:#?} {notes}");
    let mut words = vec!["md", "guess", "--json", "missing"];
    words.extend([3, 0, 4, 1].map(|i| names[i].as_str()));
    let run = xfskit(&words);
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let expected = target.replace(&names[2], "missing");
    assert_eq!(objects(&run)[0]["target"], *expected, "{}", run.stdout);
}
