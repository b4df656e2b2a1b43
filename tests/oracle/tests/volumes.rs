//! Volumes that the kernel filled, over the matrix of `mkfs.xfs` options: xfskit shows the tree
//! that the mounted kernel shows, entry by entry, and its checker, like xfs_repair, has no
//! findings.

use xfskit_test_support::{Mount, Need, Scratch, kernel, long, matrix, needs, ours};

volumes! {
    xfskit_shows_the_kernels_tree_on_default: "default",
    xfskit_shows_the_kernels_tree_on_default_newer: "default-newer",
    xfskit_shows_the_kernels_tree_on_block_1k: "block-1k",
    xfskit_shows_the_kernels_tree_on_block_2k: "block-2k",
    xfskit_shows_the_kernels_tree_on_block_8k: "block-8k",
    xfskit_shows_the_kernels_tree_on_block_16k: "block-16k",
    xfskit_shows_the_kernels_tree_on_block_32k: "block-32k",
    xfskit_shows_the_kernels_tree_on_block_64k: "block-64k",
    xfskit_shows_the_kernels_tree_on_dir_block_8k: "dir-block-8k",
    xfskit_shows_the_kernels_tree_on_dir_block_16k: "dir-block-16k",
    xfskit_shows_the_kernels_tree_on_dir_block_64k: "dir-block-64k",
    xfskit_shows_the_kernels_tree_on_dir_block_64k_of_1k: "dir-block-64k-of-1k",
    xfskit_shows_the_kernels_tree_on_inode_1k: "inode-1k",
    xfskit_shows_the_kernels_tree_on_inode_2k: "inode-2k",
    xfskit_shows_the_kernels_tree_on_sector_4k: "sector-4k",
    xfskit_shows_the_kernels_tree_on_sector_4k_newer: "sector-4k-newer",
    xfskit_shows_the_kernels_tree_on_bare: "bare",
    xfskit_shows_the_kernels_tree_on_no_finobt: "no-finobt",
    xfskit_shows_the_kernels_tree_on_no_inobtcount: "no-inobtcount",
    xfskit_shows_the_kernels_tree_on_no_bigtime: "no-bigtime",
    xfskit_shows_the_kernels_tree_on_no_sparse: "no-sparse",
    xfskit_shows_the_kernels_tree_on_no_reflink: "no-reflink",
    xfskit_shows_the_kernels_tree_on_rmapbt: "rmapbt",
    xfskit_shows_the_kernels_tree_on_rmapbt_no_reflink: "rmapbt-no-reflink",
    xfskit_shows_the_kernels_tree_on_nrext64: "nrext64",
    xfskit_shows_the_kernels_tree_on_no_rmapbt: "no-rmapbt",
    xfskit_shows_the_kernels_tree_on_no_nrext64: "no-nrext64",
    xfskit_shows_the_kernels_tree_on_parent: "parent",
    xfskit_shows_the_kernels_tree_on_parent_block_1k: "parent-block-1k",
    xfskit_shows_the_kernels_tree_on_exchange: "exchange",
    xfskit_shows_the_kernels_tree_on_new_uuid: "new-uuid",
    xfskit_shows_the_kernels_tree_on_new_uuid_newer: "new-uuid-newer",
    xfskit_shows_the_kernels_tree_on_stripe: "stripe",
    xfskit_shows_the_kernels_tree_on_stripe_odd: "stripe-odd",
    xfskit_shows_the_kernels_tree_on_many_groups: "many-groups",
    xfskit_shows_the_kernels_tree_on_inherited: "inherited",
    xfskit_shows_the_kernels_tree_on_external_log: "external-log",
    xfskit_shows_the_kernels_tree_on_external_log_newer: "external-log-newer",
    xfskit_shows_the_kernels_tree_on_huge: "huge",
}

#[test]
fn every_volume_of_the_matrix_has_a_test() {
    assert!(matrix::CASES.iter().all(|case| TESTED.contains(&case.name)));
}

fn verify_volume(name: &str) {
    let case = matrix::named(name);
    if case.long && !long() || !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("volumes");
    let Some(image) = case.filled(&scratch) else { return };
    for tools in case.repair_tools() {
        tools.repair_n(&image, &[]).expect("clean to xfs_repair");
    }
    let mount = Mount::read_only(&image, &scratch).expect("mount");
    let linux = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    let differences = ours::differences(&image, &linux);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let lookups = ours::lookups(&image, &linux);
    assert!(lookups.is_empty(), "{}", lookups.join("\n"));
    let report = ours::check(&image);
    assert!(report.errors.is_empty(), "check of a clean volume: {report:#?}");
}
