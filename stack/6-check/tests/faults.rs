//! What findings say, beyond the ids that `planted.rs` compares.

use crate::common::{Block, Image, check_all, damage, ids};
use xfskit_format::corruption::Severity;

fn free_inode(image: &Image) -> Block {
    image.inode(|i| i.mode() == 0)
}

/// A wrong level of a root contradicts every child; the root is named once.
#[test]
fn a_wrong_level_of_a_root_is_one_finding() {
    let image = Image::kept("v5");
    let dev = image.damaged(image.da(0x3ebe, 0), |node| {
        assert_eq!(node[58..60], [0, 1], "a node above leaves");
        node[59] = 2;
    });
    let findings: Vec<String> = check_all(&dev).1.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].contains("level is 2, expected 1 [da.node.level]"), "{findings:#?}");
}

#[test]
fn what_is_no_field_is_told_as_a_sentence() {
    let image = Image::kept("v5");
    let texts = |block: Block, at: usize, new: &[u8]| {
        let dev = image.damaged(block, |bytes| bytes[at..at + new.len()].copy_from_slice(new));
        let findings = check_all(&dev).1;
        findings.iter().map(|finding| finding.corruption.to_string()).collect::<Vec<_>>().join("\n")
    };
    let blocks = texts(free_inode(&image), 64, &[0, 0, 0, 0, 0, 0, 0, 1]);
    let sentence = "nblocks is 1, expected 0 in a free inode [inode.nblocks.free]";
    assert!(blocks.ends_with(sentence), "{blocks}");
}

/// All versions of `xfs_repair -n` print a complaint of such a copy and exit 0.
#[test]
fn shared_vn_is_an_error_in_a_copy_as_in_the_primary() {
    let image = Image::kept("v5");
    for agno in [0, 1] {
        let (_, findings) = check_all(&image.damaged(image.header(agno, 0), |sb| sb[179] = 1));
        let found: Vec<_> = findings.iter().map(|f| (f.corruption.check.0, f.severity)).collect();
        assert_eq!(found, [("sb.shared_vn", Severity::Error)], "group {agno}");
    }
}

/// A volume cannot be mounted without its root. The loss is named where no record of an inode btree
/// lists the root, too.
#[test]
fn a_root_that_is_lost_with_the_headers_of_its_group_is_named() {
    let image = Image::kept("v5");
    let root = image.inode(|inode| inode.mode() & 0o170_000 == 0o040_000);
    let damaged = |change: &dyn Fn(&mut [u8])| {
        let dev = image.copy();
        for index in 1..4 {
            damage(&dev, image.header(0, index), |sector| sector.fill(0));
        }
        damage(&dev, root, |inode| change(inode));
        let findings = check_all(&dev).1;
        let of_root = findings.iter().filter(|f| f.corruption.check.0 == "sb.rootino");
        of_root.map(|f| (f.severity, f.corruption.to_string())).collect::<Vec<_>>()
    };
    assert!(damaged(&|_| ()).is_empty(), "a sound root");
    let losses: [fn(&mut [u8]); 2] = [|inode| inode.fill(0), |inode| inode[2..4].fill(0)];
    for loss in losses {
        let named = damaged(&loss);
        let [(severity, text)] = &named[..] else { panic!("one finding: {named:#?}") };
        assert_eq!(*severity, Severity::Fatal);
        assert!(text.contains("is damaged, or free"), "{text}");
    }
}

/// Linux leaves it lower than it could be after a split, and sets `holes` then.
#[test]
fn firstused_below_the_names_is_found_where_there_are_no_holes() {
    let image = Image::kept("v5");
    let leaf = image.da(0x3bee, 0);
    for holes in [0, 1] {
        let dev = image.damaged(leaf, |bytes| {
            let first = u16::from_be_bytes([bytes[60], bytes[61]]);
            bytes[60..62].copy_from_slice(&(first - 4).to_be_bytes());
            bytes[62] = holes;
        });
        let found = ids(&dev);
        assert_eq!(found.contains("attr.leaf.firstused"), holes == 0, "{found:?}");
    }
}

#[test]
fn format_0_of_attributes_is_found_in_an_inode_in_use() {
    let image = Image::kept("v5");
    let file = image.inode(|inode| inode.is_regular() && inode.forkoff() == 0);
    let dev = image.damaged(file, |bytes| bytes[83] = 0);
    assert!(ids(&dev).contains("inode.aformat.nofork"));
}
