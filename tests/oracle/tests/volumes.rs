//! Volumes that the kernel filled, over the matrix of `mkfs.xfs` options: xfskit shows what the
//! mounted kernel shows, entry by entry, and its check finds them as clean as xfs_repair does.

use xfskit_test_oracle::{Mount, Need, Scratch, kernel, long, matrix, needs, ours};

/// One test per volume, so that they run side by side and fail by name.
macro_rules! volumes {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                judge($name);
            }
        )*

        #[test]
        fn every_volume_of_the_matrix_has_its_test() {
            let tested = [$($name),*];
            assert!(matrix::CASES.iter().all(|case| tested.contains(&case.name)));
        }
    };
}

volumes! {
    default: "default",
    default_newer: "default-newer",
    block_1k: "block-1k",
    block_2k: "block-2k",
    block_8k: "block-8k",
    block_16k: "block-16k",
    block_32k: "block-32k",
    block_64k: "block-64k",
    dir_block_8k: "dir-block-8k",
    dir_block_16k: "dir-block-16k",
    dir_block_64k: "dir-block-64k",
    dir_block_64k_of_1k: "dir-block-64k-of-1k",
    inode_1k: "inode-1k",
    inode_2k: "inode-2k",
    sector_4k: "sector-4k",
    sector_4k_newer: "sector-4k-newer",
    bare: "bare",
    no_finobt: "no-finobt",
    no_inobtcount: "no-inobtcount",
    no_bigtime: "no-bigtime",
    no_sparse: "no-sparse",
    no_reflink: "no-reflink",
    rmapbt: "rmapbt",
    rmapbt_no_reflink: "rmapbt-no-reflink",
    nrext64: "nrext64",
    no_rmapbt: "no-rmapbt",
    no_nrext64: "no-nrext64",
    parent: "parent",
    parent_block_1k: "parent-block-1k",
    exchange: "exchange",
    new_uuid: "new-uuid",
    new_uuid_newer: "new-uuid-newer",
    stripe: "stripe",
    stripe_odd: "stripe-odd",
    many_groups: "many-groups",
    inherited: "inherited",
    external_log: "external-log",
    external_log_newer: "external-log-newer",
    huge: "huge",
}

fn judge(name: &str) {
    let case = matrix::named(name);
    if case.long && !long() || !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("volumes");
    let Some(image) = case.filled(&scratch) else { return };
    for tools in case.judges() {
        tools.repair_n(&image, &[]).expect("clean to xfs_repair");
    }
    let mount = Mount::read_only(&image, &scratch).expect("mount");
    let linux = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    let differences = ours::differences(&image, &linux);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let lookups = ours::lookups(&image, &linux);
    assert!(lookups.is_empty(), "{}", lookups.join("\n"));
    let verdict = ours::verdict(&image);
    assert!(verdict.errors.is_empty(), "check of a clean volume: {verdict:#?}");
}
