//! Operations, drawn from a seed.
//!
//! An operation names what it works on by numbers that are taken modulo what there is: so any subsequence of
//! a sequence is a sequence too, and can be tried when a failure is shrunk.

use xfskit_vfs::RenameMode;

use crate::deed::{Between, Reshape};

/// One operation.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are the explanation
pub enum Op {
    MakeFile {
        dir: u32,
        name: u32,
    },
    MakeDir {
        dir: u32,
        name: u32,
    },
    Symlink {
        dir: u32,
        name: u32,
        len: u32,
    },
    Special {
        dir: u32,
        name: u32,
        minor: u32,
    },
    Link {
        node: u32,
        dir: u32,
        name: u32,
    },
    Unlink {
        dir: u32,
        entry: u32,
    },
    Rmdir {
        dir: u32,
        entry: u32,
    },
    Rename {
        from: u32,
        entry: u32,
        to: u32,
        name: u32,
        mode: RenameMode,
    },
    Unnamed {
        dir: u32,
        name: u32,
        len: u32,
        named: bool,
    },
    SetPerm {
        node: u32,
        perm: u16,
    },
    SetOwner {
        node: u32,
        uid: u32,
    },
    SetTimes {
        node: u32,
        sec: u32,
        nsec: u32,
    },
    SetXattr {
        node: u32,
        name: u32,
        len: u32,
    },
    RemoveXattr {
        node: u32,
        entry: u32,
    },
    Write {
        node: u32,
        offset: u32,
        len: u32,
        fill: u8,
    },
    Truncate {
        node: u32,
        size: u32,
    },
    Reshape {
        node: u32,
        how: Reshape,
        offset: u32,
        len: u32,
        aligned: bool,
    },
    Between {
        node: u32,
        other: u32,
        how: Between,
        offset: u32,
        source: u32,
        len: u32,
        aligned: bool,
    },
    Label {
        number: u32,
    },
    Fsync {
        node: u32,
    },
    Sync,
    Reopen,
}

/// A stream of numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        u32::try_from(self.draw() % u64::from(n.max(1))).unwrap_or(0)
    }

    /// A place in a row of `len`.
    pub fn place(&mut self, len: usize) -> usize {
        self.below(u32::try_from(len).unwrap_or(u32::MAX)) as usize
    }
}

/// How a sequence is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// Different names per directory: few make collisions, many make large directories.
    pub names: u32,
    /// Longest content in bytes.
    pub content: u32,
    /// Longest xattr value in bytes.
    pub value: u32,
    /// How often of 100 something is removed.
    pub removals: u32,
}

/// `count` operations from `seed`.
pub fn draw(seed: u64, count: usize, taste: Taste) -> Vec<Op> {
    let mut rng = Rng(seed);
    (0..count).map(|_| one(&mut rng, taste)).collect()
}

fn one(rng: &mut Rng, taste: Taste) -> Op {
    let any = u32::MAX;
    let (dir, name) = (rng.below(any), rng.below(taste.names));
    if rng.below(100) < taste.removals {
        let entry = rng.below(any);
        return match rng.below(10) {
            0..6 => Op::Unlink { dir, entry },
            6..8 => Op::Rmdir { dir, entry },
            _ => Op::RemoveXattr { node: dir, entry },
        };
    }
    let node = rng.below(any);
    match rng.below(100) {
        0..16 => Op::MakeFile { dir, name },
        16..21 => Op::MakeDir { dir, name },
        21..24 => Op::Symlink { dir, name, len: 1 + rng.below(1023) },
        24..27 => Op::Special { dir, name, minor: rng.below(1000) },
        27..30 => {
            Op::Unnamed { dir, name, len: rng.below(taste.content / 8), named: rng.below(3) > 0 }
        }
        30..35 => Op::Link { node, dir, name },
        35..45 => {
            let mode = match rng.below(6) {
                0 => RenameMode::NoReplace,
                1 => RenameMode::Exchange,
                _ => RenameMode::Replace,
            };
            Op::Rename { from: dir, entry: node, to: rng.below(any), name, mode }
        }
        45..47 => Op::SetPerm { node, perm: u16::try_from(rng.below(0o10000)).unwrap_or(0) },
        47..49 => Op::SetOwner { node, uid: name },
        49..51 => Op::SetTimes { node, sec: rng.below(1 << 31), nsec: rng.below(1_000_000_000) },
        51..59 => {
            let len = if rng.below(8) == 0 { rng.below(taste.value) } else { rng.below(60) };
            Op::SetXattr { node, name: rng.below(40), len }
        }
        59..70 => Op::Write {
            node,
            offset: rng.below(taste.content),
            len: rng.below(taste.content / 4),
            fill: u8::try_from(rng.below(256)).unwrap_or(0),
        },
        70..74 => Op::Truncate { node, size: rng.below(taste.content) },
        74..85 => reshape(rng, node, taste),
        85..95 => between(rng, node, taste),
        95 => Op::Label { number: name },
        96 => Op::Fsync { node },
        97..99 => Op::Sync,
        _ => Op::Reopen,
    }
}

fn reshape(rng: &mut Rng, node: u32, taste: Taste) -> Op {
    let keep_size = rng.below(2) == 0;
    let how = match rng.below(10) {
        0..3 => Reshape::Punch,
        3..5 => Reshape::Zero { keep_size },
        5..7 => Reshape::Preallocate { keep_size },
        7 => Reshape::Collapse,
        8 => Reshape::Insert,
        _ => Reshape::Unshare,
    };
    let (offset, len) = (rng.below(taste.content), rng.below(taste.content / 3));
    // A file that grew by every insertion would soon be the only one.
    let len = if how == Reshape::Insert { len / 4 } else { len };
    Op::Reshape { node, how, offset: offset / 2, len, aligned: rng.below(3) > 0 }
}

fn between(rng: &mut Rng, node: u32, taste: Taste) -> Op {
    let how = match rng.below(8) {
        0..4 => Between::Share,
        4..6 => Between::Copy,
        6 => Between::ExchangeRange,
        _ => Between::Exchange,
    };
    let mut place = || rng.below(taste.content / 2);
    let (offset, source, len) = (place(), place(), place());
    // Files are short, often: their beginnings meet.
    let (offset, source) = if rng.below(2) == 0 { (0, 0) } else { (offset, source) };
    let other = rng.below(u32::MAX);
    Op::Between { node, other, how, offset, source, len, aligned: rng.below(6) > 0 }
}
