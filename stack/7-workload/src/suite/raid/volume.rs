//! An XFS volume on the array, and its files.
//!
//! Every block of a file begins with its number and the number of the file, so that each request of
//! a reader is verified at its first block at no cost.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfskit_core::OpenOptions;
use xfskit_units::{ByteLen, Ino};
use xfskit_vfs::Fs;

use super::content::Content;
use super::members::{MemberSet, RaidArray};
use super::readers::{Setup, State};
use super::{Options, Point, ROUND, Study, published, tables};
use crate::Driver;
use crate::driver::engine::Engine;
use crate::random::Random;
use crate::report::{Axis, Cell, Plot, Section, Table};
use crate::suite::{Observer, Settings};
use crate::testbed;

/// Bytes of a block with a mark.
const BLOCK: usize = 4096;
/// Bytes of a write.
const WRITE: usize = 4 << 20;

/// Returns the bytes that the array must hold for these files: their own, a tenth more, and the
/// journal with room to spare.
pub(super) fn room(files: &[Range<u64>]) -> u64 {
    let bytes: u64 = files.iter().map(|file| file.end - file.start).sum();
    bytes + bytes / 10 + (512 << 20)
}

/// Makes a volume on the array, with its stripes in the superblock, and writes the files.
pub(super) fn make(array: &RaidArray, files: &[Range<u64>], seed: u64) -> io::Result<()> {
    testbed::format(&*array.device, &xfskit_mkfs::Options::default())?;
    let device = Arc::clone(&array.device);
    let engine = Engine::new(device, OpenOptions::default(), "xfskit", "an array")?;
    let root = engine.root()?;
    let mut random = Random::new(seed);
    let mut data = vec![0; WRITE];
    for bytes in data.chunks_exact_mut(8) {
        bytes.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    for (n, range) in files.iter().enumerate() {
        let file = engine.create(&root, name(n).as_bytes())?;
        let size = range.end - range.start;
        let mut at = 0;
        while at < size {
            stamp(n, at, &mut data);
            let part = usize::try_from(size - at).map_or(WRITE, |left| left.min(WRITE));
            engine.write(&file, at, &data[..part])?;
            at += part as u64;
        }
        Driver::close(&engine, file)?;
    }
    engine.close()
}

/// Returns the inode of file `n`.
pub(super) fn find(fs: &Fs, n: usize) -> io::Result<Ino> {
    let root = fs.inode(fs.volume().geo().rootino).map_err(io::Error::other)?;
    let found = fs.lookup(&root, name(n).as_bytes()).map_err(io::Error::other)?;
    found.ok_or_else(|| io::Error::other(format!("{} is not on the volume", name(n))))
}

/// Compares the mark of the first whole block in what was read of file `n` from byte `at` on.
///
/// # Errors
/// If it differs: the array or the volume returned wrong data.
pub(super) fn verify(n: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
    let first = at.next_multiple_of(BLOCK as u64);
    let found = usize::try_from(first - at).ok().and_then(|skip| bytes.get(skip..skip + 8));
    let expected = mark(n, first);
    if found.is_none_or(|found| found == expected) {
        return Ok(());
    }
    Err(io::Error::other(format!("{}: the block at byte {first} has wrong data", name(n))))
}

fn name(n: usize) -> String {
    format!("file{n}")
}

fn mark(n: usize, at: u64) -> [u8; 8] {
    (((n as u64) << 40) | (at / BLOCK as u64)).to_le_bytes()
}

/// Marks every block of `data`, which begins at byte `at` of file `n`.
fn stamp(n: usize, at: u64, data: &mut [u8]) {
    for (block, offset) in data.chunks_mut(BLOCK).zip((at..).step_by(BLOCK)) {
        block[..8].copy_from_slice(&mark(n, offset));
    }
}

/// Measures readers of files of a volume on the array.
pub(super) fn section(
    options: &Options,
    settings: &Settings,
    files: &[Range<u64>],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let plan = options.plan;
    let size = room(files).div_ceil(plan.data_members()).next_multiple_of(ROUND);
    let member_set = MemberSet::empty(&options.members, plan.members, size)?;
    let array = member_set.array(&plan, 0, false, ByteLen(options.stripe_cache))?;
    make(&array, files, settings.seed)?;
    drop(array);
    let study = Study { member_set, content: Content::Volume(files.len()), options, settings };
    let states = (0..=plan.tolerates().min(2)).map(State::Missing);
    let setups = |request| {
        let setup = |state| Setup { state, request, ..study.default_setup() };
        states.clone().map(setup).collect::<Vec<_>>()
    };
    let small = study.measure("files of a volume", setups(options.request), observer)?;
    let large =
        study.measure("files of a volume, requests of a full stripe", setups(0), observer)?;
    Ok(report(&study, &small, &large))
}

/// Formats the section.
fn report(study: &Study<'_>, small: &[Point], large: &[Point]) -> Section {
    let (plan, options) = (study.options.plan, study.options);
    let mut section = Section::new("Degraded reads: files of an XFS volume on the array");
    let kib = options.request >> 10;
    section.paragraph(sentence(small, kib));
    section.paragraph(format!(
        "{} readers on {} as dd reads: each opens a file of an XFS volume, reads it from start to end in requests of one size, \
         closes it, and opens another one at random. mkfs and the writes are this program's, with the array healthy. The volume \
         is opened for reading only. Each request is verified by the mark of its first block.",
        options.readers,
        plan.describe(),
    ));
    let columns: Vec<_> = tables::COST.to_vec();
    let mut table = Table::new("Files of a volume", &columns);
    for (points, what) in [(small, format!("{kib} KiB")), (large, "a full stripe".into())] {
        let healthy = points.first().map_or(f64::NAN, |point| point.rate.median());
        for point in points {
            let name = format!("requests of {what}, {}", point.setup.state.name());
            table.row(name, &study.member_set.storage, tables::cost_cells(point, healthy));
        }
    }
    for (state, stripes, rate) in published::READ {
        let cache = stripes.map_or(String::new(), |n| format!(", stripe_cache_size {n}"));
        let mut cells = vec![Cell::None; columns.len()];
        (cells[0], cells[2]) = (Cell::Number(rate, 0), Cell::Number(rate / 8000.0, 3));
        table.published(format!("{state}{cache}"), published::ON, cells);
    }
    section.tables.push(table);
    let names = small.iter().map(|point| point.setup.state.name()).collect();
    let lines = [(format!("requests of {kib} KiB"), small), ("of a full stripe".into(), large)];
    let lines = lines.map(|(name, points)| tables::line(&name, points.iter(), |n, _| n + 1));
    section.plots.push(Plot {
        title: format!(
            "{}, {} readers of files: throughput by state",
            plan.describe(),
            options.readers
        ),
        x: Axis::named("state", names),
        y: Axis::linear("throughput, MB/s"),
        lines: lines.into_iter().chain([tables::published_states()]).collect(),
    });
    section
}

/// Describes what readers of files lose with one failed member.
fn sentence(points: &[Point], kib: u64) -> String {
    let of = |state| {
        let point = points.iter().find(|point| point.setup.state == state);
        point.filter(|point| !point.is_too_short()).map(|point| point.rate.median())
    };
    match (of(State::Missing(0)), of(State::Missing(1))) {
        (Some(healthy), Some(failed)) => format!(
            "Readers of files with requests of {kib} KiB keep {:.2} of the rate of the healthy array with one member failed: {} \
             of {} MB/s.",
            failed / healthy,
            Cell::Number(failed, 0),
            Cell::Number(healthy, 0)
        ),
        (Some(healthy), None) => format!(
            "Readers of files with requests of {kib} KiB read {} MB/s from the healthy array.",
            Cell::Number(healthy, 0)
        ),
        (None, _) => "The healthy array was not measured for long enough.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::members::{MemberKind, Plan};
    use super::super::readers;
    use super::super::tables::testing::point;
    use super::*;
    use std::process::Command;
    use xfskit_block::{BlockDevice, FileDevice, OpenMode};
    use xfskit_md::Level;
    use xfskit_units::ByteOffset;

    #[test]
    fn a_wrong_block_is_an_error() {
        let mut data = vec![7; 3 * BLOCK];
        stamp(3, 8192, &mut data);
        verify(3, 8192, &data).expect("the first block");
        verify(3, 8192 + 100, &data[100..]).expect("the next whole block");
        verify(3, 8192 + 100, &data[100..200]).expect("no whole block");
        assert!(verify(4, 8192, &data).is_err() && verify(3, 4096, &data).is_err());
    }

    /// Copies the array to a file, without its zeros.
    fn copy(array: &RaidArray, path: &std::path::Path) {
        let size = array.device.size();
        std::fs::File::create(path).and_then(|file| file.set_len(size.0)).expect("a file");
        let file = FileDevice::open(path, OpenMode::ReadWrite).expect("a file");
        let (mut at, mut buf) = (0, vec![0; 1 << 20]);
        while at < size.0 {
            let part = usize::try_from(size.0 - at).map_or(buf.len(), |left| left.min(buf.len()));
            array.device.read_at(ByteOffset(at), &mut buf[..part]).expect("read");
            if buf[..part].iter().any(|byte| *byte != 0) {
                file.write_at(ByteOffset(at), &buf[..part]).expect("written");
            }
            at += part as u64;
        }
    }

    /// Reads all files with the kernel.
    fn kernel_reads(image: &std::path::Path, files: &[Range<u64>]) {
        let mount = match crate::kernel::Mount::new(image, "ro") {
            Ok(mount) => mount,
            Err(error) => return eprintln!("skipped: the kernel cannot mount an image: {error}"),
        };
        for (n, range) in files.iter().enumerate() {
            let bytes = std::fs::read(mount.path().join(name(n))).expect("a file");
            assert_eq!(bytes.len() as u64, range.end - range.start);
            for (at, block) in (0..).step_by(BLOCK).zip(bytes.chunks(BLOCK)) {
                verify(n, at, block).expect("its mark");
            }
        }
        mount.unmount().expect("unmounted");
    }

    #[test]
    fn a_volume_on_the_array_is_clean_and_complete_without_two_members() {
        let plan = Plan { level: Level::Raid6, legs: 1, members: 6, chunk: 64 << 10 };
        let files = readers::files(3, 3 << 20, 7);
        let size = (room(&files) / 4).next_multiple_of(4 << 20);
        let member_set = MemberSet::empty(&MemberKind::Memory, 6, size).expect("members");
        let array = |missing| member_set.array(&plan, missing, false, ByteLen(0)).expect("array");
        make(&array(0), &files, 7).expect("a volume");
        for missing in 0..=2 {
            let options = xfskit_check::Options::default();
            let report = xfskit_check::check(&*array(missing).device, None, &options, &mut |_| ());
            assert!(report.expect("a check").clean(), "{missing} missing");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        copy(&array(2), &image);
        kernel_reads(&image, &files);
        let Ok(out) = Command::new("xfs_repair").args(["-n", "-f"]).arg(&image).output() else {
            eprintln!("skipped: xfs_repair is not installed");
            return;
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    #[test]
    fn readers_of_files_have_a_sentence_for_every_outcome() {
        let failed = |rate| {
            let mut point = point(rate);
            point.setup.state = State::Missing(1);
            point
        };
        let text = sentence(&[point(1000), failed(920)], 1024);
        assert!(text.contains("keep 0.92") && text.ends_with("920 of 1,000 MB/s."), "{text}");
        let text = sentence(&[point(1000), failed(4)], 1024);
        assert!(text.ends_with("1,000 MB/s from the healthy array."), "{text}");
        assert!(sentence(&[], 1024).contains("not measured for long enough"));
    }
}
