//! Entries whose inode number is damaged: into that of a directory, which has two names then, or of
//! no inode.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_format::dir::{data, sf};
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_log::{Cleared, Log};
use xfskit_repair::{AcceptLoss, Plan, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{kept, verify};
use xfskit_units::{ByteOffset, Ino, LogBlock, Lsn};

use crate::common::{Block, Image, check_all, damage};

/// An entry of a directory.
#[derive(Clone, Debug)]
struct Found {
    block: Block,
    dir: Ino,
    /// Byte of the low half of its inode number in the structure.
    at: usize,
    name: String,
    ino: Ino,
    kind: FileType,
}

/// Returns the entries of directories in block form and in short form that name a directory, or an
/// inode with one link.
fn entries(image: &Image) -> Vec<Found> {
    let mut found = Vec::new();
    for block in image.metadata() {
        let bytes = &image.bytes[block.offset..block.offset + block.len];
        match &bytes[..4] {
            b"XDB3" => {
                let dir = Ino(u64::from_be_bytes(bytes[40..48].try_into().unwrap()));
                for entry in data::salvage(bytes, &image.geo) {
                    let at = usize::from(entry.offset) + 4;
                    found.push((block, dir, at, entry.name.to_vec(), entry.inumber));
                }
            }
            [b'I', b'N', ..] => found.extend(short_form(image, block)),
            _ => {}
        }
    }
    let is_dir = |ino| inode(image, ino).is_some_and(|(kind, _)| kind == FileType::Directory);
    let alone = found
        .into_iter()
        .filter(|(_, dir, _, name, _)| is_dir(*dir) && !matches!(&name[..], b"." | b".."));
    let with_kind = alone.filter_map(|(block, dir, at, name, ino)| {
        let (kind, nlink) = inode(image, ino)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let fits = kind == FileType::Directory || nlink == 1;
        fits.then_some(Found { block, dir, at, name, ino, kind })
    });
    with_kind.collect()
}

/// An entry: structure, directory, byte of the low half of the inode number, name, inode.
type Raw = (Block, Ino, usize, Vec<u8>, Ino);

/// Returns the entries of a directory in its inode.
fn short_form(image: &Image, block: Block) -> Vec<Raw> {
    let bytes = &image.bytes[block.offset..block.offset + block.len];
    let Some(inode) = Dinode::parse(bytes, &image.geo) else { return Vec::new() };
    if !inode.is_dir() || inode.format() != Some(Format::Local) {
        return Vec::new();
    }
    let dir = Ino(u64::from_be_bytes(bytes[152..160].try_into().unwrap()));
    let mut at = FORK + 6;
    let mut found = Vec::new();
    for entry in sf::Sf::parse(&bytes[FORK..], &image.geo).unwrap().entries() {
        // Length, offset, name, type.
        at += 3 + entry.name.len() + 1;
        found.push((block, dir, at, entry.name.to_vec(), entry.inumber));
        at += 4;
    }
    found
}

/// Byte of the data fork in an inode.
const FORK: usize = 176;

/// Returns type and links of an inode in use.
fn inode(image: &Image, ino: Ino) -> Option<(FileType, u32)> {
    let at = usize::try_from(image.geo.ino_to_byte(ino)?.0).unwrap();
    let inode = Dinode::parse(&image.bytes[at..at + image.geo.inodesize()], &image.geo)?;
    Some((inode.file_type()?, inode.nlink()))
}

/// Makes entries name other inodes, repairs, verifies, takes it back; returns the plan.
fn repaired(image: &Image, changes: &[(&Found, Ino)], accepted: AcceptLoss) -> Plan {
    let overlay = image.copy();
    for (entry, ino) in changes {
        damage(&overlay, entry.block, |bytes| {
            let low = u32::try_from(ino.0).unwrap();
            bytes[entry.at..entry.at + 4].copy_from_slice(&low.to_be_bytes());
        });
    }
    repaired_overlay(image, &overlay, accepted)
}

/// Repairs what was damaged on `overlay`, verifies, takes it back; returns the plan.
fn repaired_overlay(image: &Image, overlay: &OverlayDevice, accepted: AcceptLoss) -> Plan {
    let mut bytes = vec![0; image.bytes.len()];
    overlay.read_at(ByteOffset(0), &mut bytes).unwrap();
    assert!(bytes != image.bytes);
    let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
    assert!(!check_all(&*dev).0.clean());
    let prepared = Repair::new().accept_loss(accepted).prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{:#?}\n{:#?}", prepared.left(), prepared.plan());
    let scratch = Scratch::new("repair-names");
    let path = scratch.path().join("undo");
    let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
    prepared.commit(&*dev, Some(&mut file)).unwrap();
    verify::device(&*dev).unwrap_or_else(|why| panic!("{why}: {:#?}", prepared.plan()));
    undo(&path, &*dev).unwrap();
    let mut after = vec![0; bytes.len()];
    dev.read_at(ByteOffset(0), &mut after).unwrap();
    assert!(after == bytes, "undone");
    prepared.plan().clone()
}

/// Returns the first entry that `fits` accepts.
fn first(entries: &[Found], fits: impl Fn(&Found) -> bool) -> &Found {
    entries.iter().find(|entry| fits(entry)).expect("an entry")
}

fn put_back(entry: &Found) -> String {
    format!("put inode {} back as {:?} of directory {}", entry.ino, entry.name, entry.dir)
}

#[test]
fn a_file_whose_entry_names_a_directory_gets_its_name_back() {
    let image = Image::kept("v5");
    let entries = entries(&image);
    let elsewhere =
        |file: &Found| entries.iter().find(|e| e.kind == FileType::Directory && e.ino != file.dir);
    let file = first(&entries, |e| e.kind == FileType::Regular && elsewhere(e).is_some());
    let other = elsewhere(file).expect("another directory");
    // Another directory, its own, and the one above all.
    for dir in [other.ino, file.dir, image.geo.rootino] {
        let plan = repaired(&image, &[(file, dir)], AcceptLoss::NONE);
        assert!(plan.step(&format!("names.{dir}")).is_some(), "{plan:#?}");
        let step = plan.step(&format!("orphan.{}", file.ino)).unwrap();
        assert_eq!(step.what, put_back(file));
    }
}

#[test]
fn an_inode_whose_entry_names_a_free_inode_gets_its_name_back() {
    let image = Image::kept("v5");
    let entries = entries(&image);
    let free = (0..1 << 20).map(Ino).find(|ino| {
        let at = image.geo.ino_to_byte(*ino).map(|at| usize::try_from(at.0).unwrap());
        at.is_some_and(|at| image.bytes[at..].starts_with(b"IN")) && inode(&image, *ino).is_none()
    });
    for kind in [FileType::Regular, FileType::Directory] {
        let entry = first(&entries, |entry| entry.kind == kind);
        let plan = repaired(&image, &[(entry, free.unwrap())], AcceptLoss::NONE);
        let step = plan.step(&format!("orphan.{}", entry.ino)).unwrap();
        assert_eq!(step.what, put_back(entry));
    }
}

#[test]
fn two_names_in_one_directory_are_told_apart_by_nothing_and_that_is_a_loss() {
    let image = Image::kept("v5");
    let entries = entries(&image);
    let is_dir = |entry: &Found| entry.kind == FileType::Directory;
    let pair = entries.iter().filter(|e| is_dir(e)).find_map(|one| {
        let beside = |other: &&Found| is_dir(other) && other.dir == one.dir && other.ino != one.ino;
        Some((one, entries.iter().find(beside)?))
    });
    let (one, other) = pair.expect("two directories in one");
    let plan = repaired(&image, &[(one, other.ino)], AcceptLoss::ALL);
    assert_eq!(plan.losses().count(), 1, "{plan:#?}");
    assert!(plan.step(&format!("orphan.{}", one.ino)).unwrap().what.contains("back as"));
}

#[test]
fn a_directory_that_only_names_itself_goes_to_lost_found_with_type_and_date() {
    let image = Image::kept("v5");
    let entries = entries(&image);
    let inside = first(&entries, |file| {
        file.kind == FileType::Regular && entries.iter().any(|entry| entry.ino == file.dir)
    });
    let above = first(&entries, |entry| entry.ino == inside.dir);
    let changes = [(inside, inside.dir), (above, inside.ino)];
    let plan = repaired(&image, &changes, AcceptLoss::ALL);
    let step = plan.step(&format!("orphan.{}", inside.dir)).unwrap();
    let name = format!("name inode {0} lost+found/directory.{0}.20", inside.dir);
    assert!(step.what.starts_with(&name), "{}", step.what);
}

/// Overwrites the journal, which has the blocks as they were.
pub(crate) fn forget_history(image: &Image, overlay: &OverlayDevice) {
    let start = image.geo.log_daddr().unwrap();
    let head = Log::open(overlay, start, &image.geo).unwrap().head();
    let cleared = Cleared::new(&image.geo, Lsn::new(head.cycle() + 1, LogBlock(0)));
    for n in 0..image.geo.log_bbs() {
        let mut block = [0; 512];
        cleared.fill(LogBlock(n), &mut block);
        overlay.write_at(start.saturating_add(n.into()).byte_offset(), &block).unwrap();
    }
}

/// A slash in the name of a directory in a block, and in an inode: the entry keeps its inode.
#[test]
fn an_entry_whose_name_is_impossible_gets_another_one() {
    let image = Image::kept("v5");
    let entries = entries(&image);
    for in_inode in [false, true] {
        let entry = first(&entries, |entry| {
            image.bytes[entry.block.offset..].starts_with(b"IN") == in_inode && entry.name.len() > 1
        });
        let overlay = image.copy();
        forget_history(&image, &overlay);
        // Before the inode number in an inode is the type, in a block the name is behind.
        let name = if in_inode { entry.at - 1 - entry.name.len() } else { entry.at + 5 };
        damage(&overlay, entry.block, |bytes| {
            assert_eq!(&bytes[name..name + entry.name.len()], entry.name.as_bytes());
            bytes[name] = b'/';
        });
        let plan = repaired_overlay(&image, &overlay, AcceptLoss::NONE);
        let becomes = format!(
            "{:?} becomes {:?}",
            format!("/{}", &entry.name[1..]),
            format!("_{}", &entry.name[1..])
        );
        let told = plan.steps.iter().flat_map(|step| &step.evidence);
        assert!(told.clone().any(|words| words.contains(&becomes)), "{becomes}: {plan:#?}");
    }
}
