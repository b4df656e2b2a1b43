//! Volumes with every structure, made by a mount of Linux.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, fallocate, makedev, mknodat};
use xfskit_test_support::tools::run;
use xfskit_test_support::{Image, Mount, Scratch, Xfsprogs};

/// Bytes of a block: small, so that trees have levels.
const BLOCK: u64 = 1024;
/// Bytes of a volume: the smallest that mkfs.xfs makes by default.
const SIZE: u64 = 300 << 20;

/// A kind of volume.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Whether xfsprogs 6.13 makes and repairs it, instead of the installed version.
    newer: bool,
    options: &'static str,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [
        Self { name: "rmap", newer: false, options: "-m rmapbt=1,reflink=1,finobt=1" },
        Self { name: "plain", newer: false, options: "-m rmapbt=0,reflink=1,finobt=1" },
        Self { name: "parent", newer: true, options: "-m rmapbt=1,reflink=1,finobt=1 -n parent=1" },
    ];

    /// Returns the tools that make and repair it; `None` if they are not there.
    pub fn tools(&self) -> Option<Xfsprogs> {
        if self.newer { Xfsprogs::newer() } else { Xfsprogs::installed() }
    }
}

/// The inodes that were made, by their path below the root.
pub type Inodes = BTreeMap<&'static str, u64>;

/// Makes a volume of the kind, and fills it.
///
/// # Errors
/// The tools or the kernel do not make it.
pub fn volume<'scratch>(
    kind: &Kind,
    scratch: &'scratch Scratch,
) -> Result<(Image<'scratch>, Inodes), String> {
    let tools = kind.tools().ok_or_else(|| format!("no xfsprogs for volume `{}`", kind.name))?;
    let image = Image::sparse(scratch, &format!("{}.img", kind.name), SIZE);
    let options = format!("-b size={BLOCK} -d agcount=4 -i sparse=1 {}", kind.options);
    tools.mkfs(&image, &options.split_whitespace().collect::<Vec<_>>())?;
    let mount = Mount::read_write(&image, scratch)?;
    let inodes = fill(mount.path()).map_err(|why| format!("populate: {why}"))?;
    mount.unmount()?;
    Ok((image, inodes))
}

/// The files whose structures are damaged.
const PATHS: [&str; 17] = [
    "f_extents",
    "f_unwritten",
    "f_btree",
    "f_shared",
    "d_short",
    "d_block",
    "d_leaf",
    "d_node",
    "d_btree",
    "a_short",
    "a_leaf",
    "a_node",
    "a_remote",
    "l_local",
    "l_remote",
    "s_char",
    "s_fifo",
];

fn fill(root: &Path) -> Result<Inodes, String> {
    let text = |why: std::io::Error| why.to_string();
    files(root)?;
    directories(root).map_err(text)?;
    attributes(root).map_err(text)?;
    special(root).map_err(text)?;
    let ino = |path| fs::symlink_metadata(root.join(path)).map(|meta| (path, meta.ino()));
    PATHS.into_iter().map(ino).collect::<Result<_, _>>().map_err(text)
}

/// Returns `len` bytes that differ from block to block.
fn content(seed: u8, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at / 1024).to_le_bytes()[0] ^ seed).collect()
}

/// Files in extents and in a btree, with shared and unwritten extents; free space in pieces.
fn files(root: &Path) -> Result<(), String> {
    let text = |why: std::io::Error| why.to_string();
    let plain = File::create(root.join("f_extents")).map_err(text)?;
    for (at, seed) in [(0, 1), (20 * BLOCK, 2), (50 * BLOCK, 3)] {
        plain.write_all_at(&content(seed, 6 * BLOCK + 100), at).map_err(text)?;
    }
    plain.sync_all().map_err(text)?;
    let unwritten = File::create(root.join("f_unwritten")).map_err(text)?;
    unwritten.write_all_at(&content(4, 2 * BLOCK), 0).map_err(text)?;
    fallocate(&unwritten, FallocateFlags::empty(), 8 * BLOCK, 8 * BLOCK)
        .map_err(|why| why.to_string())?;
    // Every second block is freed: extents of one block, and as many pieces of free space.
    let pieces = File::create(root.join("f_btree")).map_err(text)?;
    pieces.write_all_at(&content(5, 600 * BLOCK), 0).map_err(text)?;
    pieces.sync_all().map_err(text)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for block in (1..600).step_by(2) {
        fallocate(&pieces, punch, block * BLOCK, BLOCK).map_err(|why| why.to_string())?;
    }
    pieces.sync_all().map_err(text)?;
    // Shares every second extent, so that no two records of the refcountbt merge.
    let source = root.join("f_btree");
    let mut share = Command::new("xfs_io");
    share.arg("-f");
    for block in (0..400).step_by(4) {
        let at = block * BLOCK;
        share.arg("-c").arg(format!("reflink {} {at} {at} {BLOCK}", source.display()));
    }
    run(share.arg(root.join("f_shared"))).map(drop)
}

fn entries(dir: &Path, target: &Path, count: u32, len: usize) -> std::io::Result<()> {
    fs::create_dir(dir)?;
    (0..count).try_for_each(|n| fs::hard_link(target, dir.join(format!("{n:0len$}"))))
}

/// Directories of every form.
fn directories(root: &Path) -> std::io::Result<()> {
    let target = root.join("other");
    fs::write(&target, content(6, 300))?;
    fs::create_dir(root.join("lost"))?;
    fs::write(root.join("lost/kept"), content(7, 5000))?;
    entries(&root.join("d_short"), &target, 4, 8)?;
    for n in 0..3 {
        fs::write(root.join(format!("d_short/own{n}")), content(n, 700))?;
    }
    entries(&root.join("d_block"), &target, 30, 16)?;
    fs::create_dir(root.join("d_block/below"))?;
    fs::write(root.join("d_block/below/file"), content(8, 2000))?;
    entries(&root.join("d_leaf"), &target, 200, 16)?;
    entries(&root.join("d_node"), &target, 900, 60)?;
    // Files between its blocks keep the directory's extents apart.
    let tall = root.join("d_btree");
    fs::create_dir(&tall)?;
    for n in 0..60_u8 {
        for i in 0..16 {
            fs::hard_link(&target, tall.join(format!("{n:0100}.{i:0100}")))?;
        }
        let mut between = File::create(tall.join(format!("between{n}")))?;
        between.write_all(&content(n, 3 * BLOCK))?;
        between.sync_all()?;
    }
    Ok(())
}

/// Attribute forks of every form.
fn attributes(root: &Path) -> std::io::Result<()> {
    for (name, count, len) in
        [("a_short", 2, 20), ("a_leaf", 10, 40), ("a_node", 40, 60), ("a_remote", 1, 3000)]
    {
        let path = root.join(name);
        fs::write(&path, content(9, 900))?;
        for n in 0..count {
            let value = content(n, len);
            let key = format!("user.attribute{n:03}");
            rustix::fs::setxattr(&path, key, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Links and devices.
fn special(root: &Path) -> std::io::Result<()> {
    symlink("f_extents", root.join("l_local"))?;
    symlink("x/".repeat(450), root.join("l_remote"))?;
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, root.join("s_char"), FileType::CharacterDevice, mode, makedev(5, 7))?;
    mknodat(CWD, root.join("s_fifo"), FileType::Fifo, mode, 0)?;
    Ok(())
}
