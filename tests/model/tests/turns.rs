//! Linux and xfskit take turns on one volume, each changing what the other left. What they do comes from one seed,
//! and a model in memory does it too. After each turn everybody looks: the tree is the model's as Linux shows it and
//! as xfskit does, both show the same down to times and holes, and neither `xfskit check` nor `xfs_repair -n` finds
//! anything.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_test_model::deed::Deed;
use xfskit_test_model::linux::Linux;
use xfskit_test_model::mem::{Answer, Mem};
use xfskit_test_model::op::{self, Op, Taste};
use xfskit_test_model::ours::{Difference, Ours};
use xfskit_test_model::run::{self, as_far_as};
use xfskit_test_oracle::{Image, Mount, Need, Scratch, Xfsprogs, judge, kernel, long, needs, ours};
use xfskit_vfs::Fs;

const MIXED: Taste = Taste { names: 60, content: 60_000, value: 3000, removals: 22 };
const CROWDED: Taste = Taste { names: 3000, content: 3000, value: 300, removals: 12 };

/// A volume of `mkfs.xfs`.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Made by xfsprogs 6.13, not by the machine's own.
    newer: bool,
    options: &'static [&'static str],
}

/// One volume, and what should be on it.
struct Table<'s> {
    scratch: &'s Scratch,
    image: Image<'s>,
    mem: Mem,
    tools: Xfsprogs,
}

impl<'s> Table<'s> {
    fn new(kind: Kind, scratch: &'s Scratch) -> Self {
        let tools = Xfsprogs::newer().expect("needed");
        let maker = if kind.newer { tools.clone() } else { Xfsprogs::installed().expect("needed") };
        let image = Image::sparse(scratch, "volume.img", 320 << 20);
        maker.mkfs(&image, kind.options).expect("mkfs");
        let fs = Arc::new(Fs::new(ours::open(&image)));
        let root = fs.volume().geo().rootino;
        let mem = Mem::new(Ours::below(fs, root).facts());
        Self { scratch, image, mem, tools }
    }

    /// xfskit does all of `ops`.
    fn our_turn(&mut self, ops: &[Op]) -> Result<(), Difference> {
        let device = FileDevice::open(self.image.path(), OpenMode::ReadWrite);
        let fs = run::open(Arc::new(device.expect("the image")) as Arc<dyn BlockDevice>);
        let mut side = Ours::find(Arc::new(fs), &self.mem)?;
        for op in ops {
            let Some(deed) = Deed::of(op, &self.mem) else { continue };
            let answer = side.apply(&deed, self.mem.nodes.len());
            self.follow(deed, answer, |ours, model| ours == model)?;
        }
        side.into_fs()?.close().map_err(|error| format!("close: {error}"))
    }

    /// Linux does all of `ops`. It may name another reason where there is more than one, and dates a file before it
    /// refuses to change it.
    fn their_turn(&mut self, ops: &[Op]) -> Result<(), Difference> {
        let mount = Mount::read_write_with(&self.image, self.scratch, "noatime")?;
        let side = Linux::new(mount.path(), self.tools.clone());
        for op in ops {
            let Some(deed) = Deed::of(op, &self.mem) else { continue };
            let answer = side.apply(&deed, &self.mem);
            if answer.is_err() {
                self.mem.forget_mtime(&deed);
            }
            self.follow(deed, answer, |linux, model| linux.is_ok() == model.is_ok())?;
        }
        mount.unmount()
    }

    /// The model does what somebody did.
    fn follow(
        &mut self,
        deed: Deed,
        answer: Answer<u64>,
        agrees: impl Fn(&Answer, &Answer) -> bool,
    ) -> Result<(), Difference> {
        let deed = as_far_as(deed, &answer);
        let (answer, model) = (answer.map(drop), self.mem.apply(&deed));
        if agrees(&answer, &model) {
            return Ok(());
        }
        Err(format!("{}: {answer:?}, expected {model:?}", brief(&deed)))
    }

