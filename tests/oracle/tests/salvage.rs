//! Volumes that Linux filled, and then damaged in chosen blocks: a salvage copies all that the
//! damage did not touch, with its metadata, and names the rest.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use xfskit::raw::VolumeExt as _;
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::Follow;
use xfskit::{Salvage, Salvaged, Volume};
use xfskit_core::bmap::ForkPart;
use xfskit_format::Fork;
use xfskit_test_support::{
    Entry, Image, Manifest, Mount, Need, Scratch, Xfsprogs, kernel, needs, tools,
};
use xfskit_units::{AgBlock, AgNumber, FsBlock};

use crate::get::carried;

/// Files in the directory of several blocks.
const FILES: usize = 600;
/// Extents of the fragmented file: more than fit in its inode.
const EXTENTS: u64 = 900;
/// Bytes of a block.
const BLOCK: usize = 4096;

/// Fills the volume mounted at `at`.
fn fill(at: &Path) {
    let dir = at.join("names");
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..FILES {
        fs::write(dir.join(format!("a-file-with-a-longer-name-{n:04}")), format!("{n}"))
            .expect("write");
    }
    fs::create_dir_all(at.join("names/sub/deeper")).expect("mkdir");
    fs::write(at.join("names/sub/deeper/file"), "deep").expect("write");
    fs::hard_link(at.join("names/sub/deeper/file"), at.join("second-name")).expect("link");
    let fragmented = File::create(at.join("fragmented")).expect("create");
    for n in 0..EXTENTS {
        fragmented
            .write_all_at(&[n.to_le_bytes()[0] | 1; BLOCK], 2 * n * BLOCK as u64)
            .expect("write");
    }
    fs::write(at.join("attributes"), "content").expect("write");
    for n in 0..100 {
        let name = format!("user.attribute-{n}");
        let value = [b'v'; 100];
        rustix::fs::setxattr(at.join("attributes"), name, &value, rustix::fs::XattrFlags::empty())
            .expect("set");
    }
    std::os::unix::fs::symlink("names/sub", at.join("link")).expect("symlink");
    fs::write(at.join("untouched"), vec![7; 100_000]).expect("write");
}

/// A filled volume, and what Linux shows of it.
struct Source<'s> {
    image: Image<'s>,
    linux: Manifest,
}

impl<'s> Source<'s> {
    fn new(scratch: &'s Scratch, options: &[&str]) -> Self {
        let image = Image::sparse(scratch, "source.img", 512 << 20);
        Xfsprogs::installed().expect("needed").mkfs(&image, options).expect("mkfs");
        let mount = Mount::read_write(&image, scratch).expect("mount");
        fill(mount.path());
        mount.unmount().expect("unmount");
        let mount = Mount::read_only(&image, scratch).expect("mount");
        let linux = carried(kernel::manifest(mount.path()));
        mount.unmount().expect("unmount");
        Self { image, linux }
    }

    /// Overwrites the 512 bytes at `at` of a copy of the volume, and salvages that to a mounted
    /// volume. Returns the report, and what Linux shows of the copy.
    fn salvaged(&self, scratch: &Scratch, at: &[u64]) -> (Salvaged, Manifest) {
        let damaged = self.image.copy("damaged.img");
        let file = File::options().write(true).open(damaged.path()).expect("open");
        for &at in at {
            file.write_all_at(&[0xdb; 512], at).expect("overwrite");
        }
        let before = fs::metadata(damaged.path()).expect("stat").mtime();
        let target = Image::sparse(scratch, "target.img", 512 << 20);
        Xfsprogs::installed().expect("needed").mkfs(&target, &[]).expect("mkfs");
        let mount = Mount::read_write(&target, scratch).expect("mount");
        let report = Salvage::new().to_dir(damaged.path(), mount.path()).expect("salvage");
        assert_eq!(fs::metadata(damaged.path()).expect("stat").mtime(), before, "only read");
        let copied = carried(kernel::manifest(mount.path()));
        mount.unmount().expect("unmount");
        (report, copied)
    }

