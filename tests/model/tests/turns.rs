//! Linux and xfskit change one volume in turns. One seed determines their operations, and the
//! in-memory model applies them too. After each turn the tree must equal the model both as Linux
//! shows it and as xfskit shows it; both must agree on times and holes; and `xfskit check` and
//! `xfs_repair -n` must find nothing.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_test_model::drawn::{self, DrawnOp, OpMix};
use xfskit_test_model::linux::Linux;
use xfskit_test_model::mem::{Mem, OpResult};
use xfskit_test_model::operation::Operation;
use xfskit_test_model::ours::{Difference, Ours};
use xfskit_test_model::run::{self, with_copied_len};
use xfskit_test_support::{
    Image, Mount, Need, Scratch, Xfsprogs, kernel, long, needs, ours, verify,
};
use xfskit_vfs::{Clock, Fs};

const MIXED: OpMix = OpMix { names: 60, content: 60_000, value: 3000, removals: 22 };
const CROWDED: OpMix = OpMix { names: 3000, content: 3000, value: 300, removals: 12 };

/// How a volume is formatted.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Formatted by xfsprogs 6.13 instead of the installed version.
    newer: bool,
    options: &'static [&'static str],
}

/// One volume and its model.
struct Testbed<'s> {
    scratch: &'s Scratch,
    image: Image<'s>,
    mem: Mem,
    tools: Xfsprogs,
}

impl<'s> Testbed<'s> {
    fn new(kind: Kind, scratch: &'s Scratch) -> Self {
        let tools = Xfsprogs::newer().expect("needed");
        let maker = if kind.newer { tools.clone() } else { Xfsprogs::installed().expect("needed") };
        let image = Image::sparse(scratch, "volume.img", 320 << 20);
        maker.mkfs(&image, kind.options).expect("mkfs");
        let fs = Arc::new(Fs::new(ours::open(&image), Clock::system()));
        let root = fs.volume().geo().rootino;
        let mem = Mem::new(Ours::below(fs, root).facts());
        Self { scratch, image, mem, tools }
    }

    /// Applies all of `ops` with xfskit.
    fn xfskit_turn(&mut self, ops: &[DrawnOp]) -> Result<(), Difference> {
        let device = FileDevice::open(self.image.path(), OpenMode::ReadWrite);
        let fs = run::open(Arc::new(device.expect("the image")) as Arc<dyn BlockDevice>);
        let mut side = Ours::find(Arc::new(fs), &self.mem)?;
        for op in ops {
            let Some(operation) = Operation::of(op, &self.mem) else { continue };
            let result = side.apply(&operation, self.mem.nodes.len());
            self.apply_to_model(operation, result, |ours, model| ours == model)?;
        }
        side.into_fs()?.close().map_err(|error| format!("close: {error}"))
    }

    /// Applies all of `ops` with Linux. Where there is more than one reason to fail, Linux may
    /// report another one than the model. It also updates the modification time before some
    /// operations fail.
    fn linux_turn(&mut self, ops: &[DrawnOp]) -> Result<(), Difference> {
        let mount = Mount::read_write_with(&self.image, self.scratch, "noatime")?;
        let side = Linux::new(mount.path(), self.tools.clone());
        for op in ops {
            let Some(operation) = Operation::of(op, &self.mem) else { continue };
            let result = side.apply(&operation, &self.mem);
            if result.is_err() {
                self.mem.forget_mtime(&operation);
            }
            self.apply_to_model(operation, result, |linux, model| linux.is_ok() == model.is_ok())?;
        }
        mount.unmount()
    }

    /// Applies the operation to the model, and compares the results.
    fn apply_to_model(
        &mut self,
        operation: Operation,
        result: OpResult<u64>,
        agrees: impl Fn(&OpResult, &OpResult) -> bool,
    ) -> Result<(), Difference> {
        let operation = with_copied_len(operation, &result);
        let (result, model) = (result.map(drop), self.mem.apply(&operation));
        if agrees(&result, &model) {
            return Ok(());
        }
        Err(format!("{}: {result:?}, expected {model:?}", shorten(&operation)))
    }

    /// Verifies the volume and compares it with the model, as Linux and as xfskit show it.
    fn verify(&self) -> Result<(), Difference> {
        let report = ours::check(&self.image);
        if !report.is_clean() {
            return Err(format!("check: {report:#?}"));
        }
        verify::repair(&self.image)?;
        let mount = Mount::read_only(&self.image, self.scratch)?;
        let shown = kernel::manifest(mount.path());
        let side = Linux::new(mount.path(), self.tools.clone());
        side.compare(&shown, &self.mem).map_err(|what| format!("Linux shows: {what}"))?;
        mount.unmount()?;
        let differences = ours::differences(&self.image, &shown);
        if !differences.is_empty() {
            return Err(differences.join("\n"));
        }
        let side =
            Ours::find(Arc::new(Fs::new(ours::open(&self.image), Clock::system())), &self.mem)?;
        side.compare(&self.mem).map_err(|what| format!("xfskit shows: {what}"))
    }
}

/// Returns the operation as text, cut to 400 characters.
fn shorten(operation: &Operation) -> String {
    let mut text = format!("{operation:?}");
    if text.len() > 400 {
        text = text.chars().take(400).collect();
    }
    text
}

fn alternate(kind: Kind, mix: OpMix, seed: u64, rounds: u64, count: usize) {
    let seed = xfskit_test_support::seed(seed);
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new(kind.name);
    let mut testbed = Testbed::new(kind, &scratch);
    let rounds = if long() { 8 * rounds } else { rounds };
    for round in 0..rounds {
        let ops = drawn::draw(seed.wrapping_mul(1 << 20) + round, 2 * count, mix);
        let (theirs, ours) = ops.split_at(count);
        let result = testbed.linux_turn(theirs).and_then(|()| testbed.verify());
        result.unwrap_or_else(|what| {
            panic!("{}, seed {seed}, Linux turn {round}: {what}", kind.name)
        });
        let result = testbed.xfskit_turn(ours).and_then(|()| testbed.verify());
        result.unwrap_or_else(|what| {
            panic!("{}, seed {seed}, xfskit turn {round}: {what}", kind.name)
        });
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
fn kernel_and_xfskit_change_a_default_volume_in_turns() {
    alternate(DEFAULT, MIXED, 1, 2, 250);
}

#[test]
fn kernel_and_xfskit_change_a_volume_of_old_defaults_in_turns() {
    alternate(OLD, MIXED, 2, 2, 250);
}

#[test]
fn kernel_and_xfskit_change_small_blocks_in_turns() {
    alternate(SMALL_BLOCKS, MIXED, 3, 2, 250);
}

#[test]
fn kernel_and_xfskit_change_large_directory_blocks_in_turns() {
    alternate(LARGE_DIRECTORY_BLOCKS, CROWDED, 4, 2, 900);
}

#[test]
fn kernel_and_xfskit_change_a_volume_with_parent_pointers_and_exchange_in_turns() {
    alternate(EVERYTHING, MIXED, 5, 3, 250);
}

#[test]
fn kernel_and_xfskit_change_a_bare_volume_in_turns() {
    alternate(BARE, MIXED, 6, 1, 250);
}
