//! Trees of every form, written and read through a mount.

use xfskit_test_mount::pair::{Served, empty, possible};
use xfskit_test_support::image::{Mount, Scratch};
use xfskit_test_support::manifest::Manifest;
use xfskit_test_support::{kernel, matrix, trees};

/// Removes what the protocol has no room for: times of birth.
fn without_births(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.btime = (0, 0);
    }
    manifest
}

/// Removes what is not decided until content is written: blocks and extents. Also removes times,
/// because the kernel's cache does not learn that punching a hole changes them.
fn content_alone(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.blocks = 0;
        (entry.btime, entry.mtime, entry.ctime) = ((0, 0), (0, 0), (0, 0));
        if let Some(extra) = &mut entry.extra {
            extra.nextents = 0;
        }
    }
    manifest
}

#[test]
fn a_tree_of_linux_is_shown_as_linux_shows_it() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-read");
    let Some(image) = matrix::named("default").filled(&scratch) else { return };
    let mount = Mount::read_write(&image, &scratch).expect("a mount by Linux");
    // FUSE in Linux has one page for an ACL, and E2BIG for a larger one.
    let lists = mount.path().join("attributes/access-lists");
    std::fs::remove_file(lists.join("large")).expect("removed");
    std::fs::remove_dir_all(lists.join("large-directory")).expect("removed");
    mount.unmount().expect("an unmount");
    let mount = Mount::read_only(&image, &scratch).expect("a mount by Linux");
    let linux = without_births(kernel::manifest(mount.path()));
    mount.unmount().expect("an unmount");
    let served = Served::new(image, &scratch, "ro,dev,suid");
    let ours = without_births(kernel::manifest(served.path()));
    ours.assert_same(&linux, "the mounted tree");
    served.end();
}

#[test]
fn a_tree_written_through_the_mount_is_the_tree_that_linux_reads() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-write");
    let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, "dev,suid,noatime");
    let shape = trees::Shape { reflink: false, fuse: true, ..trees::Shape::DEFAULT };
    trees::corners(served.path(), &shape).expect("a tree");
    let live = content_alone(kernel::manifest(served.path()));
    let image = served.end();
    let mount = Mount::read_only(&image, &scratch).expect("a mount by Linux");
    let linux = without_births(kernel::manifest(mount.path()));
    mount.unmount().expect("an unmount");
    live.assert_same(&content_alone(linux.clone()), "the tree, seen where it was written");
    let served = Served::new(image, &scratch, "ro,dev,suid");
    let ours = without_births(kernel::manifest(served.path()));
    ours.assert_same(&linux, "the written tree");
    served.end();
}
