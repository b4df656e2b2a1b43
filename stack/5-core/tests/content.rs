//! File data under random changes, compared with plain bytes. The volume is then checked by `xfskit
//! check` and xfs_repair, and read by Linux.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_block::{FaultDevice, FaultPlan, FileDevice, OpenMode};
use xfskit_core::file::{Content, Seek};
use xfskit_core::{Error, OpenOptions, Volume};
use xfskit_format::timestamp::Timestamp;
use xfskit_test_support::{Image, Mount, Need, Random, Scratch, Xfsprogs, needs, ours};
use xfskit_units::{ByteLen, ByteOffset, Ino};

const NOW: Timestamp = Timestamp { sec: 1_800_000_000, nsec: 5 };

/// A range of bytes that begins below `end` and is up to `most` long, often of whole blocks.
fn range(random: &mut Random, end: u64, most: u64, block: u64) -> Range<u64> {
    let (start, len) = (random.below(end), 1 + random.below(most));
    match random.below(3) {
        0 => start / block * block..(start / block + len.div_ceil(block)) * block,
        _ => start..start + len,
    }
}

/// A volume with `files` empty files, made by mkfs.xfs and the kernel, and their inode numbers.
fn made<'s>(scratch: &'s Scratch, mib: u64, options: &str, files: u32) -> (Image<'s>, Vec<Ino>) {
    use std::os::unix::fs::MetadataExt;
    let image = Image::sparse(scratch, "volume.img", mib << 20);
    let options: Vec<&str> = options.split_whitespace().collect();
    Xfsprogs::installed().unwrap().mkfs(&image, &options).unwrap();
    let mount = Mount::read_write(&image, scratch).unwrap();
    let make = |n: u32| {
        let file = std::fs::File::create(mount.path().join(format!("f{n}"))).unwrap();
        Ino(file.metadata().unwrap().ino())
    };
    let inos = (0..files).map(make).collect();
    mount.unmount().unwrap();
    (image, inos)
}

fn open(image: &Image<'_>) -> Volume {
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap();
    Volume::open(Arc::new(dev), &OpenOptions { write: true, ..OpenOptions::default() }).unwrap()
}

/// Opens the volume over a device with the faults of `plan`.
fn open_with(image: &Image<'_>, plan: FaultPlan) -> (Volume, Arc<FaultDevice>) {
    let file = FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap();
    let faults = Arc::new(FaultDevice::new(Arc::new(file), plan));
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    (Volume::open(faults.clone(), &options).unwrap(), faults)
}

/// xfs_repair has nothing to say, and Linux reads what `models` say.
fn check_all(scratch: &Scratch, image: &Image<'_>, models: &[Vec<u8>]) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).unwrap();
    }
    let report = ours::check(image);
    assert!(report.is_clean(), "{report:#?}");
    let mount = Mount::read_only(image, scratch).unwrap();
    for (n, model) in models.iter().enumerate() {
        let found = std::fs::read(mount.path().join(format!("f{n}"))).unwrap();
        same(&found, model, &format!("file {n} as Linux reads it"));
    }
    mount.unmount().unwrap();
}

fn same(found: &[u8], model: &[u8], what: &str) {
    assert_eq!(found.len(), model.len(), "{what}: length");
    if let Some(at) = found.iter().zip(model).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} is {}, not {}", found[at], model[at]);
    }
}

/// One file and what should be in it.
struct Pair<'v> {
    vol: &'v Volume,
    content: Arc<Content>,
    model: Vec<u8>,
}