    fn volume(&self) -> Volume {
        Volume::open(self.image.path()).expect("open")
    }

    /// Returns the bytes of the blocks of a fork: of its extents, or of its tree.
    fn fork(&self, path: &str, fork: Fork, tree: bool) -> Vec<u64> {
        let volume = self.volume();
        let core = volume.fs().volume();
        let inode = volume.fs().inode(ino_of(&volume, path)).expect("inode");
        let mut blocks: Vec<FsBlock> = Vec::new();
        core.each_fork_part(&inode.core(), inode.ino(), fork, &mut |part| match part {
            ForkPart::TreeBlock(block) if tree => blocks.push(block),
            ForkPart::Extent(extent) if !tree => {
                let block = |n| FsBlock(extent.startblock.0 + n);
                blocks.extend((0..extent.blockcount.0).map(block));
            }
            _ => {}
        })
        .expect("an intact map");
        blocks.iter().map(|&block| core.geo().fsb_to_byte(block).expect("a block").0).collect()
    }
}

fn ino_of(volume: &Volume, path: &str) -> Ino {
    volume.fs().resolve(path.as_bytes(), Follow::No).expect(path).ino()
}

/// Asserts that all but `touched` came out as it was.
fn assert_rest(linux: &Manifest, copied: &Manifest, touched: &dyn Fn(&str) -> bool) {
    let rest = |manifest: &Manifest| {
        let mut manifest = manifest.clone();
        manifest.entries.retain(|path, _| {
            let path = String::from_utf8_lossy(path).into_owned();
            !touched(path.trim_start_matches('/')) && !path.contains("lost+found")
        });
        // The destination has lost+found, too.
        manifest.entries.entry(b"/".to_vec()).and_modify(|root| root.nlink = 0);
        manifest
    };
    let linux = rest(linux);
    assert!(!linux.entries.is_empty());
    linux.assert_same(&rest(copied), "what the damage did not touch");
}

fn get<'m>(manifest: &'m Manifest, path: &str) -> Option<&'m Entry> {
    let is_it = |key: &[u8]| String::from_utf8_lossy(key).trim_start_matches('/') == path;
    manifest.entries.iter().find(|(key, _)| is_it(key)).map(|(_, entry)| entry)
}

fn names(report: &Salvaged, path: &str) -> bool {
    report.damages.iter().any(|damage| damage.path.as_deref() == Some(Path::new(path)))
}

fn tools_are_here() -> bool {
    needs(&[Need::Xfsprogs, Need::Mount])
}

#[test]
fn a_healthy_volume_comes_out_whole() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-healthy");
    for options in [&[][..], &["-i", "size=1024"]] {
        let source = Source::new(&scratch, options);
        let (report, copied) = source.salvaged(&scratch, &[]);
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.unnamed, 0, "{report}");
        source.linux.assert_same(&copied, "the copy");
    }
}

#[test]
fn a_lost_superblock_and_a_lost_inode_btree_cost_nothing_that_has_a_name() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-headers");
    let source = Source::new(&scratch, &[]);
    let (report, copied) = source.salvaged(&scratch, &[0]);
    assert!(report.secondary_superblock.is_some() && !report.is_complete(), "{report}");
    source.linux.assert_same(&copied, "the copy");
    let volume = source.volume();
    let core = volume.fs().volume();
    let byte = |block| core.geo().agb_to_daddr(AgNumber(0), block).0 * 512;
    let root = core.agi(AgNumber(0)).expect("an AGI").root.get();
    for at in [byte(AgBlock(0)) + 2 * 512, byte(AgBlock(root))] {
        let (report, copied) = source.salvaged(&scratch, &[at]);
        let groups: Vec<_> = report.damages.iter().filter_map(|damage| damage.group).collect();
        assert_eq!(groups, [0], "{report}");
        source.linux.assert_same(&copied, "the copy");
    }
}

