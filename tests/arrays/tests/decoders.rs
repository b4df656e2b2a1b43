//! Metadata of the kernel's arrays decode to what mdadm reports.

#![allow(missing_docs)]

use std::collections::BTreeMap;

use xfskit_block::BlockDevice;
use xfskit_md::bitmap::Bitmap;
use xfskit_md::journal::{JournalReader, Kind};
use xfskit_md::superblock::{self, Role, Superblock, Version};
use xfskit_md::{bad_blocks, ppl};
use xfskit_test_arrays::{Fixture, manifest};
use xfskit_units::MemberSector;

/// Parses `Key : value` lines; the first of several values of a key counts.
fn fields(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.lines().rev().filter_map(|line| line.split_once(" : "));
    pairs.map(|(key, value)| (key.trim(), value.trim())).collect()
}

fn hex_words(uuid: [u8; 16]) -> String {
    let words = uuid.as_chunks::<4>().0.iter();
    words.map(|word| format!("{:08x}", u32::from_be_bytes(*word))).collect::<Vec<_>>().join(":")
}

fn first(text: &str) -> &str {
    text.split(' ').next().unwrap_or("")
}

fn compare_v1(sb: &Superblock, reported: &BTreeMap<&str, &str>) {
    let Superblock::V1(raw) = sb else { panic!("not version 1") };
    assert_eq!(reported["Feature Map"], format!("{:#x}", raw.feature_map));
    assert_eq!(reported["Array UUID"], hex_words(sb.set_uuid()));
    assert_eq!(reported["Device UUID"], hex_words(raw.device_uuid));
    assert_eq!(first(reported["Name"]), raw.name());
    assert_eq!(
        reported.get("Data Offset").map_or("0", |text| first(text)),
        raw.data_offset.to_string()
    );
    assert_eq!(first(reported["Super Offset"]), sb.at().to_string());
    assert_eq!(first(reported["Avail Dev Size"]), raw.data_size.to_string());
    assert_eq!(first(reported["Checksum"]), format!("{:x}", raw.sb_csum));
    assert_eq!(reported["State"] == "clean", sb.resync_offset().is_none());
    let role = match sb.role() {
        Role::Active(role) => format!("Active device {role}"),
        Role::Spare | Role::Faulty => "spare".into(),
        Role::Journal => "Journal".into(),
    };
    assert_eq!(reported["Device Role"], role);
    let recovered = sb.recovery_offset().filter(|_| sb.role() != Role::Journal);
    let recovery = reported.get("Recovery Offset").map(|text| first(text).to_owned());
    assert_eq!(recovery, recovered.map(|at| at.to_string()));
    let log = raw.bad_blocks().expect("mdadm 4.2 always makes a log");
    let offset = i128::from(log.at.0) - i128::from(sb.at().0);
    let entries = log.len.byte_len().0 / 8;
    let log = format!("{entries} entries available at offset {offset} sectors");
    assert!(reported["Bad Block Log"].starts_with(&log), "{log}: {}", reported["Bad Block Log"]);
    if let Some(reshape) = sb.reshape() {
        assert_eq!(reported["Reshape pos'n"], (reshape.position.0 / 2).to_string());
        assert_eq!(first(reported["Delta Devices"]), reshape.delta_disks.to_string());
    }
}

fn compare_v090(sb: &Superblock, reported: &BTreeMap<&str, &str>) {
    let Superblock::V090(raw) = sb else { panic!("not version 0.90") };
    assert_eq!(first(reported["UUID"]), hex_words(sb.set_uuid()));
    assert_eq!(first(reported["Used Dev Size"]), raw.fields.size.to_string());
    assert_eq!(reported["Preferred Minor"], raw.fields.md_minor.to_string());
    assert_eq!(reported["Active Devices"], raw.fields.active_disks.to_string());
    assert_eq!(first(reported["Checksum"]), format!("{:x}", raw.fields.sb_csum));
    assert_eq!(reported["State"] == "clean", sb.resync_offset().is_none());
}

#[test]
fn every_superblock_decodes_as_mdadm_reports_it() {
    let mut seen = 0;
    for entry in manifest() {
        let fixture = Fixture::open(&entry.name);
        for (i, member) in fixture.members.iter().enumerate() {
            let found = superblock::read(member).unwrap().expect("a superblock");
            assert_eq!(found.corruption, None, "{} m{i}", entry.name);
            let sb = &found.superblock;
            let mut bytes = vec![0; superblock::SUPERBLOCK_BYTES];
            member.read_at(sb.at().byte_offset(), &mut bytes).unwrap();
            assert_eq!(sb.encode(), bytes, "{} m{i} encodes as it was", entry.name);
            let Some(text) = fixture.text(&format!("m{i}.examine")) else { continue };
            let reported = fields(text);
            seen += 1;
            assert!(reported["Version"].starts_with(&found.version.to_string()));
            assert_eq!(reported["Events"], sb.events().to_string());
            assert_eq!(reported["Raid Devices"], sb.raid_disks().to_string());
            let level = reported["Raid Level"].replace("raid", "").replace("linear", "-1");
            assert_eq!(level, sb.level().to_string());
            match found.version {
                Version::V0_90 => compare_v090(sb, &reported),
                _ => compare_v1(sb, &reported),
            }
        }
    }
    assert!(seen > 150, "only {seen} texts of mdadm");
}