impl Pair<'_> {
    fn step(&mut self, random: &mut Random, most: u64) -> Result<(), Error> {
        let block = self.vol.geo().blocksize() as u64;
        let (vol, content) = (self.vol, Arc::clone(&self.content));
        let size = self.model.len() as u64;
        let range = range(random, (size + 3 * block).min(most), 40 * block, block);
        let bytes = ByteOffset(range.start)..ByteOffset(range.end);
        let grow = |model: &mut Vec<u8>, end: u64| {
            let end = usize::try_from(end).unwrap();
            model.resize(model.len().max(end), 0);
        };
        let at = |offset: u64| usize::try_from(offset).unwrap();
        match random.below(12) {
            0..4 => {
                let byte = 1 + random.below(255);
                let fill = vec![byte; at(range.end - range.start)];
                content.write(vol, bytes.start, &fill, NOW)?;
                grow(&mut self.model, range.end);
                self.model[at(range.start)..at(range.end)].copy_from_slice(&fill);
            }
            4 => {
                let size = if random.below(2) == 0 { range.start } else { size };
                content.truncate(vol, ByteLen(size), NOW)?;
                self.model.resize(at(size), 0);
            }
            5 => {
                let size = size.max(range.end).min(most);
                content.truncate(vol, ByteLen(size), NOW)?;
                grow(&mut self.model, size);
                self.model.truncate(at(size));
            }
            6 => {
                content.punch(vol, bytes, NOW)?;
                let inside = range.start.min(size)..range.end.min(size);
                self.model[at(inside.start)..at(inside.end)].fill(0);
            }
            7 => {
                let keep = random.below(2) == 0;
                content.zero(vol, bytes, keep, NOW)?;
                grow(&mut self.model, if keep { 0 } else { range.end });
                let size = self.model.len() as u64;
                let inside = range.start.min(size)..range.end.min(size);
                self.model[at(inside.start)..at(inside.end)].fill(0);
            }
            8 => {
                let keep = random.below(2) == 0;
                content.preallocate(vol, bytes, keep, NOW)?;
                grow(&mut self.model, if keep { 0 } else { range.end });
            }
            9 => {
                let whole = range.start / block * block..range.end.div_ceil(block) * block;
                let asked = ByteOffset(whole.start)..ByteOffset(whole.end);
                if whole.end < size && random.below(2) == 0 {
                    content.collapse(vol, asked, NOW)?;
                    self.model.drain(at(whole.start)..at(whole.end));
                } else if whole.start < size && size < most {
                    content.insert(vol, asked, NOW)?;
                    let zeroes = vec![0; at(whole.end - whole.start)];
                    self.model.splice(at(whole.start)..at(whole.start), zeroes);
                }
            }
            10 => content.fsync(vol)?,
            _ => {
                let data = content.seek(vol, bytes.start, Seek::Data)?;
                let first = self.model.iter().skip(at(range.start)).position(|&byte| byte != 0);
                if let Some(first) = first {
                    assert!(data.is_some_and(|data| data.0 <= range.start + first as u64));
                }
                if let Some(hole) = content.seek(vol, bytes.start, Seek::Hole)?
                    && hole.0 < size
                {
                    let upto = (hole.0 / block + 1) * block;
                    let hole = &self.model[at(hole.0)..at(upto.min(size))];
                    assert!(hole.iter().all(|&byte| byte == 0));
                }
            }
        }
        Ok(())
    }

    /// A part of `other` becomes a part of this one.
    fn share(&mut self, random: &mut Random, other: &Pair<'_>, most: u64) -> Result<(), Error> {
        let block = self.vol.geo().blocksize() as u64;
        let size = other.model.len() as u64;
        if size < block {
            return Ok(());
        }
        let from = random.below(size) / block * block;
        let mut len = (1 + random.below(40)) * block;
        let to = random.below((self.model.len() as u64 + 3 * block).min(most)) / block * block;
        if from + len > size {
            len = size - from;
            if to + len < self.model.len() as u64 {
                len = len / block * block;
            }
        }
        if len == 0 {
            return Ok(());
        }
        let source = ByteOffset(from)..ByteOffset(from + len);
        self.content.share(self.vol, ByteOffset(to), &other.content, source, NOW)?;
        let at = |offset: u64| usize::try_from(offset).unwrap();
        self.model.resize(self.model.len().max(at(to + len)), 0);
        self.model[at(to)..at(to + len)].copy_from_slice(&other.model[at(from)..at(from + len)]);
        Ok(())
    }

    fn compare(&self, what: &str) {
        let mut found = vec![0xee; self.model.len() + 10];
        let len = self.content.read(self.vol, ByteOffset(0), &mut found).unwrap();
        same(&found[..len], &self.model, what);
    }
}

#[test]
fn random_changes_of_file_data_match_plain_bytes() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for (round, options) in (0..).zip([
        "-b size=1024 -m rmapbt=0,reflink=0 -d agcount=4 -l size=8m",
        "-b size=4096 -m rmapbt=1,reflink=0 -d agcount=2 -l size=16m",
        "-b size=1024 -m rmapbt=1,reflink=1 -d agcount=3 -i nrext64=1 -l size=16m",
        "-b size=1024 -m rmapbt=1,reflink=1 -d agcount=3,extszinherit=7,cowextsize=8 -l size=16m",
    ]) {
        let scratch = Scratch::new("content");
        let (image, inos) = made(&scratch, 128, options, 3);
        let vol = open(&image);
        let mut random = Random::of_test(round);
        let pair =
            |ino: &Ino| Pair { vol: &vol, content: vol.open_content(*ino).unwrap(), model: vec![] };
        let mut pairs: Vec<_> = inos.iter().map(pair).collect();
        for step in 0..1500 {
            let n = random.below(3);
            let done = if options.contains("reflink=1") && random.below(4) == 0 {
                let mut other = pairs.remove((n + 1) % 3);
                let at = usize::from(n == 1);
                let done = match random.below(4) {
                    0 => {
                        let end = ByteOffset(other.model.len() as u64);
                        other.content.unshare(&vol, ByteOffset(0)..end)
                    }
                    _ => other.share(&mut random, &pairs[at], 1 << 20),
                };
                pairs.insert((n + 1) % 3, other);
                done
            } else {
                pairs[n].step(&mut random, 1 << 20)
            };
            done.unwrap_or_else(|error| panic!("{options}, step {step}: {error}"));
            if step % 10 == 0 {
                pairs[n].compare(&format!("{options}, step {step}, file {n}"));
            }
        }
        let models: Vec<_> = pairs
            .into_iter()
            .map(|pair| {
                pair.compare(&format!("{options}, at the end"));
                vol.close_content(pair.content).unwrap();
                pair.model
            })
            .collect();
        vol.close().unwrap();
        check_all(&scratch, &image, &models);
    }
}

