//! Files that share blocks, under random changes, compared with plain bytes. The volume is then
//! checked by xfs_repair and `xfskit check`, read by Linux, changed by Linux, and changed again.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::file::Content;
use xfskit_core::{Error, OpenOptions, Result, Volume};
use xfskit_format::timestamp::Timestamp;
use xfskit_test_support::{Image, Mount, Need, Random, Scratch, Xfsprogs, needs, verify};
use xfskit_units::{ByteLen, ByteOffset, Ino};

const NOW: Timestamp = Timestamp { sec: 1_800_000_000, nsec: 5 };
/// Files of each test.
const FILES: usize = 4;

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn bytes(range: Range<u64>) -> Range<ByteOffset> {
    ByteOffset(range.start)..ByteOffset(range.end)
}

/// A volume with empty files, made by mkfs.xfs and the kernel, and their inode numbers.
fn made<'s>(scratch: &'s Scratch, mib: u64, options: &str) -> (Image<'s>, Vec<Ino>) {
    use std::os::unix::fs::MetadataExt;
    let image = Image::sparse(scratch, "volume.img", mib << 20);
    let options: Vec<&str> = options.split_whitespace().collect();
    Xfsprogs::installed().unwrap().mkfs(&image, &options).unwrap();
    let mount = Mount::read_write(&image, scratch).unwrap();
    let make = |n: usize| {
        let file = std::fs::File::create(mount.path().join(format!("f{n}"))).unwrap();
        Ino(file.metadata().unwrap().ino())
    };
    let inos = (0..FILES).map(make).collect();
    mount.unmount().unwrap();
    (image, inos)
}

fn open(image: &Image<'_>) -> Volume {
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap();
    Volume::open(Arc::new(dev), &OpenOptions { write: true, ..OpenOptions::default() }).unwrap()
}

fn same(found: &[u8], model: &[u8], what: &str) {
    assert_eq!(found.len(), model.len(), "{what}: length");
    if let Some(at) = found.iter().zip(model).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} is {}, not {}", found[at], model[at]);
    }
}

fn check_all(image: &Image<'_>) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).unwrap();
    }
    verify::volume(image, &Scratch::new("sharing-clean")).unwrap();
}

/// Some open files, and what should be in them.
struct Files<'v> {
    vol: &'v Volume,
    contents: Vec<Arc<Content>>,
    models: Vec<Vec<u8>>,
}

impl<'v> Files<'v> {
    fn open(vol: &'v Volume, inos: &[Ino], models: Vec<Vec<u8>>) -> Self {
        let contents = inos.iter().map(|&ino| vol.open_content(ino).unwrap()).collect();
        Self { vol, contents, models }
    }

    fn close(self) -> Vec<Vec<u8>> {
        for content in self.contents {
            self.vol.close_content(content).unwrap();
        }
        self.models
    }

    fn step(&mut self, random: &mut Random, most: u64) -> Result<()> {
        let block = self.vol.geo().blocksize() as u64;
        let n = at(random.below(FILES as u64));
        let (vol, content) = (self.vol, Arc::clone(&self.contents[n]));
        let size = self.models[n].len() as u64;
        let start = random.below((size + 3 * block).min(most));
        let range = start..start + 1 + random.below(30 * block);
        let inside = at(range.start.min(size))..at(range.end.min(size));
        match random.below(10) {
            0..3 => {
                let fill =
                    vec![1 + u8::try_from(random.below(255)).unwrap(); at(range.end - range.start)];
                content.write(vol, ByteOffset(range.start), &fill, NOW)?;
                let model = &mut self.models[n];
                model.resize(model.len().max(at(range.end)), 0);
                model[at(range.start)..at(range.end)].copy_from_slice(&fill);
            }
            3 => {
                content.truncate(vol, ByteLen(range.start), NOW)?;
                self.models[n].resize(at(range.start), 0);
            }
            4 => {
                content.punch(vol, bytes(range), NOW)?;
                self.models[n][inside].fill(0);
            }
            5 => {
                content.zero(vol, bytes(range), true, NOW)?;
                self.models[n][inside].fill(0);
            }
            6 => {
                content.unshare(vol, bytes(range))?;
            }
            _ => self.share(random, n, most, block)?,
        }
        Ok(())
    }