#[test]
fn every_bitmap_decodes_as_mdadm_reports_it() {
    let mut seen = 0;
    for entry in manifest().into_iter().filter(|entry| entry.name.contains("bitmap")) {
        let fixture = Fixture::open(&entry.name);
        for (i, member) in fixture.members.iter().enumerate() {
            let sb = superblock::read(member).unwrap().unwrap().superblock;
            let Some(bitmap) = Bitmap::read(member, &sb).unwrap() else { continue };
            assert_eq!(bitmap.superblock.uuid, sb.set_uuid());
            let Some(text) = fixture.text(&format!("m{i}.bitmap")) else { continue };
            let reported = fields(text);
            seen += 1;
            let head = &bitmap.superblock;
            assert_eq!(reported["Version"], head.version.to_string());
            assert_eq!(reported["UUID"], hex_words(head.uuid));
            assert_eq!(reported["Events"], head.events.to_string());
            assert_eq!(reported["Events Cleared"], head.events_cleared.to_string());
            assert_eq!(first(reported["Sync Size"]), (head.sync_size.get() / 2).to_string());
            let dirty = format!("{} bits (chunks), {} dirty", bitmap.count(), bitmap.dirty());
            assert!(reported["Bitmap"].starts_with(&dirty), "{dirty}: {}", reported["Bitmap"]);
        }
    }
    assert!(seen > 10, "only {seen} texts of mdadm");
}

#[test]
fn the_bits_of_stripes_being_written_are_set() {
    let fixture = Fixture::open("raid6-dirty-bitmap");
    for member in &fixture.members {
        let sb = superblock::read(member).unwrap().unwrap().superblock;
        let bitmap = Bitmap::read(member, &sb).unwrap().unwrap();
        assert_eq!(bitmap.set_bits().collect::<Vec<_>>(), [0, 2, 6, 9]);
        assert!(bitmap.is_current(sb.set_uuid(), sb.events()));
    }
}

#[test]
fn bad_blocks_are_those_that_were_set() {
    let fixture = Fixture::open("raid1-badblocks");
    let sectors = |i: usize| {
        let sb = superblock::read(&fixture.members[i]).unwrap().unwrap().superblock;
        bad_blocks::read(&fixture.members[i], &sb).unwrap()
    };
    assert_eq!(sectors(0), []);
    let [a, b, c, d] = [300, 308, 1000, 1024].map(MemberSector);
    assert_eq!(sectors(1), [a..b, c..d]);
}

#[test]
fn the_newest_partial_parity_log_is_found() {
    let fixture = Fixture::open("raid5-ppl");
    let mut partial = Vec::new();
    for member in &fixture.members {
        let sb = superblock::read(member).unwrap().unwrap().superblock;
        let log = ppl::read(member, &sb).unwrap().expect("a log");
        assert!(ppl::PplHeader::decode(&log.header.encode(), sb.set_uuid()).is_some());
        assert!(ppl::PplHeader::decode(&log.header.encode(), [0; 16]).is_none());
        partial.extend(log.header.entries().iter().filter(|e| e.pp_size.get() != 0).copied());
    }
    assert_eq!(partial.len(), 1, "{partial:?}");
}

#[test]
fn the_journal_holds_stripes_whose_pages_are_whole() {
    let fixture = Fixture::open("raid5-journal");
    let found = superblock::read(&fixture.members[3]).unwrap().unwrap();
    let Superblock::V1(sb) = &found.superblock else { panic!("not version 1") };
    let journal = JournalReader::new(&fixture.members[3], sb).unwrap();
    let entries = journal.entries().unwrap();
    assert!(entries.len() >= 6, "{}", entries.len());
    let payloads: Vec<_> = entries.iter().flat_map(|entry| &entry.payloads).collect();
    let data = payloads.iter().filter(|payload| matches!(payload.kind, Kind::Data(_))).count();
    let parity = payloads.iter().filter(|payload| matches!(payload.kind, Kind::Parity(_))).count();
    assert!(parity > 40 && data > parity && data <= 2 * parity, "{data} and {parity}");
    for payload in payloads {
        let Kind::Data(first) = payload.kind else { continue };
        let page = journal.page(payload.pages[0]).unwrap();
        assert_eq!(page[..8], first.0.to_le_bytes(), "the pattern names its place");
    }
}
