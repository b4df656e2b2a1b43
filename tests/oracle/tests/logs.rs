//! Dirty logs that the kernel left: what xfskit shows, replaying in memory, is what the kernel
//! shows after its own recovery.

use xfskit_test_oracle::dirty::CRASHES;
use xfskit_test_oracle::{Mount, Need, Scratch, kernel, needs, ours};

/// One test per way to leave a log.
macro_rules! crashes {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                recover($name);
            }
        )*

        #[test]
        fn every_crash_has_its_test() {
            let tested = [$($name),*];
            assert!(CRASHES.iter().all(|crash| tested.contains(&crash.name)));
        }
    };
}

crashes! {
    corners_flushed: "corners-flushed",
    corners_cut: "corners-cut",
    corners_parent: "corners-parent",
    corners_1k: "corners-1k",
    corners_16k: "corners-16k",
    corners_dir_64k: "corners-dir-64k",
    corners_inode_2k: "corners-inode-2k",
    corners_bare: "corners-bare",
    corners_external: "corners-external",
    corners_external_4k: "corners-external-4k",
    corners_twice: "corners-twice",
    corners_frozen: "corners-frozen",
    corners_large_records: "corners-large-records",
    corners_small_records: "corners-small-records",
    nothing_but_a_file: "nothing-but-a-file",
    born_and_removed: "born-and-removed",
    born_and_removed_many_groups: "born-and-removed-many-groups",
    synced_then_changed: "synced-then-changed",
    synced_then_changed_parent: "synced-then-changed-parent",
    synced_then_cut: "synced-then-cut",
    open_but_removed: "open-but-removed",
    wrapped: "wrapped",
    wrapped_cut: "wrapped-cut",
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
