//! Arrays whose members lost their superblocks, and what `md guess` says of them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde_json::Value;
use xfskit_test_support::Random;

use crate::common::{Bench, damage, expect, objects, shown};

/// A disk whose sectors are kept beside the fixtures of `3-target`, as an image.
pub(crate) fn disk(bench: &Bench, name: &str) -> String {
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

/// Returns the numbers below `n` in random order.
pub(crate) fn shuffled(n: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    (1..n).rev().for_each(|i| order.swap(i, random.below(i + 1)));
    order
}

/// A tree with so many files, in directories of twenty.
fn tree(bench: &Bench, files: usize, random: &mut Random) -> String {
    let root = bench.path("tree");
    fs::create_dir_all(&root).unwrap();
    for file in 0..files {
        let dir = root.join(format!("dir{}", file / 20));
        fs::create_dir_all(&dir).unwrap();
        let len = random.pick(&[300, 1500, 4000, 9000]);
        let content = random.bytes(len);
        fs::write(dir.join(format!("file-with-a-longer-name-{file}")), content).unwrap();
    }
    shown(&root)
}

/// An array, what is on it, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) level: &'static str,
    pub(crate) layout: &'static str,
    pub(crate) chunk: &'static str,
    pub(crate) members: usize,
    /// A disk to begin with, and the part of it for the volume.
    pub(crate) disk: Option<(&'static str, &'static str)>,
    pub(crate) files: usize,
    pub(crate) missing: Option<usize>,
    /// A member that is partly garbage.
    pub(crate) garbage: Option<usize>,
    /// Where the garbage begins, and how long it is, in MiB.
    pub(crate) garbage_mib: (u64, usize),
    pub(crate) seed: u64,
}

pub(crate) const fn case(
    level: &'static str,
    layout: &'static str,
    chunk: &'static str,
    members: usize,
) -> Case {
    let (disk, missing, garbage, garbage_mib) = (None, None, None, (4, 6));
    Case { level, layout, chunk, members, disk, files: 720, missing, garbage, garbage_mib, seed: 1 }
}

pub(crate) const GPT: (&str, &str) = ("gpt-67108864.sectors", "p3");
pub(crate) const LVM: (&str, &str) = ("lvm-100663296.sectors", "lv:vg0/root");

impl Case {
    /// The members, without superblocks, in role order, and the target that they were.
    pub(crate) fn made(&self, bench: &Bench) -> (Vec<String>, String) {
        let mut names = self.created(bench);
        let array = format!("md:{}", names.join(","));
        let target = match self.disk {
            None => array,
            Some((disk_name, part)) => {
                expect(0, &["md", "load", "--write", &array, &disk(bench, disk_name)]);
                format!("[{array}]#{part}")
            }
        };
        self.filled(bench, &target, &names);
        if let Some(i) = self.garbage {
            let (start, len) = self.garbage_mib;
            damage(names[i].as_ref(), start << 20, &Random::of_test(self.seed).bytes(len << 20));
        }
        if let Some(i) = self.missing {
            names[i] = "missing".into();
        }
        let target = self.target(&names);
        (names, target)
    }

    /// An empty array's members.
    pub(crate) fn created(&self, bench: &Bench) -> Vec<String> {
        let names: Vec<String> =
            (0..self.members).map(|i| shown(&bench.path(&format!("m{i}.img")))).collect();
        let size = if matches!(self.level, "1" | "10") { "80M" } else { "40M" };
        let mut words = vec!["md", "create", "--level", self.level, "--member-size", size];
        words.extend(["--data-offset", "1M", "--bitmap", "none", "--assume-clean"]);
        words.extend(if self.level == "1" { vec![] } else { vec!["--chunk", self.chunk] });
        words.extend(if self.layout.is_empty() { vec![] } else { vec!["--layout", self.layout] });
        words.extend(names.iter().map(String::as_str));
        expect(0, &words);
        names
    }

    /// Makes the volume, and erases the members' superblocks.
    pub(crate) fn filled(&self, bench: &Bench, target: &str, names: &[String]) {
        let tree = tree(bench, self.files, &mut Random::of_test(self.seed));
        expect(0, &["mkfs", "-q", "-f", "--from", &tree, target]);
        for name in names {
            damage(name.as_ref(), 4096, &[0; 4096]);
        }
    }

    /// The target that members in role order are.
    pub(crate) fn target(&self, names: &[String]) -> String {
        let chunk = if self.level == "1" { "0K" } else { self.chunk };
        let layout = match self.layout {
            "" => String::new(),
            layout => format!(",layout={layout}"),
        };
        let manual = format!(
            "md:level=raid{}{layout},chunk={chunk},offset=1024K:{}",
            self.level,
            self.in_groups(names).join(",")
        );
        match self.disk {
            None => manual,
            Some((_, part)) => format!("[{manual}]#{part}"),
        }
    }

    /// The members, with those that hold the same sorted.
    fn in_groups(&self, names: &[String]) -> Vec<String> {
        let size = match (self.level, self.layout) {
            ("1", _) => self.members,
            ("10", "near=2") if self.members.is_multiple_of(2) => 2,
            _ => 1,
        };
        let mut names = names.to_vec();
        names.chunks_mut(size).for_each(<[String]>::sort);
        names
    }

    /// True if a target that was guessed is the right one for the members in role order.
    pub(crate) fn is_right(&self, guessed: &str, names: &[String]) -> bool {
        let (before, rest) =
            guessed.rsplit_once(':').filter(|_| !guessed.contains("lv:")).unwrap_or_else(|| {
                let (array, _) = guessed.split_once('#').unwrap();
                let at = array.rfind(':').unwrap();
                (&guessed[..at], &guessed[at + 1..])
            });
        let (members, part) = rest.split_once(']').unwrap_or((rest, ""));
        let members: Vec<String> = members.split(',').map(str::to_owned).collect();
        let close = if part.is_empty() { "" } else { "]" };
        let sorted = format!("{before}:{}{close}{part}", self.in_groups(&members).join(","));
        sorted == self.target(names)
    }
}

/// Returns the guesses for members in this order.
pub(crate) fn guessed(code: i32, names: &[String], order: &[usize]) -> (Vec<Value>, String) {
    let words = order.iter().map(|i| names[*i].as_str());
    let run = expect(code, &["md", "guess", "--json"].into_iter().chain(words).collect::<Vec<_>>());
    (objects(&run), run.stderr)
}
