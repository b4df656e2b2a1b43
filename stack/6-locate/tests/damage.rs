//! Owners on damaged volumes: what can be read is found, and the rest is named.

use xfskit_format::agbtree::Tree;
use xfskit_locate::{Found, Owner};
use xfskit_units::{AgNumber, ByteOffset, Ino};

use crate::common::{all, damage, device, open, verify_tiling};

/// Returns the ids of the checks that failed.
fn ids(found: &Found) -> Vec<&'static str> {
    let id = |error: &xfskit_core::Error| error.corruption().map(|fault| fault.check.0);
    found.warnings.first.iter().filter_map(id).collect()
}

#[test]
fn a_damaged_rmapbt_is_replaced_by_the_scan() {
    let dev = device("v5");
    let sound = open(&dev);
    assert!(Tree::Rmap.exists(sound.geo()));
    let expected = all(&sound, true).owned;
    let root = sound.agf(AgNumber(0)).unwrap().rmaproot.get();
    let start = sound.geo().agb_to_daddr(AgNumber(0), xfskit_units::AgBlock(root));
    damage(&dev, ByteOffset(start.byte_offset().0 + 100));
    let volume = open(&dev);
    let found = all(&volume, false);
    assert!(ids(&found).contains(&"rmapbt.crc"), "{:?}", found.warnings);
    verify_tiling(&volume, &found);
    // Blocks of the rmapbt below its root cannot be found.
    let is_known = |owner: &Owner| !matches!(owner, Owner::Unknown);
    for (expected, owned) in expected.iter().flatten().zip(found.owned.iter().flatten()) {
        if expected.owner == Owner::Tree(Tree::Rmap) {
            break;
        }
        assert!(is_known(&owned.owner), "{owned:?}");
        assert_eq!(expected.owner, owned.owner);
    }
}

#[test]
fn blocks_of_a_damaged_inode_are_unknown() {
    let dev = device("v4");
    let sound = open(&dev);
    let expected = all(&sound, false).owned;
    let file = expected.iter().flatten().find_map(|run| run.owner.ino());
    let ino: Ino = file.unwrap();
    // Its magic.
    damage(&dev, sound.geo().ino_to_byte(ino).unwrap());
    let volume = open(&dev);
    let found = all(&volume, false);
    assert_eq!(ids(&found), ["inode.magic"]);
    verify_tiling(&volume, &found);
    let owned = |found: &[Vec<xfskit_locate::Owned>], ino: Ino| {
        let mine = found.iter().flatten().filter(|run| run.owner.ino() == Some(ino));
        mine.map(|run| run.len.0).sum::<u32>()
    };
    assert!(owned(&expected, ino) > 0);
    assert_eq!(owned(&found.owned, ino), 0);
    let runs = found.owned.iter().flatten();
    let unknown = runs.clone().filter(|run| run.owner == Owner::Unknown);
    assert!(unknown.map(|run| run.len.0).sum::<u32>() > 0);
    assert!(runs.clone().all(|run| run.owner != Owner::Leaked), "a leak is claimed");
}

#[test]
fn damaged_headers_and_trees_hide_only_what_they_lead_to() {
    // The sector or tree that is damaged.
    for header in 1..4 {
        let dev = device("v5");
        let sound = open(&dev);
        let start = sound.geo().ag_header_daddr(AgNumber(1), header).byte_offset();
        damage(&dev, ByteOffset(start.0 + 40));
        let volume = open(&dev);
        let found = all(&volume, true);
        assert!(!found.warnings.is_empty(), "header {header}");
        verify_tiling(&volume, &found);
        let other = &found.owned[0];
        assert!(other.iter().any(|run| run.owner == Owner::Free), "header {header}");
        assert!(other.iter().all(|run| run.owner != Owner::Leaked), "header {header}");
    }
    for tree in [Tree::Bno, Tree::Cnt, Tree::Ino, Tree::Fino, Tree::Refcount] {
        let dev = device("v5");
        let sound = open(&dev);
        let expected = all(&sound, true).owned;
        let is_tree = |run: &&xfskit_locate::Owned| run.owner == Owner::Tree(tree);
        let Some(block) = expected.iter().flatten().find(is_tree) else { continue };
        let start = sound.geo().agb_to_daddr(block.agno, block.start).byte_offset();
        damage(&dev, ByteOffset(start.0 + 4000));
        let volume = open(&dev);
        let found = all(&volume, true);
        let crc = format!("{}.crc", tree.ids().tree);
        assert!(ids(&found).contains(&crc.as_str()), "{:?}", found.warnings);
        verify_tiling(&volume, &found);
        assert!(found.owned.iter().flatten().all(|run| run.owner != Owner::Leaked), "{tree:?}");
    }
}
