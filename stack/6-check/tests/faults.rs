//! What findings say, beyond the ids that `planted.rs` compares.

mod common;

use common::{Block, Image, check_all};

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
