//! Storms of names: made, linked, renamed, removed; attributes beside.

use xfskit_mkfs::Options;
use xfskit_test_crash::{Crashes, Random, Run, Wear, Workshop, judge};
use xfskit_test_oracle::need::Need;
use xfskit_test_oracle::{long, needs};
use xfskit_vfs::{FileType, Fs, Ino, NewNode, RenameMode, SetAttr, SetMode};

/// Ways in which writes may arrive. The kernel is asked only about disks whose sectors are as long as
/// the volume's blocks: it cannot recover a block of which a part is new.
const WEARS: [Wear; 5] = [
    Wear { sector: 4096, lost_one_in: 0, torn_one_in: 0 },
    Wear { sector: 4096, lost_one_in: usize::MAX, torn_one_in: 0 },
    Wear { sector: 4096, lost_one_in: 1, torn_one_in: 0 },
    Wear { sector: 512, lost_one_in: 1, torn_one_in: 0 },
    Wear { sector: 512, lost_one_in: 10, torn_one_in: 30 },
];

/// A directory, chosen at random: the root or one below.
fn some_dir(fs: &Fs, random: &mut Random) -> Ino {
    let root = fs.volume().geo().rootino;
    let dirs: Vec<Ino> = fs
        .read_dir(&fs.root().expect("root"))
        .entries
        .iter()
        .filter(|entry| entry.file_type == FileType::Directory)
        .map(|entry| entry.ino)
        .collect();
    if dirs.is_empty() || random.one_in(4) { root } else { dirs[random.below(dirs.len())] }
}

fn name(random: &mut Random) -> Vec<u8> {
    let number = random.below(60);
    let padding = [0, 0, 20, 150][number % 4];
    format!("name-{number}-{}", "x".repeat(padding)).into_bytes()
}

/// One random operation; that it may fail is part of it.
fn operation(fs: &Fs, random: &mut Random) {
    let dir = some_dir(fs, random);
    let (one, other) = (name(random), name(random));
    let found = fs.inode(dir).ok().and_then(|inode| {
        let entries = fs.read_dir(&inode).entries;
        (!entries.is_empty()).then(|| entries[random.below(entries.len())].clone())
    });
    match (random.below(12), found) {
        (0..=3, _) | (_, None) => drop(fs.make(dir, &one, &NewNode::file(0o644))),
        (4, _) => drop(fs.make(fs.volume().geo().rootino, &one, &NewNode::directory(0o755))),
        (5, _) => drop(fs.make(dir, &one, &NewNode::symlink(&vec![b't'; 10 + random.below(900)]))),
        (6, Some(entry)) => drop(fs.unlink(dir, &entry.name)),
        (7, Some(entry)) => drop(fs.rmdir(dir, &entry.name)),
        (8, Some(entry)) => drop(fs.link(entry.ino, dir, &other)),
        (9, Some(entry)) => {
            let to = some_dir(fs, random);
            drop(fs.rename(dir, &entry.name, to, &other, RenameMode::default()));
        }
        (10, Some(entry)) => {
            let set = SetAttr { perm: Some(0o600), uid: Some(7), ..SetAttr::default() };
            drop(fs.set_attr(entry.ino, &set));
        }
        (_, Some(entry)) => {
            let longest = [20, 200, 3000][random.below(3)];
            let value = vec![b'v'; random.below(longest)];
            let name = format!("trusted.{}", random.below(8));
            drop(fs.set_xattr(entry.ino, name.as_bytes(), &value, SetMode::default()));
        }
    }
}

fn storm(seed: u64, steps: usize) -> Run {
    let mut random = Random::new(seed);
    let mut shop = Workshop::new(300 << 20, &Options::default());
    for _ in 0..steps {
        shop.step(|fs| operation(fs, &mut random));
        match random.below(12) {
            0 => shop.sync(),
            1 => shop.write_back(),
            2 => {
                shop.sync();
                shop.write_back();
            }
            _ => {}
        }
    }
    shop.finish(random.one_in(2))
}

#[test]
fn a_storm_of_names_survives_every_crash() {
    let ask_kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let (seeds, steps) = if long() { (0..200, 400) } else { (0..2, 100) };
    let (mut count, mut asked) = (0, 0);
    for seed in seeds {
        let run = storm(seed, steps);
        let mut random = Random::new(seed ^ 0xc4a5);
        let mut crashes = Crashes::new(&run);
        while crashes.left() > 0 {
            crashes.advance();
            for wear in WEARS {
                let crash = crashes.crash(wear, &mut random);
                let at = format!("seed {seed}, {} events, {wear:?}", crash.begun);
                judge::ours(&run, &crash).unwrap_or_else(|why| panic!("{at}: {why}"));
                count += 1;
                if ask_kernel && wear.sector == 4096 && random.one_in(30) {
                    judge::kernels("crash", &crash).unwrap_or_else(|why| panic!("{at}: {why}"));
                    asked += 1;
                }
            }
        }
    }
    eprintln!("{count} crashes, {asked} of them recovered by the kernel too");
}