/// Bytes that three threads write in turns, and how many each writes at once.
const STREAM: usize = 144 << 20;
const PIECE: usize = 1 << 20;

fn streamed(offset: usize) -> u8 {
    u8::try_from((offset >> 12) % 251 + offset % 3).unwrap()
}

fn piece(n: usize) -> Vec<u8> {
    (n * PIECE..(n + 1) * PIECE).map(streamed).collect()
}

/// Writes every third piece from `first` on.
fn stream(vol: &Volume, content: &Content, first: usize, written: &[AtomicBool]) {
    for n in (first..STREAM / PIECE).step_by(3) {
        content.write(vol, ByteOffset((n * PIECE) as u64), &piece(n), NOW).unwrap();
        written[n].store(true, Ordering::Release);
    }
}

/// Reads written pieces, and calls fsync, until all are written.
fn observe(vol: &Volume, content: &Content, written: &[AtomicBool]) {
    let mut random = Random::of_test(2);
    let mut found = vec![0; PIECE];
    while !written.iter().all(|piece| piece.load(Ordering::Acquire)) {
        let n = random.below(written.len());
        if written[n].load(Ordering::Acquire) {
            content.read(vol, ByteOffset((n * PIECE) as u64), &mut found).unwrap();
            same(&found, &piece(n), &format!("piece {n} while others are written"));
        }
        if random.below(20) == 0 {
            content.fsync(vol).unwrap();
        }
    }
}

#[test]
fn a_file_is_written_behind_while_threads_write_and_read_it() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("behind");
    let (image, inos) = made(&scratch, 300, "-m rmapbt=1,reflink=1", 1);
    let vol = open(&image);
    let content = vol.open_content(inos[0]).unwrap();
    let written: Vec<_> = (0..STREAM / PIECE).map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (vol, content, written) = (&vol, &*content, &written);
            scope.spawn(move || stream(vol, content, first, written));
        }
        scope.spawn(|| observe(&vol, &content, &written));
    });
    vol.close_content(content).unwrap();
    vol.close().unwrap();
    check_all(&scratch, &image, &[(0..STREAM).map(streamed).collect()]);
}

/// A write behind that fails shuts the volume down. Nothing waits for it for good, and no write is
/// taken afterwards.
#[test]
fn a_failed_write_behind_ends_all_writers_and_readers() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("behind-fails");
    let (image, inos) = made(&scratch, 300, "-m rmapbt=0", 1);
    let (vol, faults) = open_with(&image, FaultPlan::default());
    let opened = faults.io_count();
    vol.close().unwrap();
    drop(faults);
    let plan = FaultPlan { fail_from: Some(opened + 40), ..FaultPlan::default() };
    let (vol, _faults) = open_with(&image, plan);
    let content = vol.open_content(inos[0]).unwrap();
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (vol, content) = (&vol, &content);
            scope.spawn(move || {
                let mut pieces = (first..STREAM / PIECE).step_by(3);
                let write = |n| content.write(vol, ByteOffset((n * PIECE) as u64), &piece(n), NOW);
                // A thread may have written all of its pieces before the device fails.
                pieces.any(|n| write(n).is_err());
                assert!(content.fsync(vol).is_err(), "thread {first} has no error");
                assert!(write(first).is_err(), "thread {first} writes after the shutdown");
            });
        }
    });
}

#[test]
fn a_file_written_in_pieces_is_one_extent() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("pieces");
    let (image, inos) = made(&scratch, 256, "-m rmapbt=0,reflink=0", 2);
    let vol = open(&image);
    let files: Vec<_> = inos.iter().map(|&ino| vol.open_content(ino).unwrap()).collect();
    let mut models = vec![vec![]; 2];
    for n in 0..1500_u64 {
        for (file, model) in files.iter().zip(&mut models) {
            let piece: Vec<u8> = (0..3001).map(|byte| ((byte * 7 + n) % 251) as u8).collect();
            file.write(&vol, ByteOffset(n * 3001), &piece, NOW).unwrap();
            model.extend(piece);
        }
    }
    for (file, ino) in files.into_iter().zip(&inos) {
        vol.close_content(file).unwrap();
        assert_eq!(vol.iget(*ino).unwrap().core().nextents(), 1);
    }
    vol.close().unwrap();
    check_all(&scratch, &image, &models);
}