#[test]
fn files_of_a_lost_directory_block_are_in_lost_found() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-names");
    for options in [&[][..], &["-i", "size=1024"]] {
        let source = Source::new(&scratch, options);
        // The second block has neither "." nor "..".
        let blocks = source.fork("/names", Fork::Data, false);
        let (report, copied) = source.salvaged(&scratch, &blocks[1..2]);
        assert!(names(&report, "/names"), "{report}");
        assert_rest(&source.linux, &copied, &|path| path.starts_with("names/"));
        let mut lost: BTreeSet<String> = BTreeSet::new();
        for (path, entry) in &source.linux.entries {
            let path = String::from_utf8_lossy(path);
            let path = path.trim_start_matches('/');
            if path.starts_with("names/") {
                match get(&copied, path) {
                    Some(found) => assert_eq!(found, entry, "{path}"),
                    None => drop(
                        lost.insert(format!("{} {:?} {}", entry.digest, entry.mtime, entry.mode)),
                    ),
                }
            }
        }
        assert!(lost.len() > 20, "the block had names: {}", lost.len());
        for (path, entry) in &copied.entries {
            if String::from_utf8_lossy(path).contains("lost+found/ino.") {
                lost.remove(&format!("{} {:?} {}", entry.digest, entry.mtime, entry.mode));
            }
        }
        assert!(lost.is_empty(), "{lost:?}\n{report}");
        // A lost block behind the names costs none.
        let last = blocks.last().copied().into_iter().collect::<Vec<_>>();
        let (_, copied) = source.salvaged(&scratch, &last);
        source.linux.assert_same(&copied, "the copy");
    }
}

#[test]
fn a_lost_inode_is_named_and_a_lost_directory_leaves_its_files_in_lost_found() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-inodes");
    let source = Source::new(&scratch, &[]);
    let volume = source.volume();
    let byte = |path| {
        let ino = ino_of(&volume, path);
        volume.fs().volume().geo().ino_to_byte(ino).expect("an inode").0
    };
    let (report, copied) = source.salvaged(&scratch, &[byte("/untouched")]);
    assert!(names(&report, "/untouched"), "{report}");
    assert_eq!(report.damages.len(), 1, "{report}");
    assert_rest(&source.linux, &copied, &|path| path == "untouched" || path.is_empty());
    let (report, copied) = source.salvaged(&scratch, &[byte("/names/sub")]);
    assert!(names(&report, "/names/sub"), "{report}");
    assert_rest(&source.linux, &copied, &|path| path.starts_with("names"));
    let deeper = ino_of(&volume, "/names/sub/deeper");
    let (file, again) = (format!("lost+found/names/sub/ino.{deeper}/file"), "second-name");
    let digest = |path| get(&copied, path).map(|entry| (entry.digest, entry.nlink));
    assert_eq!(digest(&file), digest(again), "{report}");
    assert_eq!(digest(again).expect("there").1, 2, "one file with two names");
}

#[test]
fn a_lost_map_block_costs_its_range_and_a_lost_attribute_block_its_attributes() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-forks");
    let source = Source::new(&scratch, &[]);
    let tree = source.fork("/fragmented", Fork::Data, true);
    assert!(tree.len() > 2, "{tree:?}");
    let (report, copied) = source.salvaged(&scratch, &tree[1..2]);
    let ranges: Vec<_> = report.damages.iter().filter_map(|damage| damage.range.clone()).collect();
    let [range] = &ranges[..] else { panic!("{report}") };
    assert!(names(&report, "/fragmented"), "{report}");
    assert_rest(&source.linux, &copied, &|path| path == "fragmented");
    let (whole, part) = (get(&source.linux, "fragmented"), get(&copied, "fragmented"));
    let (whole, part) = (whole.expect("there"), part.expect("there"));
    let kept = |&&(start, _): &&(u64, u64)| !range.contains(&start);
    let kept: Vec<_> = whole.data.iter().filter(kept).copied().collect();
    assert!(kept.len() > 100 && kept.len() < whole.data.len());
    assert_eq!(part.data, kept, "all but {range:?}");
    assert_eq!((part.size, part.mtime), (whole.size, whole.mtime));
    let blocks = source.fork("/attributes", Fork::Attr, false);
    let (report, copied) = source.salvaged(&scratch, &blocks[1..2]);
    assert!(names(&report, "/attributes"), "{report}");
    assert_rest(&source.linux, &copied, &|path| path == "attributes");
    let (whole, part) = (get(&source.linux, "attributes"), get(&copied, "attributes"));
    let (whole, part) = (whole.expect("there"), part.expect("there"));
    assert_eq!((part.digest, part.mtime), (whole.digest, whole.mtime));
    assert!(part.xattrs.len() < whole.xattrs.len());
}

