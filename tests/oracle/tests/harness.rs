//! The harness tests itself first: with Linux on both sides there must be no difference.

use xfskit_test_support::trees::{self, Shape};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, kernel, needs};

#[test]
fn the_tree_of_all_corner_cases_survives_a_remount_and_xfs_repair_finds_nothing() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for tools in Xfsprogs::all() {
        let scratch = Scratch::new("harness");
        let image = Image::sparse(&scratch, "a.img", 1 << 30);
        tools.mkfs(&image, &[]).unwrap();
        let mount = Mount::read_write(&image, &scratch).unwrap();
        trees::corners(mount.path(), &Shape { tall: true, ..Shape::DEFAULT }).unwrap();
        mount.unmount().unwrap();
        for tools in Xfsprogs::all() {
            tools.repair_n(&image, &[]).unwrap();
        }
        let mount = Mount::read_only(&image, &scratch).unwrap();
        let once = kernel::manifest(mount.path());
        mount.unmount().unwrap();
        assert!(once.entries.len() > 30_000, "{} entries", once.entries.len());
        let copy = image.copy("copy.img");
        let mount = Mount::read_only(&copy, &scratch).unwrap();
        once.assert_same(&kernel::manifest(mount.path()), "the same volume, copied");
        mount.unmount().unwrap();
        let mount = Mount::read_write(&image, &scratch).unwrap();
        trees::empty(mount.path()).unwrap();
        mount.unmount().unwrap();
        tools.repair_n(&image, &[]).unwrap();
    }
}
