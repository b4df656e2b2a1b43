//! What the journal has of damaged blocks: they are given back, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfskit_format::da_edit::Identity;
use xfskit_format::dir::data::{self, Data};
use xfskit_format::dir::{Entry, block_edit};
use xfskit_format::inode::Dinode;
use xfskit_repair::{Plan, Repair};
use xfskit_test_support::kept;
use xfskit_units::{Daddr, Ino};

use crate::common::{Block, Image};
use crate::survivors::{Before, Outcome, content, with};

/// `xfs_repair -n` and the kernel see every repaired volume of this number.
const VERIFIED: usize = 10;
/// Every so many structures of a kind are damaged.
const EVERY: usize = 7;

/// Returns the kind of a structure of a file; `None` for those of groups, and free inodes.
fn kind(image: &Image, block: Block) -> Option<&'static str> {
    let bytes = &image.bytes[block.offset..block.offset + block.len];
    Some(match (&bytes[..4], &bytes[8..10]) {
        ([b'I', b'N', ..], _) => {
            let inode = Dinode::parse(bytes, &image.geo).unwrap();
            if inode.is_free() {
                return None;
            }
            "inode"
        }
        (b"XDB3" | b"XDD3", _) => "directory data",
        (b"BMA3", _) => "map",
        (b"XSLM", _) => "link",
        ([b'X' | b'A' | b'I' | b'F' | b'R', ..], _) => return None,
        (_, [0x3b, 0xee]) => "attribute leaf",
        _ => "hash",
    })
}

/// Returns true if a step gives something back.
fn gives_back(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| step.id.starts_with("copy."))
}

/// Damages structures of files of the kept image `name` one by one. Returns how many of each kind
/// were given back, of how many.
fn given_back(name: &str, damage: impl Fn(&mut [u8])) -> BTreeMap<&'static str, (usize, usize)> {
    let before = Before::kept(name);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut verified = 0;
    for block in before.image.metadata() {
        let Some(kind) = kind(&before.image, block) else { continue };
        let n = seen.entry(kind).or_default();
        *n += 1;
        if !(*n - 1).is_multiple_of(EVERY) {
            continue;
        }
        let what = format!("{name}: {kind} at {}", block.offset);
        let range = block.offset..block.offset + block.len;
        let damaged = with(&before.image.bytes, |all| damage(&mut all[range]));
        verified += 1;
        let is_verified = verified % VERIFIED == 0;
        let count = counts.entry(kind).or_default();
        count.1 += 1;
        match before.outcome(&damaged, &what, false) {
            Outcome::Repaired(plan) if gives_back(&plan) => {
                assert_eq!(plan.losses().count(), 0, "{what}: {plan:#?}");
                before.restored(&damaged, &what, is_verified);
                count.0 += 1;
            }
            Outcome::Repaired(_) => {}
            outcome => panic!("{what}: {outcome:?}"),
        }
    }
    println!("{name}: {counts:?}");
    counts
}

/// The journals of the kept images hold all that Linux did on them.
#[test]
fn structures_of_files_that_are_lost_are_given_back_from_the_journal() {
    for name in ["v5", "v5-plain", "v5-1k"] {
        let counts = given_back(name, |block| block.fill(0));
        for (kind, (given, all)) in counts {
            assert!(given * 2 > all, "{name}, {kind}: {given} of {all}");
        }
    }
}

/// A flipped bit in a part that is logged: the rest of the block and its checksum are there.
#[test]
fn structures_of_files_with_a_flipped_bit_are_given_back_from_the_journal() {
    let counts = given_back("v5", |block| block[60] ^= 0x10);
    for (kind, (given, all)) in counts {
        assert!(given * 2 > all, "{kind}: {given} of {all}");
    }
}

/// A sound directory without an entry that it had: the journal has it.
#[test]
fn an_inode_without_a_name_gets_the_one_that_the_journal_shows() {
    let before = Before::kept("v5");
    let image = &before.image;
    let (block, ino) = (0..)
        .map(|n| image.magic(b"XDB3", n))
        .find_map(|block| {
            Some((block, entries(image, block).iter().find(|entry| is_it(entry))?.inumber))
        })
        .unwrap();
    let whole = &image.bytes[block.offset..block.offset + block.len];
    let owner = Ino(u64::from_be_bytes(whole[40..48].try_into().unwrap()));
    let mut others = entries(image, block);
    others.retain(|entry| !is_it(entry));
    let mut without = vec![0; block.len];
    let id = Identity { owner, daddr: Daddr((block.offset / 512) as u64) };
    block_edit::build(&mut without, &image.geo, id, &others);
    xfskit_crc::update(&mut without, data::CRC_OFFSET);
    let damaged = with(&image.bytes, |all| {
        all[block.offset..block.offset + block.len].copy_from_slice(&without);
    });
    let Outcome::Repaired(plan) = before.restored(&damaged, "an entry", true) else {
        panic!("repaired")
    };
    let step = plan.step(&format!("orphan.{ino}")).unwrap();
    assert_eq!(step.what, format!("put inode {ino} back as \"file7\" of directory {owner}"));
    assert!(step.evidence[1].contains("of the journal"), "{step}");
}

fn is_it(entry: &Entry<'_>) -> bool {
    entry.name == b"file7"
}

fn entries(image: &Image, block: Block) -> Vec<Entry<'_>> {
    let bytes = &image.bytes[block.offset..block.offset + block.len];
    Data::parse(bytes, &image.geo).unwrap().entries().collect()
}

/// A replay needs the inodes of its items: those that are lost on the disk are given back before.
#[test]
fn a_dirty_journal_is_replayed_though_its_inodes_are_lost() {
    for name in ["v5-dirty", "small-dirty"] {
        let dirty = Image::kept(name);
        let dev = Arc::new(kept::memory(&dirty.bytes));
        Repair::new().prepare(Arc::clone(&dev) as _).unwrap().commit(&*dev, None).unwrap();
        let before = Before::of(Image::of(content(&*dev)));
        let inodes = dirty
            .metadata()
            .into_iter()
            .filter(|block| dirty.bytes[block.offset..].starts_with(b"IN"));
        let (mut given, mut all) = (0, 0);
        for block in inodes.step_by(EVERY) {
            let what = format!("{name}: inode at {}", block.offset);
            let damaged = with(&dirty.bytes, |all| {
                all[block.offset..block.offset + block.len].fill(0);
            });
            let dev = Arc::new(kept::memory(&damaged));
            let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
            all += 1;
            if prepared.is_clean() && !prepared.loses_too_much() && !prepared.needs_zero_log() {
                prepared.commit(&*dev, None).unwrap();
                before.verify_survivors(dev, &before.image.bytes, &what);
                given += usize::from(gives_back(prepared.plan()));
            }
        }
        println!("{name}: {given} of {all} given back");
        assert!(given > 0, "{name}");
    }
}
