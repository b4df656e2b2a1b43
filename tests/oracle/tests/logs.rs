//! Dirty logs of the kernel: the tree that xfskit shows after replay in memory is the tree that the
//! kernel shows after its own recovery.

use xfskit_test_support::dirty::CRASHES;
use xfskit_test_support::{Mount, Need, Scratch, kernel, needs, ours};

/// Makes one test for each way to leave a dirty log.
macro_rules! crashes {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                recover($name);
            }
        )*

        #[test]
        fn every_crash_has_a_test() {
            let tested = [$($name),*];
            assert!(CRASHES.iter().all(|crash| tested.contains(&crash.name)));
        }
    };
}

crashes! {
    replay_in_memory_matches_the_kernel_after_corners_flushed: "corners-flushed",
    replay_in_memory_matches_the_kernel_after_corners_cut: "corners-cut",
    replay_in_memory_matches_the_kernel_after_corners_parent: "corners-parent",
    replay_in_memory_matches_the_kernel_after_corners_1k: "corners-1k",
    replay_in_memory_matches_the_kernel_after_corners_16k: "corners-16k",
    replay_in_memory_matches_the_kernel_after_corners_dir_64k: "corners-dir-64k",
    replay_in_memory_matches_the_kernel_after_corners_inode_2k: "corners-inode-2k",
    replay_in_memory_matches_the_kernel_after_corners_bare: "corners-bare",
    replay_in_memory_matches_the_kernel_after_corners_external: "corners-external",
    replay_in_memory_matches_the_kernel_after_corners_external_4k: "corners-external-4k",
    replay_in_memory_matches_the_kernel_after_corners_twice: "corners-twice",
    replay_in_memory_matches_the_kernel_after_corners_frozen: "corners-frozen",
    replay_in_memory_matches_the_kernel_after_corners_large_records: "corners-large-records",
    replay_in_memory_matches_the_kernel_after_corners_small_records: "corners-small-records",
    replay_in_memory_matches_the_kernel_after_nothing_but_a_file: "nothing-but-a-file",
    replay_in_memory_matches_the_kernel_after_created_and_removed: "created-and-removed",
    replay_in_memory_matches_the_kernel_after_created_and_removed_many_groups: "created-and-removed-many-groups",
    replay_in_memory_matches_the_kernel_after_synced_then_changed: "synced-then-changed",
    replay_in_memory_matches_the_kernel_after_synced_then_changed_parent: "synced-then-changed-parent",
    replay_in_memory_matches_the_kernel_after_synced_then_cut: "synced-then-cut",
    replay_in_memory_matches_the_kernel_after_open_but_removed: "open-but-removed",
    replay_in_memory_matches_the_kernel_after_wrapped: "wrapped",
    replay_in_memory_matches_the_kernel_after_wrapped_cut: "wrapped-cut",
    replay_in_memory_matches_the_kernel_after_shrunk_and_labelled: "shrunk-and-labelled",
}

fn recover(name: &str) {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("logs");
    let crash = CRASHES.iter().find(|crash| crash.name == name).expect("a known crash");
    let Some((image, recovered)) = crash.leave_recoverable(&scratch) else { return };
    let mount = Mount::read_only(&recovered, &scratch).expect("mount");
    let linux = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    let differences = ours::differences(&image, &linux);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
