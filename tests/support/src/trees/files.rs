//! Regular files: holes, unwritten extents, extent lists inline and as btrees, shared blocks, large
//! offsets; and symbolic links of every length.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::{Shape, bytes, fresh};

/// Builds every form.
pub fn all(root: &Path, shape: &Shape) -> io::Result<()> {
    sizes(&fresh(root, "sizes")?)?;
    holes(&fresh(root, "holes")?, shape)?;
    unwritten(&fresh(root, "unwritten")?, shape)?;
    many_extents(&fresh(root, "many-extents")?, shape)?;
    symlinks(&fresh(root, "symlinks")?)?;
    if shape.reflink {
        shared(&fresh(root, "shared")?, shape)?;
    }
    Ok(())
}

fn sizes(dir: &Path) -> io::Result<()> {
    let around = [512_usize, 1024, 4096, 8192, 65536, 1 << 20];
    let sizes = around.iter().flat_map(|&size| [size - 1, size, size + 1]).chain([0, 1, 2, 100]);
    for size in sizes {
        fs::write(dir.join(format!("{size}")), bytes(size as u64, size))?;
    }
    Ok(())
}

fn create(dir: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(dir.join(name))
}

fn holes(dir: &Path, shape: &Shape) -> io::Result<()> {
    let block = shape.block;
    create(dir, "only-hole")?.set_len(123_456_789)?;
    create(dir, "largest")?.set_len(i64::MAX as u64)?;
    let far = create(dir, "data-far-out")?;
    for shift in [20, 30, 40, 50, 60, 62] {
        far.write_all_at(&bytes(shift, 5000), (1 << shift) - 17)?;
    }
    let last = create(dir, "last-byte")?;
    last.write_all_at(b"!", i64::MAX as u64 - 1)?;
    let truncated = create(dir, "truncated-up")?;
    truncated.write_all_at(&bytes(3, 10_000), 0)?;
    truncated.set_len(1_000_000)?;
    let cut = create(dir, "truncated-down")?;
    cut.write_all_at(&bytes(4, 1_000_000), 0)?;
    cut.set_len(block * 3 + 77)?;
    let mixed = create(dir, "mixed")?;
    for number in 0..60 {
        let length = usize::try_from(number * 300 % 9000 + 1).expect("small");
        mixed.write_all_at(&bytes(number, length), number * block * 4)?;
    }
    let punched = create(dir, "punched")?;
    punched.write_all_at(&bytes(5, 400_000), 0)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&punched, punch, 12_345, 200_000)?;
    Ok(())
}

fn unwritten(dir: &Path, shape: &Shape) -> io::Result<()> {
    let block = shape.block;
    let all = create(dir, "all")?;
    rustix::fs::fallocate(&all, FallocateFlags::empty(), 0, block * 100)?;
    let beyond = create(dir, "beyond-the-end")?;
    beyond.write_all_at(&bytes(6, 5000), 0)?;
    rustix::fs::fallocate(&beyond, FallocateFlags::KEEP_SIZE, 0, block * 64)?;
    let only_beyond = create(dir, "only-beyond-the-end")?;
    rustix::fs::fallocate(&only_beyond, FallocateFlags::KEEP_SIZE, block * 10, block * 10)?;
    let middle = create(dir, "written-in-the-middle")?;
    rustix::fs::fallocate(&middle, FallocateFlags::empty(), 0, block * 100)?;
    middle.write_all_at(&bytes(7, 10), block * 50 + 3)?;
    let zeroed = create(dir, "zero-range")?;
    zeroed.write_all_at(&bytes(8, 300_000), 0)?;
    rustix::fs::fallocate(&zeroed, FallocateFlags::ZERO_RANGE, 50_000, 100_000)?;
    if shape.fuse {
        return Ok(());
    }
    let collapsed = create(dir, "collapsed")?;
    collapsed.write_all_at(&bytes(9, 600_000), 0)?;
    rustix::fs::fallocate(&collapsed, FallocateFlags::COLLAPSE_RANGE, block, block * 2)?;
    let inserted = create(dir, "inserted")?;
    inserted.write_all_at(&bytes(10, 600_000), 0)?;
    rustix::fs::fallocate(&inserted, FallocateFlags::INSERT_RANGE, block, block * 3)?;
    Ok(())
}

/// Preallocates space and punches out every second block: one extent for each two blocks, without
/// data. A few blocks are then written.
fn many_extents(dir: &Path, shape: &Shape) -> io::Result<()> {
    let mut counts = vec![2, 5, 9, 10, 11, 15, 19, 20, 21, 22, 60, 300, 2000];
    if shape.tall {
        counts.push(12_000);
    }
    for count in counts {
        let file = create(dir, &count.to_string())?;
        let block = shape.block;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, count * 2 * block)?;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for number in 0..count {
            rustix::fs::fallocate(&file, punch, (number * 2 + 1) * block, block)?;
        }
        for number in (0..count).step_by(7) {
            file.write_all_at(&bytes(number, 100), number * 2 * block)?;
        }
    }
    // Written and unwritten extents in turn, without holes.
    let file = create(dir, "by-turns")?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 200 * shape.block)?;
    for number in (0..200).step_by(2) {
        file.write_all_at(&bytes(number, 50), number * shape.block)?;
    }
    Ok(())
}

fn symlinks(dir: &Path) -> io::Result<()> {
    let lengths = [1, 2, 59, 100, 200, 300, 335, 336, 337, 400, 500, 800, 847, 848, 849, 967, 968]
        .into_iter()
        .chain([969, 1000, 1022, 1023]);
    for length in lengths {
        symlink("t".repeat(length), dir.join(length.to_string()))?;
    }
    symlink("/absolute/target", dir.join("absolute"))?;
    symlink("../sizes/100", dir.join("relative"))?;
    symlink(".", dir.join("itself"))
}

fn shared(dir: &Path, shape: &Shape) -> io::Result<()> {
    let block = shape.block;
    let origin = create(dir, "origin")?;
    let contents = bytes(11, usize::try_from(block * 40 + 55).expect("small"));
    origin.write_all_at(&contents, 0)?;
    for number in 0..6 {
        let clone = create(dir, &format!("clone{number}"))?;
        rustix::fs::ioctl_ficlone(&clone, &origin)?;
        // Copy on write leaves each clone with blocks of its own among shared ones.
        for at in 0..number {
            clone.write_all_at(&bytes(at, 100), (at * 6 + number) * block + 30)?;
        }
    }
    // The origin changes too, so some blocks belong to the clones alone.
    origin.write_all_at(&bytes(12, 9000), block * 9 + 5)?;
    let grown = create(dir, "grown")?;
    rustix::fs::ioctl_ficlone(&grown, &origin)?;
    grown.write_all_at(&bytes(13, 300_000), block * 40)?;
    let cut = create(dir, "cut")?;
    rustix::fs::ioctl_ficlone(&cut, &origin)?;
    cut.set_len(block * 7 + 1)
}

/// Makes two files that share every second block, `pieces` of them, for as many refcount records.
pub fn shared_extents(dir: &Path, shape: &Shape, pieces: u64) -> io::Result<()> {
    let block = shape.block;
    let origin = create(dir, "origin")?;
    origin.write_all_at(&bytes(14, usize::try_from(block * pieces * 2).expect("small")), 0)?;
    let clone = create(dir, "clone")?;
    rustix::fs::ioctl_ficlone(&clone, &origin)?;
    for number in (0..pieces * 2).step_by(2) {
        clone.write_all_at(&bytes(number, 64), number * block)?;
    }
    Ok(())
}
