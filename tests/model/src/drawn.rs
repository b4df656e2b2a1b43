//! Operations drawn from a seed.
//!
//! An operation names its nodes by numbers, which are taken modulo the number of nodes there are.
//! Any subsequence of a sequence is therefore valid too, and can be tried when a failure is shrunk.

use xfskit_test_support::Random;
use xfskit_vfs::RenameMode;

use crate::operation::{Fallocate, TwoFileOp};

/// One operation, not yet resolved against a tree.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are the explanation
pub enum DrawnOp {
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
    Fallocate {
        node: u32,
        how: Fallocate,
        offset: u32,
        len: u32,
        aligned: bool,
    },
    TwoFile {
        node: u32,
        other: u32,
        how: TwoFileOp,
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

/// Parameters of a random sequence.
#[derive(Clone, Copy, Debug)]
pub struct OpMix {
    /// Number of different names per directory. Few make collisions, many make large directories.
    pub names: u32,
    /// Longest content, in bytes.
    pub content: u32,
    /// Longest attribute value, in bytes.
    pub value: u32,
    /// Share of removals, in percent.
    pub removals: u32,
}

/// Draws `count` operations from `seed`.
pub fn draw(seed: u64, count: usize, mix: OpMix) -> Vec<DrawnOp> {
    let mut random = Random::new(seed);
    (0..count).map(|_| one(&mut random, mix)).collect()
}

fn one(random: &mut Random, mix: OpMix) -> DrawnOp {
    let any = u32::MAX;
    let (dir, name) = (random.below(any), random.below(mix.names));
    if random.below(100) < mix.removals {
        let entry = random.below(any);
        return match random.below(10) {
            0..6 => DrawnOp::Unlink { dir, entry },
            6..8 => DrawnOp::Rmdir { dir, entry },
            _ => DrawnOp::RemoveXattr { node: dir, entry },
        };
    }
    let node = random.below(any);
    match random.below(100) {
        0..16 => DrawnOp::MakeFile { dir, name },
        16..21 => DrawnOp::MakeDir { dir, name },
        21..24 => DrawnOp::Symlink { dir, name, len: 1 + random.below(1023) },
        24..27 => DrawnOp::Special { dir, name, minor: random.below(1000) },
        27..30 => DrawnOp::Unnamed {
            dir,
            name,
            len: random.below(mix.content / 8),
            named: random.below(3) > 0,
        },
        30..35 => DrawnOp::Link { node, dir, name },
        35..45 => {
            let mode = match random.below(6) {
                0 => RenameMode::NoReplace,
                1 => RenameMode::Exchange,
                _ => RenameMode::Replace,
            };
            DrawnOp::Rename { from: dir, entry: node, to: random.below(any), name, mode }
        }
        45..47 => DrawnOp::SetPerm { node, perm: random.below(0o10000) },
        47..49 => DrawnOp::SetOwner { node, uid: name },
        49..51 => DrawnOp::SetTimes {
            node,
            sec: random.below(1 << 31),
            nsec: random.below(1_000_000_000),
        },
        51..59 => {
            let len = if random.below(8) == 0 { random.below(mix.value) } else { random.below(60) };
            DrawnOp::SetXattr { node, name: random.below(40), len }
        }
        59..70 => DrawnOp::Write {
            node,
            offset: random.below(mix.content),
            len: random.below(mix.content / 4),
            fill: random.byte(),
        },
        70..74 => DrawnOp::Truncate { node, size: random.below(mix.content) },
        74..85 => fallocate(random, node, mix),
        85..95 => between(random, node, mix),
        95 => DrawnOp::Label { number: name },
        96 => DrawnOp::Fsync { node },
        97..99 => DrawnOp::Sync,
        _ => DrawnOp::Reopen,
    }
}

fn fallocate(random: &mut Random, node: u32, mix: OpMix) -> DrawnOp {
    let keep_size = random.below(2) == 0;
    let how = match random.below(10) {
        0..3 => Fallocate::Punch,
        3..5 => Fallocate::Zero { keep_size },
        5..7 => Fallocate::Preallocate { keep_size },
        7 => Fallocate::Collapse,
        8 => Fallocate::Insert,
        _ => Fallocate::Unshare,
    };
    let (offset, len) = (random.below(mix.content), random.below(mix.content / 3));
    // Insertions are kept short: a file that grew by every insertion would soon fill the volume.
    let len = if how == Fallocate::Insert { len / 4 } else { len };
    DrawnOp::Fallocate { node, how, offset: offset / 2, len, aligned: random.below(3) > 0 }
}

fn between(random: &mut Random, node: u32, mix: OpMix) -> DrawnOp {
    let how = match random.below(8) {
        0..4 => TwoFileOp::Share,
        4..6 => TwoFileOp::Copy,
        6 => TwoFileOp::ExchangeRange,
        _ => TwoFileOp::Exchange,
    };
    let mut offset = || random.below(mix.content / 2);
    let (offset, source, len) = (offset(), offset(), offset());
    // Files are often short, so half of the operations work on their beginnings.
    let (offset, source) = if random.below(2) == 0 { (0, 0) } else { (offset, source) };
    let other = random.below(u32::MAX);
    DrawnOp::TwoFile { node, other, how, offset, source, len, aligned: random.below(6) > 0 }
}
