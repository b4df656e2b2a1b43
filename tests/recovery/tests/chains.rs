//! Recovery by turns: the kernel leaves a dirty journal, xfskit recovers, writes and crashes, then
//! the kernel recovers, writes and crashes.
//!
//! Linux loses what it syncs behind a journal whose records had another number of header blocks, so
//! each of its turns uses xfskit's record size. xfskit need not use the kernel's.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::lgetxattr;
use xfskit_block::OpenMode;
use xfskit_core::{OpenOptions, SetMode, Volume};
use xfskit_format::attr::Namespace;
use xfskit_test_recovery::{complaints, open, recover};
use xfskit_test_support::matrix::named;
use xfskit_test_support::{Mount, Need, Scratch, needs, ours, verify};

/// Returns the content of the file of that name.
fn content(name: &str) -> Vec<u8> {
    name.repeat(100).into_bytes()
}

/// The value of each attribute that xfskit sets.
const VALUE: [u8; 100] = [7; 100];

/// Creates files and syncs them one by one.
fn work(root: &Path, turn: usize) -> Vec<String> {
    let names: Vec<String> = (0..40).map(|n| format!("turn{turn}-{n}")).collect();
    for name in &names {
        let mut file = File::create(root.join(name)).expect("a file");
        file.write_all(&content(name)).and_then(|()| file.sync_all()).expect("synced");
    }
    names
}

/// Verifies that all files are there, and `marks` of xfskit's attributes.
fn verify_files(root: &Path, synced: &BTreeSet<String>, marks: u32, turn: &str) {
    for name in synced {
        let found = fs::read(root.join(name)).unwrap_or_else(|why| panic!("{turn}: {name}: {why}"));
        assert!(found == content(name), "{turn}: {name} has other content");
    }
    for mark in 0..marks {
        let mut value = [0; VALUE.len() + 1];
        let name = format!("user.mark{mark}");
        let len = lgetxattr(root, &name, &mut value[..])
            .unwrap_or_else(|why| panic!("{turn}: {name}: {why}"));
        assert_eq!(value[..len], VALUE, "{turn}: {name}");
    }
}

#[test]
fn alternating_crashes_of_kernel_and_xfskit_lose_no_synced_data() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("chain");
    let case = named("rmapbt");
    let Some(image) = case.make(&scratch) else { return };
    let mut synced = BTreeSet::new();
    let mut marks = 0_u32;
    // The record sizes of the kernel and of xfskit.
    for (turn, (theirs, size)) in
        [(32, 256), (256, 256), (256, 32), (32, 32)].into_iter().enumerate()
    {
        let options = format!("logbsize={theirs}k");
        let mount = Mount::read_write_with(&image, &scratch, &options).expect("mount");
        synced.extend(work(mount.path(), turn));
        verify_files(mount.path(), &synced, marks, &format!("turn {turn}"));
        mount.shutdown(false).expect("shutdown");
        mount.unmount().expect("unmount");

        let mut options = OpenOptions { write: true, ..OpenOptions::default() };
        options.journal.logbsize = size * 1024;
        let dev = Arc::new(open(image.path(), OpenMode::ReadWrite));
        let volume = Volume::open(dev, &options).expect("opened");
        assert!(volume.replay().is_some_and(|replay| !replay.clean));
        let root = volume.geo().rootino;
        for _ in 0..40 {
            let name = format!("mark{marks}");
            volume
                .transact(|tx| {
                    let inode = tx.iget(root)?;
                    tx.attr_set(inode, Namespace::User, name.as_bytes(), &VALUE, SetMode::Any)
                })
                .expect("set");
            volume.sync().expect("synced");
            marks += 1;
        }
        // The volume is dropped without a close.
        drop(volume);
    }
    let mount = Mount::read_write_with(&image, &scratch, "logbsize=32k").expect("mount");
    verify_files(mount.path(), &synced, marks, "in the end");
    mount.shutdown(true).expect("shutdown");
    mount.unmount().expect("unmount");
    recover(&image).expect("recovered");
    verify::volume(&image, &scratch).expect("sound");
    for tools in case.repair_tools() {
        assert_eq!(complaints(&tools, &image), "");
    }
    let volume = ours::open(&image);
    let root = volume.iget(volume.geo().rootino).expect("the root");
    assert_eq!(volume.attr_list(&root).expect("attributes").len(), marks as usize);
}
