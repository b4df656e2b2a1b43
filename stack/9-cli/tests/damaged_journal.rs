//! A journal with a damaged record between tail and head: commands print the record, how much
//! before it is sound, and how to read without it.

use std::fs;
use std::path::Path;

use crate::common::{Bench, damage, expect, shown};

/// Returns the byte of the record at `block` of the journal's first cycle.
fn record_at(image: &Path, block: u64) -> u64 {
    let bytes = fs::read(image).unwrap();
    let lsn = (1 << 32 | block).to_be_bytes();
    let is_it =
        |sector: &[u8]| sector.starts_with(&[0xfe, 0xed, 0xba, 0xbe]) && sector[16..24] == lsn;
    let found = bytes.chunks(512).position(is_it).expect("a record there");
    found as u64 * 512
}

#[test]
fn a_damaged_record_is_named_with_a_hint() {
    let bench = Bench::new();
    let path = bench.kept("intents-exchange");
    let image = shown(&path);
    // From 1:169 to the head, far from both ends.
    damage(&path, record_at(&path, 1021) + 512 + 100, b"damage");
    let before = fs::read(&path).unwrap();
    for args in [
        &["ls", &image][..],
        &["info", &image],
        &["recover", "-n", &image],
        &["recover", &image],
        &["mkdir", &image, "/new"],
    ] {
        let said = expect(2, args).stderr;
        assert!(
            said.contains("cannot be replayed beyond its record at block 1021 of cycle 1"),
            "{said}"
        );
        assert!(said.contains("[log.record.crc]"), "{said}");
        assert!(said.contains("170 transactions before it, 1:169 to 1:1019"), "{said}");
        assert!(said.contains("--norecovery") && said.contains("repair --zero-log"), "{said}");
        assert!(!said.contains("partitions"), "{said}");
    }
    assert!(fs::read(&path).unwrap() == before, "nothing was written");
    expect(0, &["ls", "--norecovery", &image]);
    assert!(expect(1, &["check", &image]).stdout.contains("[log.record.crc]"));
}

/// Returns the byte of the newest record that is not empty.
fn newest_record(image: &Path) -> u64 {
    let bytes = fs::read(image).unwrap();
    let records = bytes.chunks(512).enumerate().filter(|(_, sector)| {
        sector.starts_with(&[0xfe, 0xed, 0xba, 0xbe]) && sector[12..16] != [0; 4]
    });
    let (at, _) = records.max_by_key(|(_, sector)| sector[16..24].to_vec()).expect("a record");
    at as u64 * 512
}

#[test]
fn a_torn_record_at_the_head_is_named_by_reading_and_writing_commands() {
    let bench = Bench::new();
    let path = bench.kept("intents-exchange");
    let image = shown(&path);
    assert!(!expect(0, &["ls", &image]).stderr.contains("the journal ends at block"));
    damage(&path, newest_record(&path) + 512 + 100, b"damage");
    for args in [&["ls", &image][..], &["get", &image, "/", "-"], &["mkdir", &image, "/new"]] {
        let said = expect(0, args).stderr;
        assert!(said.contains("the journal ends at block"), "{said}");
        assert!(said.contains("[log.record.crc]") && said.contains("is left out"), "{said}");
    }
}
