//! Journals that xfsprogs cleared are clean, and nothing of them is taken for a record that is
//! damaged or did not arrive.

use std::fs;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_log::Log;
use xfskit_test_recovery::open;
use xfskit_test_support::tools::run;
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs};
use xfskit_units::ByteOffset;

/// Bytes of the record that marks a cleared journal clean.
const RECORD: u64 = 1024;

/// Returns the offset of the journal of `image`, whether it is clean, and what was cut off.
fn journal(image: &Image) -> (ByteOffset, bool, Option<String>) {
    let device = open(image.path(), OpenMode::ReadOnly);
    let geo = read_superblock(&device).expect("a superblock").geometry();
    let start = geo.log_daddr().expect("an internal journal");
    let log = Log::open(&device, start, &geo).expect("a journal");
    let torn = log.torn().map(|torn| torn.corruption.to_string());
    (start.byte_offset(), log.is_clean(), torn)
}

#[test]
fn a_journal_that_xfsprogs_cleared_is_clean() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    for tools in Xfsprogs::all() {
        let scratch = Scratch::new("cleared");
        let image = Image::sparse(&scratch, "image", 400 << 20);
        tools.mkfs(&image, &[]).expect("mkfs");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        for n in 0..200 {
            fs::create_dir(mount.path().join(n.to_string())).expect("a directory");
        }
        mount.unmount().expect("unmount");
        run(tools.command("xfs_repair").arg("-L").arg(image.path())).expect("repair");
        let (start, clean, torn) = journal(&image);
        assert_eq!((clean, torn), (true, None), "xfs_repair -L");

        let dump = scratch.path().join("dump");
        run(tools.command("xfs_metadump").arg(image.path()).arg(&dump)).expect("a dump");
        let restored = Image::sparse(&scratch, "restored", 0);
        run(tools.command("xfs_mdrestore").arg(&dump).arg(restored.path())).expect("restored");
        let (_, clean, torn) = journal(&restored);
        assert_eq!((clean, torn), (true, None), "xfs_metadump");

        // Bytes behind the record are something that was written.
        let device = open(image.path(), OpenMode::ReadWrite);
        device.write_at(start.saturating_add(RECORD), &[0, 0, 0, 0, 1]).expect("written");
        drop(device);
        assert!(journal(&image).2.is_some(), "damage is told");
    }
}