    /// Everybody looks.
    fn look(&self) -> Result<(), Difference> {
        let verdict = ours::verdict(&self.image);
        if !verdict.is_silent() {
            return Err(format!("check: {verdict:#?}"));
        }
        judge::repair(&self.image)?;
        let mount = Mount::read_only(&self.image, self.scratch)?;
        let shown = kernel::manifest(mount.path());
        let side = Linux::new(mount.path(), self.tools.clone());
        side.compare(&shown, &self.mem).map_err(|what| format!("Linux shows: {what}"))?;
        mount.unmount()?;
        let differences = ours::differences(&self.image, &shown);
        if !differences.is_empty() {
            return Err(differences.join("\n"));
        }
        let side = Ours::find(Arc::new(Fs::new(ours::open(&self.image))), &self.mem)?;
        side.compare(&self.mem).map_err(|what| format!("xfskit shows: {what}"))
    }
}

/// What a message says of it.
fn brief(deed: &Deed) -> String {
    let mut text = format!("{deed:?}");
    if text.len() > 400 {
        text = text.chars().take(400).collect();
    }
    text
}

fn play(kind: Kind, taste: Taste, seed: u64, rounds: u64, count: usize) {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new(kind.name);
    let mut table = Table::new(kind, &scratch);
    let rounds = if long() { 8 * rounds } else { rounds };
    for round in 0..rounds {
        let ops = op::draw(seed.wrapping_mul(1 << 20) + round, 2 * count, taste);
        let (theirs, ours) = ops.split_at(count);
        let answer = table.their_turn(theirs).and_then(|()| table.look());
        answer.unwrap_or_else(|what| {
            panic!("{}, seed {seed}, Linux' turn {round}: {what}", kind.name)
        });
        let answer = table.our_turn(ours).and_then(|()| table.look());
        answer
            .unwrap_or_else(|what| panic!("{}, seed {seed}, our turn {round}: {what}", kind.name));
    }
}

const DEFAULT: Kind = Kind { name: "default", newer: true, options: &[] };
const OLD: Kind = Kind { name: "old", newer: false, options: &[] };
const SMALL_BLOCKS: Kind = Kind { name: "1k", newer: true, options: &["-b", "size=1024"] };
const LARGE_DIRECTORY_BLOCKS: Kind = Kind {
    name: "dir-64k",
    newer: true,
    options: &["-b", "size=1024", "-n", "size=65536", "-i", "nrext64=0"],
};
const EVERYTHING: Kind =
    Kind { name: "everything", newer: true, options: &["-n", "parent=1", "-i", "exchange=1"] };
const BARE: Kind = Kind {
    name: "bare",
    newer: false,
    options: &["-m", "finobt=0,rmapbt=0,reflink=0,bigtime=0,inobtcount=0", "-i", "sparse=0"],
};

#[test]
fn kernel_and_xfskit_take_turns_on_a_default_volume() {
    play(DEFAULT, MIXED, 1, 2, 250);
}

#[test]
fn kernel_and_xfskit_take_turns_on_a_volume_of_old_defaults() {
    play(OLD, MIXED, 2, 2, 250);
}

#[test]
fn kernel_and_xfskit_take_turns_on_small_blocks() {
    play(SMALL_BLOCKS, MIXED, 3, 2, 250);
}

#[test]
fn kernel_and_xfskit_take_turns_on_large_directory_blocks() {
    play(LARGE_DIRECTORY_BLOCKS, CROWDED, 4, 2, 900);
}

#[test]
fn kernel_and_xfskit_take_turns_with_parent_pointers_and_exchange() {
    play(EVERYTHING, MIXED, 5, 3, 250);
}

#[test]
fn kernel_and_xfskit_take_turns_on_a_bare_volume() {
    play(BARE, MIXED, 6, 1, 250);
}