    fn share(&mut self, random: &mut Random, n: usize, most: u64, block: u64) -> Result<()> {
        let m = at(random.below(FILES as u64));
        let (size, own) = (self.models[m].len() as u64, self.models[n].len() as u64);
        let start = random.below(size + 1) / block * block;
        let offset = random.below(own.min(most) + 2 * block) / block * block;
        let end = start + (1 + random.below(60)) * block;
        // To the end of the file where that is near, which may lie within a block.
        let end = if end > size { size } else { end };
        let len = end.saturating_sub(start);
        let whole = end.is_multiple_of(block) || offset + len >= own;
        let apart = n != m || start.abs_diff(offset) >= len.next_multiple_of(block);
        let possible = len > 0 && whole && apart;
        let (this, from) = (Arc::clone(&self.contents[n]), Arc::clone(&self.contents[m]));
        let answer = this.share(self.vol, ByteOffset(offset), &from, bytes(start..end), NOW);
        if !possible {
            assert!(matches!(answer, Err(Error::Limit(_))), "{answer:?}");
            return Ok(());
        }
        answer?;
        let copy = self.models[m][at(start)..at(end)].to_vec();
        let model = &mut self.models[n];
        model.resize(model.len().max(at(offset + len)), 0);
        model[at(offset)..at(offset + len)].copy_from_slice(&copy);
        Ok(())
    }

    fn compare(&self, what: &str) {
        for (content, model) in self.contents.iter().zip(&self.models) {
            let mut found = vec![0xee; model.len() + 10];
            let len = content.read(self.vol, ByteOffset(0), &mut found).unwrap();
            same(&found[..len], model, &format!("{what}, inode {}", content.ino()));
        }
    }
}

fn stress_case(name: &str, mib: u64, options: &str, rounds: u64) {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new(name);
    let (image, inos) = made(&scratch, mib, options);
    let mut models = vec![Vec::new(); FILES];
    let mut random = Random::of_test(1);
    for turn in 0..3 {
        let vol = open(&image);
        let mut files = Files::open(&vol, &inos, models);
        for round in 0..rounds {
            files.step(&mut random, 400 << 10).unwrap();
            if round % 20 == 0 {
                files.compare(&format!("turn {turn}, round {round}"));
            }
        }
        files.compare("at the end");
        models = files.close();
        vol.close().unwrap();
        check_all(&image);
        // Linux reads them, writes into what is shared, and shares more.
        let mount = Mount::read_write(&image, &scratch).unwrap();
        let path = |n: usize| mount.path().join(format!("f{n}"));
        for (n, model) in models.iter().enumerate() {
            same(&std::fs::read(path(n)).unwrap(), model, &format!("file {n} as Linux reads it"));
        }
        for (n, model) in models.iter_mut().enumerate() {
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::options().write(true).open(path(n)).unwrap();
            let middle = model.len() / 2;
            file.write_all_at(b"Linux was here", middle as u64).unwrap();
            model.resize(model.len().max(middle + 14), 0);
            model[middle..middle + 14].copy_from_slice(b"Linux was here");
        }
        let status = std::process::Command::new("cp")
            .arg("--reflink=always")
            .args([path(0), path(1)])
            .status()
            .unwrap();
        assert!(status.success());
        let [first, second, ..] = &mut models[..] else { unreachable!() };
        second.clone_from(first);
        mount.unmount().unwrap();
    }
    check_all(&image);
}

/// The flag that says so goes when nothing is shared any more, and not before.
#[test]
fn the_reflink_flag_is_cleared_when_nothing_is_shared() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("unshared");
    let (image, inos) = made(&scratch, 320, "-m rmapbt=1,reflink=1");
    let vol = open(&image);
    let [from, to] = [0, 1].map(|n| vol.open_content(inos[n]).unwrap());
    from.write(&vol, ByteOffset(0), &vec![5; 10 << 12], NOW).unwrap();
    to.share(&vol, ByteOffset(0), &from, bytes(0..10 << 12), NOW).unwrap();
    let says = |n: usize| vol.iget(inos[n]).unwrap().core().is_reflink();
    to.unshare(&vol, bytes(0..4 << 12)).unwrap();
    assert!(says(0) && says(1), "six blocks are shared");
    to.unshare(&vol, bytes(0..10 << 12)).unwrap();
    assert!(says(0) && !says(1), "the other one was not asked");
    from.unshare(&vol, bytes(0..10 << 12)).unwrap();
    assert!(!says(0));
    for content in [from, to] {
        vol.close_content(content).unwrap();
    }
    vol.close().unwrap();
    check_all(&image);
}

#[test]
fn files_that_share_blocks_match_plain_bytes() {
    stress_case("sharing", 320, "-m rmapbt=1,reflink=1", 250);
}

#[test]
fn and_so_they_do_in_small_blocks() {
    stress_case("sharing-small", 320, "-b size=1024 -m rmapbt=1,reflink=1 -d agcount=8", 250);
}

#[test]
fn and_without_reverse_mappings() {
    stress_case("sharing-plain", 320, "-b size=1024 -m rmapbt=0,reflink=1", 250);
}