#[test]
fn a_damaged_journal_is_replayed_up_to_the_damage_and_the_report_says_so() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-journal");
    let source = Source::new(&scratch, &[]);
    let mount = Mount::read_write(&source.image, &scratch).expect("mount");
    for n in 0..3000 {
        let path = mount.path().join(format!("new-{n}"));
        fs::write(&path, "new").expect("write");
        if n % 50 == 0 {
            File::open(path).and_then(|file| file.sync_all()).expect("sync");
        }
    }
    mount.shutdown(true).expect("shut down");
    mount.unmount().expect("unmount");
    let volume = Volume::open(source.image.path()).expect("open");
    let geo = volume.fs().volume().geo();
    let start = geo.log_daddr().expect("an internal journal").0 * 512;
    let bytes = fs::read(source.image.path()).expect("read");
    let log = &bytes[usize::try_from(start).expect("small")..][..geo.logblocks as usize * 4096];
    let is_record = |sector: &[u8]| sector.starts_with(&[0xfe, 0xed, 0xba, 0xbe]);
    let lsn = |sector: &[u8], at: usize| u64::from_be_bytes(sector[at..at + 8].try_into().unwrap());
    let records = log.chunks(512).enumerate().filter(|(_, sector)| is_record(sector));
    let (_, newest) = records.clone().max_by_key(|(_, sector)| lsn(sector, 16)).expect("records");
    let tail = lsn(newest, 24);
    let records = records.filter(|(_, sector)| lsn(sector, 16) >= tail);
    let damage: Vec<u64> = records.map(|(n, _)| start + 512 * (n as u64 + 1)).collect();
    let is_new = |path: &str| path.starts_with("new-");
    // All records, and one in the middle.
    assert!(damage.len() > 40, "{}", damage.len());
    let middle = damage.len() / 2;
    for (damage, some) in [(&damage[..], false), (&damage[middle..=middle], true)] {
        let (report, copied) = source.salvaged(&scratch, damage);
        let reason = report.journal.as_deref().expect("a part was not replayed");
        assert!(!report.is_complete() && reason.contains("replayed"), "{report}");
        assert_rest(&source.linux, &copied, &|path| path.is_empty() || is_new(path));
        let path = |path: &[u8]| String::from_utf8_lossy(path).trim_start_matches('/').to_owned();
        let new = copied.entries.keys().filter(|key| is_new(&path(key))).count();
        assert_eq!(new > 0, some, "{new} new files\n{report}");
        assert!(new < 3000, "{report}");
    }
}

#[test]
fn an_archive_has_the_same_files_and_a_destination_that_is_not_empty_is_refused() {
    if !tools_are_here() {
        return;
    }
    let scratch = Scratch::new("salvage-tar");
    let source = Source::new(&scratch, &[]);
    let tar = scratch.path().join("saved.tar");
    let out = File::create(&tar).expect("create");
    let report = Salvage::new().to_tar(source.image.path(), out).expect("salvage");
    assert!(report.is_complete(), "{report}");
    let listed = tools::run(std::process::Command::new("tar").arg("-tf").arg(&tar)).expect("tar");
    assert_eq!(listed.lines().count(), source.linux.entries.len(), "{listed}");
    let refused = Salvage::new().to_dir(source.image.path(), scratch.path()).unwrap_err();
    assert_eq!(refused.kind(), xfskit::ErrorKind::AlreadyExists);
}