#[test]
fn a_full_volume_refuses_writes_and_everything_written_before_stays() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("full");
    let (image, inos) = made(&scratch, 64, "-m rmapbt=0,reflink=0 -d agcount=2 -l size=8m", 2);
    let vol = open(&image);
    let files: Vec<_> = inos.iter().map(|&ino| vol.open_content(ino).unwrap()).collect();
    let mut models = vec![vec![]; 2];
    let mut random = Random::of_test(1);
    let (mut refused, mut accepted) = (0, 0_u8);
    while refused < 20 {
        let n = random.below(2);
        let piece = vec![1 + accepted; 1 + random.below(300_000)];
        let end = models[n].len() as u64;
        match files[n].write(&vol, ByteOffset(end), &piece, NOW) {
            Ok(()) => {
                models[n].extend(piece);
                accepted = (accepted + 1) % 250;
            }
            Err(Error::NoSpace(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        let whole = ByteOffset(0)..ByteOffset(200 << 20);
        if refused == 10 {
            let refusal = files[n].preallocate(&vol, whole, true, NOW);
            assert!(matches!(refusal, Err(Error::NoSpace(_))), "{refusal:?}");
        }
    }
    let total: usize = models.iter().map(Vec::len).sum();
    assert!(total > 48 << 20, "only {total} bytes fit");
    for (file, model) in files.iter().zip(&models) {
        let mut found = vec![0; model.len()];
        file.read(&vol, ByteOffset(0), &mut found).unwrap();
        same(&found, model, "in memory");
    }
    for file in files {
        vol.close_content(file).unwrap();
    }
    vol.close().unwrap();
    check_all(&scratch, &image, &models);
}

#[test]
fn a_file_of_very_many_extents_comes_and_goes() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("extents");
    let count = if xfskit_test_support::long() { 1_000_000 } else { 20_000 };
    let (image, inos) = made(&scratch, 256 + count * 2 / 1024, "-b size=1024 -l size=16m", 1);
    let vol = open(&image);
    let content = vol.open_content(inos[0]).unwrap();
    let all = ByteOffset(0)..ByteOffset(count * 2048);
    content.preallocate(&vol, all, false, NOW).unwrap();
    let before = vol.iget(inos[0]).unwrap().core().nextents();
    let started = std::time::Instant::now();
    for n in 0..count {
        let hole = ByteOffset(n * 2048)..ByteOffset(n * 2048 + 1024);
        content.punch(&vol, hole, NOW).unwrap();
        if n + 1 == 1000 || n + 1 == count {
            eprintln!("{} extents after {:?}", n + 1, started.elapsed());
        }
    }
    let extents = vol.iget(inos[0]).unwrap().core().nextents();
    assert!(extents >= count && before < 10, "{before} extents became {extents}");
    content.write(&vol, ByteOffset(count * 1024), b"in the middle", NOW).unwrap();
    let started = std::time::Instant::now();
    let size = count * 2048 / 2 + 100;
    content.truncate(&vol, ByteLen(size), NOW).unwrap();
    eprintln!("half of them went in {:?}", started.elapsed());
    let mut model = vec![0; usize::try_from(size).unwrap()];
    let at = usize::try_from(count * 1024).unwrap();
    model[at..at + 13].copy_from_slice(b"in the middle");
    vol.close_content(content).unwrap();
    vol.close().unwrap();
    check_all(&scratch, &image, &[model]);
}

#[test]
fn closing_a_deleted_file_leaves_the_open_file_that_has_its_number() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("number");
    let (image, inos) = made(&scratch, 256, "-m rmapbt=0,reflink=0", 1);
    let vol = open(&image);
    let deleted = vol.open_content(inos[0]).unwrap();
    let second = Arc::clone(&deleted);
    vol.discard_content(inos[0]).unwrap();
    let new = vol.open_content(inos[0]).unwrap();
    vol.close_content(deleted).unwrap();
    new.write(&vol, ByteOffset(0), b"new", NOW).unwrap();
    assert_eq!(vol.iget_live(inos[0]).unwrap().core().size(), ByteLen(3));
    drop(second);
    vol.flush_contents().unwrap();
    assert_eq!(vol.iget(inos[0]).unwrap().core().size(), ByteLen(3), "a sync writes it");
    vol.close_content(new).unwrap();
    vol.close().unwrap();
    check_all(&scratch, &image, &[b"new".to_vec()]);
}
