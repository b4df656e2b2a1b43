//! xfskit's dump of the journal compared with that of `xfs_logprint`.

use std::collections::BTreeMap;
use std::process::Command;

use xfskit_block::OpenMode;
use xfskit_core::superblock::read_superblock;
use xfskit_format::log::item::{Regions, encode};
use xfskit_inspect::log::{Options, Show, Span, print};
use xfskit_log::{FlushBefore, Payload};
use xfskit_recovery::open_log;
use xfskit_test_recovery::{JournalOnly, open};
use xfskit_test_support::{Image, Need, Scratch, Xfsprogs, dirty, needs};
use xfskit_units::{AgBlock, AgNumber, Daddr, ExtLen, Ino, Sectors};
use zerocopy::IntoBytes;

/// The case that most items come from.
const CRASH: &str = "synced-then-cut";

fn ours(image: &Image<'_>, options: Options) -> String {
    let dev = open(image.path(), OpenMode::ReadOnly);
    let geo = read_superblock(&dev).expect("superblock").geometry();
    let log = open_log(&dev, None, &geo).expect("log");
    let mut out = Vec::new();
    print(&log, options, &mut out).expect("readable to its end");
    String::from_utf8(out).expect("text")
}

fn theirs(image: &Image<'_>, option: &str) -> String {
    let out = Command::new("xfs_logprint").arg(option).arg(image.path()).output();
    String::from_utf8_lossy(&out.expect("xfs_logprint").stdout).into_owned()
}

/// Counts the lines that begin with each of `words`, after spaces.
fn count(text: &str, words: &[&'static str]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        for word in words.iter().filter(|word| line.trim_start().starts_with(*word)) {
            *counts.entry(*word).or_default() += 1;
        }
    }
    counts
}

#[test]
fn the_journal_dump_shows_every_item_that_xfs_logprint_shows() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("logprint");
    let crash = dirty::CRASHES.iter().find(|crash| crash.name == CRASH).expect("it is there");
    let Some(image) = crash.leave(&scratch) else { return };

    let text = ours(&image, Options::default());
    let expected = theirs(&image, "-t");
    let words = ["TRANS:", "BUF:  #regs", "INODE:", "ICR:  #ag", "EFI:", "EFD:"];
    let expected = count(&expected, &words);
    let found = count(&text, &["TRANS:", "BUF:", "INODE:", "ICREATE:", "EFI:", "EFD:"]);
    assert_eq!(expected.values().collect::<Vec<_>>(), found.values().collect::<Vec<_>>());

    let records =
        ours(&image, Options { show: Show::Records, span: Span::Lap, ..Options::default() });
    let headers = theirs(&image, "-d").matches("HEADER Cycle").count();
    assert_eq!(records.matches("RECORD:").count(), headers);

    for show in [Show::Records, Show::Operations, Show::Transactions] {
        let json = ours(&image, Options { show, span: Span::Lap, data: true, json: true });
        let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(document["log"]["state"], "dirty");
    }
}

#[test]
fn xfs_logprint_shows_the_items_that_xfskit_logged() {
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("logprint-ours");
    let image = Image::sparse(&scratch, "image", 400 << 20);
    Xfsprogs::installed().expect("xfsprogs").mkfs(&image, &[]).expect("mkfs");
    let mut volume = JournalOnly::open(&image, 32 * 1024);
    let tail = volume.writer.next_lsn();
    // The transaction spans several records, with split regions; repeated a few times.
    for _ in 0..3 {
        let mut out = Payload::new();
        let root = Ino(128);
        let inode = volume.inode(root);
        for _ in 0..200 {
            volume.log_inode(&mut out, root, &inode, true);
        }
        let agf = (Daddr(1), Sectors(1));
        let bytes = volume.read(agf);
        volume.log_chunk(&mut out, agf, &bytes, 0);
        encode::cancel(&mut out, (Daddr(800), Sectors(8)));
        let icreate = encode::icreate(&volume.geo, AgNumber(1), AgBlock(64), ExtLen(8), 7);
        out.region(&[icreate.as_bytes()]);
        volume.writer.append(&out, tail, FlushBefore::Nothing).expect("appended");
    }
    drop(volume);
    let expected = theirs(&image, "-t");
    for nonsense in ["ERROR", "BAD", "unrecognized", "not fully printed", "Left over"] {
        assert!(!expected.contains(nonsense), "{expected}");
    }
    let words = ["TRANS:", "BUF:  #regs", "INODE:", "ICR:  #ag"];
    let expected: Vec<usize> = count(&expected, &words).into_values().collect();
    let found = count(&ours(&image, Options::default()), &["TRANS:", "BUF:", "INODE:", "ICREATE:"]);
    assert_eq!(found.into_values().collect::<Vec<_>>(), expected);
    assert_eq!(expected.iter().sum::<usize>(), 3 + 600 + 6 + 3);
}
