//! A record that the kernel wrote (`touch d/b` on a new volume), and damaged variants of it.

use xfskit_units::{Daddr, LogBlock, Lsn};
use zerocopy::IntoBytes;

use super::item::attri::AttrOp;
use super::item::intent::Work;
use super::item::{Family, Item, buf::BufType, kind, split};
use super::op::{self, OpFlags, TransHeader};
use super::record::{self, BLOCK};
use super::{RecordHeader, Stamp};
use crate::corruption::{Corruption, Location};
use crate::testing::{geo_v4, geo_v5, golden};
use crate::{Ctx, inode};

const CREATE: &str = include_str!("../golden/log-create.txt");
const AT: LogBlock = LogBlock(11);

fn whole() -> Vec<u8> {
    golden(2048, CREATE)
}

/// Returns the payload, unpacked.
pub(super) fn payload() -> Vec<u8> {
    let mut record = whole();
    let (headers, payload) = record.split_at_mut(BLOCK);
    record::unpack(headers, payload);
    payload.to_vec()
}

pub(super) fn regions(payload: &[u8]) -> Vec<&[u8]> {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let ops = op::ops(payload, 14, &ctx).map(Result::unwrap);
    let is_region = |op: &op::Op<'_>| !op.header.flags.intersects(OpFlags::START | OpFlags::COMMIT);
    ops.filter(is_region).map(|op| op.data).collect()
}

fn check_of<T>(result: Result<T, Box<Corruption>>) -> &'static str {
    result.map(|_| ()).expect_err("something is broken").check.0
}

#[test]
fn the_kernels_record_is_understood() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let record = whole();
    let header = RecordHeader::verify(&record, &ctx, AT).unwrap();
    assert_eq!((header.lsn(), header.tail_lsn()), (Lsn::new(1, AT), Lsn::new(1, LogBlock(9))));
    assert_eq!((header.header_blocks(), header.payload_blocks()), (1, 3));
    let (headers, payload) = record.split_at(BLOCK);
    assert_eq!(record::checksums(headers, payload)[0], header.crc());
    assert!(payload.chunks(BLOCK).all(|block| record::cycle_of(block) == 1));
    assert_eq!(record::cycle_of(headers), 1);
}

#[test]
fn packing_undoes_unpacking() {
    let mut record = whole();
    let payload = payload();
    record[BLOCK..].copy_from_slice(&payload);
    record::pack(&mut record, 1, 1);
    record::sum(&mut record, 1);
    assert_eq!(record, whole());
}

#[test]
fn blocks_after_the_end_of_the_journal_belong_to_the_next_cycle() {
    let mut record = whole();
    record::wrap(&mut record, 2);
    let cycles: Vec<u32> = record.chunks(BLOCK).map(record::cycle_of).collect();
    assert_eq!(cycles, [1, 1, 2, 2]);
    assert_eq!(record::next_cycle(record::MAGIC - 1), record::MAGIC + 1);
}

#[test]
fn each_field_of_the_record_header_is_checked() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let cases: &[(&str, usize, &[u8])] = &[
        ("log.record.magicno", 0, &[0]),
        ("log.record.version", 8, &[0, 0, 0, 4]),
        ("log.record.fmt", 0x12c, &[0, 0, 0, 3]),
        ("log.record.fs_uuid", 0x130, &[0]),
        ("log.record.size", 0x140, &[0x10, 0, 0, 0]),
        ("log.record.len", 12, &[0, 0, 0, 0]),
        ("log.record.len", 12, &[0, 0, 0x80, 1]),
        ("log.record.lsn", 0x14, &[0, 0, 0, 12]),
        ("log.record.cycle", 4, &[0, 0, 0, 2]),
    ];
    for (check, offset, bytes) in cases {
        let mut bad = whole();
        bad[*offset..offset + bytes.len()].copy_from_slice(bytes);
        assert_eq!(check_of(RecordHeader::verify(&bad, &ctx, AT)), *check);
    }
    assert_eq!(check_of(RecordHeader::verify(&[0; 100], &ctx, AT)), "log.record.magicno");
}

#[test]
fn each_field_of_an_operation_is_checked() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let good = payload();
    for (check, offset, byte) in [("log.op.clientid", 8, 0x68), ("log.op.len", 4, 0xff)] {
        let mut bad = good.clone();
        bad[offset] = byte;
        assert_eq!(check_of(op::ops(&bad, 1, &ctx).next().unwrap()), check);
    }
    let cut = op::ops(&good[..15], 14, &ctx).last().unwrap();
    assert_eq!(check_of(cut), "log.op.header");
    let mut header = good[24..40].to_vec();
    assert_eq!(TransHeader::verify(&header, &ctx).unwrap().num_items.get(), 11);
    assert_eq!(check_of(TransHeader::verify(&header[..12], &ctx)), "log.trans.len");
    header[0] ^= 1;
    assert_eq!(check_of(TransHeader::verify(&header, &ctx)), "log.trans.magic");
}

#[test]
fn the_kernels_items_are_understood() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let payload = payload();
    let regions = regions(&payload);
    let items: Vec<Item<'_>> =
        split(&regions[1..], &ctx).map(|item| Item::decode(item.unwrap(), &ctx).unwrap()).collect();
    let [Item::Inode(dir), Item::Buf(agi), Item::Buf(finobt), Item::Buf(inobt), Item::Inode(file)] =
        &items[..]
    else {
        panic!("{items:?}");
    };
    assert_eq!((dir.ino().0, dir.data.unwrap().len(), dir.attr), (0x83, 24, None));
    assert_eq!((agi.buf_type(), agi.daddr()), (BufType::Agi, Daddr(2)));
    assert_eq!((finobt.buf_type(), finobt.daddr()), (BufType::Btree, Daddr(32)));
    let change = inobt.changes().next().unwrap();
    assert_eq!((change.offset, change.bytes.len()), (0, 128));
    assert_eq!(Stamp::of(change.bytes, &geo).unwrap().buf_type, BufType::Btree);
    assert_eq!((file.ino().0, file.format.boffset.get()), (0x85, 0xa00));

    let mut disk = file.core.to_disk().to_vec();
    disk.resize(512, 0);
    let disk = inode::Dinode::parse(&disk, &geo).unwrap();
    assert_eq!((disk.mode(), disk.nlink(), disk.size().0), (0o100_644, 1, 0));
    assert_eq!(disk.v3.unwrap().inumber.get(), 0x85);
    assert_eq!(disk.crtime().unwrap().sec / 1_000_000, 1795);
}

/// Decodes the item at `first` of the golden transaction with one byte of region `region` changed.
fn break_item(first: usize, count: usize, region: usize, at: usize, byte: u8) -> &'static str {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let payload = payload();
    let regions = regions(&payload);
    let mut owned: Vec<Vec<u8>> =
        regions[first..first + count].iter().map(|region| region.to_vec()).collect();
    owned[region][at] = byte;
    let broken: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    check_of(Item::decode(&broken, &ctx))
}

#[test]
fn each_field_of_a_buffer_item_is_checked() {
    for (at, byte, check) in [
        (0, 0, "log.item.type"),
        (6, 0, "log.buf.len"),
        (7, 1, "log.buf.len"),
        (16, 9, "log.buf.map_size"),
        (20, 0, "log.buf.map"),
        (20, 3, "log.buf.map"),
        (20, 0x10, "log.buf.map"),
    ] {
        assert_eq!(break_item(4, 2, 0, at, byte), check, "byte {at}");
    }
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let payload = payload();
    let regions = regions(&payload);
    let short: &[&[u8]] = &[regions[4], &regions[5][..100]];
    assert_eq!(check_of(Item::decode(short, &ctx)), "log.buf.region");
}

#[test]
fn each_field_of_an_inode_item_is_checked() {
    for (region, at, byte, check) in [
        (0, 4, 2, "log.inode.fields"),
        (0, 4, 7, "log.inode.fields"),
        (0, 4, 1, "log.inode.size"),
        (0, 10, 99, "log.inode.dsize"),
        (1, 0, 0, "log.inode.magic"),
        (1, 4, 2, "log.inode.version"),
    ] {
        assert_eq!(break_item(1, 3, region, at, byte), check, "byte {at}");
    }
}

#[test]
fn a_region_count_that_cannot_be_is_refused() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let zero: &[&[u8]] = &[&[0x3c, 0x12, 0, 0]];
    let many: &[&[u8]] = &[&[0x3c, 0x12, 9, 0]];
    for regions in [zero, many, &[&[0x3c][..]]] {
        let check = check_of(split(regions, &ctx).next().unwrap());
        assert!(["log.item.size", "log.item.type"].contains(&check));
    }
}

#[test]
fn old_inode_items_lack_four_bytes() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let payload = payload();
    let regions = regions(&payload);
    let packed = [&regions[1][..12], &regions[1][16..]].concat();
    let old: &[&[u8]] = &[&packed, regions[2], regions[3]];
    let Item::Inode(item) = Item::decode(old, &ctx).unwrap() else { panic!("an inode") };
    assert_eq!(item.format.as_bytes(), regions[1]);
}

#[test]
fn version_4_logs_96_bytes_of_an_inode() {
    let geo = geo_v4();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let payload = payload();
    let regions = regions(&payload);
    let mut core = regions[2][..96].to_vec();
    core[4] = 2;
    core[30..32].copy_from_slice(&[0x34, 0x12]);
    let item: &[&[u8]] = &[regions[1], &core, regions[3]];
    let Item::Inode(item) = Item::decode(item, &ctx).unwrap() else { panic!("an inode") };
    assert_eq!((item.core.flushiter(), item.core_len), (0x1234, 96));
    assert_eq!(item.core.to_disk()[30..32], [0x12, 0x34]);
}

fn one(region: &[u8]) -> Result<Item<'static>, Box<Corruption>> {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    match Item::decode(&[region], &ctx)? {
        Item::Intent(intent) => Ok(Item::Intent(intent)),
        Item::Done(done) => Ok(Item::Done(done)),
        item => panic!("{item:?}"),
    }
}

/// Makes the header of an intent or done item, followed by `words`.
fn head(kind: u16, nextents: u32, id: u64, words: &[u32]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([1, 0]);
    bytes.extend(nextents.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

#[test]
fn every_intent_and_its_done_item_share_a_family() {
    let extents = |n: usize| vec![5; n];
    for (intent, done, family, words) in [
        (kind::EFI, kind::EFD, Family::ExtentFree, 4),
        (kind::EFI_RT, kind::EFD_RT, Family::ExtentFreeRt, 4),
        (kind::RUI, kind::RUD, Family::Rmap, 8),
        (kind::RUI_RT, kind::RUD_RT, Family::RmapRt, 8),
        (kind::CUI, kind::CUD, Family::Refcount, 4),
        (kind::CUI_RT, kind::CUD_RT, Family::RefcountRt, 4),
        (kind::BUI, kind::BUD, Family::Bmap, 8),
    ] {
        let Item::Intent(found) = one(&head(intent, 2, 77, &extents(2 * words))).unwrap() else {
            panic!("{family:?}")
        };
        assert_eq!((found.family, found.id), (family, 77));
        let Item::Done(found) = one(&head(done, 0, 77, &[])).unwrap() else { panic!("{family:?}") };
        assert_eq!((found.family, found.id), (family, 77));
        let wrong = one(&head(intent, 3, 77, &extents(2 * words)));
        assert_eq!(check_of(wrong), "log.intent.nextents", "{family:?}");
        assert_eq!(check_of(one(&head(intent, 1, 1, &[])[..12])), "log.intent.len");
    }
    for (done, family) in [(kind::ATTRD, Family::Attr), (kind::XMD, Family::Exchange)] {
        let Item::Done(found) = one(&head(done, 0, 78, &[])).unwrap() else { panic!("{family:?}") };
        assert_eq!((found.family, found.id), (family, 78));
    }
}

#[test]
fn extents_to_free_may_be_packed() {
    let Item::Intent(found) = one(&head(kind::EFI, 2, 1, &[9, 0, 3, 11, 0, 4])).unwrap() else {
        panic!("an intent")
    };
    let Work::Free(extents) = found.work else { panic!("{found:?}") };
    let extents: Vec<_> = extents.iter().map(|e| (e.start.get(), e.len.get())).collect();
    assert_eq!(extents, [(9, 3), (11, 4)]);
}

#[test]
fn the_kernels_bmap_intent_is_understood() {
    // Map block 7956 at file block 3824 of inode 0x83.
    let region = golden(
        48,
        "00: 44120100 01000000 8877665544332211 8300000000000000
         18: 141f000000000000 f00e000000000000 01000000 01000000",
    );
    let Item::Intent(found) = one(&region).unwrap() else { panic!("an intent") };
    let Work::Bmap(extents) = found.work else { panic!("{found:?}") };
    let [map] = &extents[..] else { panic!("one extent") };
    assert_eq!(map.owner.get(), 0x83);
    assert_eq!((map.startblock.get(), map.startoff.get()), (7956, 3824));
    assert_eq!((map.len.get(), map.flags.get()), (1, 1));
}

#[test]
fn an_exchange_intent_has_88_bytes() {
    let mut region = head(kind::XMI, 0, 5, &[0; 18]);
    region[16] = 0x83;
    let Item::Intent(found) = one(&region).unwrap() else { panic!("an intent") };
    let Work::Exchange(xmi) = found.work else { panic!("{found:?}") };
    assert_eq!(xmi.inode1.get(), 0x83);
    assert_eq!(check_of(one(&region[..84])), "log.xmi.len");
}

/// The kernel's parent-pointer intent, for a name of `name` bytes.
fn attri(op: u8, name_len: [u8; 4]) -> Vec<u8> {
    let mut head = golden(
        40,
        "00: 46120300 15739480 0102030405060708 8500000000000000
         18: 04000000 28000000 0c000000 08000000",
    );
    head[24] = op;
    head[28..32].copy_from_slice(&name_len);
    head
}

#[test]
fn parent_pointer_intents_are_understood() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let (name, longer, value) = ([b'n'; 40], [b'm'; 44], [7; 12]);
    let set = attri(4, [40, 0, 0, 0]);
    let regions: &[&[u8]] = &[&set, &name, &value];
    let Item::Intent(found) = Item::decode(regions, &ctx).unwrap() else { panic!("an intent") };
    let Work::Attr(found) = found.work else { panic!("{found:?}") };
    assert_eq!(
        (found.op, &found.name[..], &found.value[..]),
        (AttrOp::ParentSet, &name[..], &value[..])
    );

    // 43 bytes of a new name are padded to 44.
    let replace = attri(6, [40, 0, 43, 0]);
    let regions: &[&[u8]] = &[&replace, &name, &longer, &value, &value];
    let Item::Intent(found) = Item::decode(regions, &ctx).unwrap() else { panic!("an intent") };
    let Work::Attr(found) = found.work else { panic!("{found:?}") };
    assert_eq!((found.new_name.len(), found.new_value.len()), (43, 12));

    let unknown = attri(7, [40, 0, 0, 0]);
    let cases: [(&str, &[&[u8]]); 4] = [
        ("log.attri.op_flags", &[&unknown, &name, &value]),
        ("log.attri.name", &[&set, &name[..36], &value]),
        ("log.attri.value", &[&set, &name]),
        ("log.attri.len", &[&set[..36], &name, &value]),
    ];
    for (check, regions) in cases {
        assert_eq!(check_of(Item::decode(regions, &ctx)), check);
    }
}

#[test]
fn each_field_of_an_inode_chunk_item_is_checked() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let good = golden(28, "00: 3f120100 00000001 00000010 00000040 00000200 00000008 01020304");
    let decode = |bytes: &[u8]| {
        let regions: &[&[u8]] = &[bytes];
        match Item::decode(regions, &ctx)? {
            Item::Icreate(icreate) => icreate.verify(&ctx).map(|_| ()),
            item => panic!("{item:?}"),
        }
    };
    decode(&good).unwrap();
    for (at, byte, check) in [
        (7, 9, "log.icreate.agbno"),
        (11, 0, "log.icreate.agbno"),
        (15, 0x41, "log.icreate.count"),
        (18, 4, "log.icreate.isize"),
        (23, 9, "log.icreate.length"),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(check_of(decode(&bad)), check, "byte {at}");
    }
    assert_eq!(check_of(decode(&good[..24])), "log.icreate.len");
}

#[test]
fn quota_items_are_passed_through() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log record"));
    let (dquot, record) = (head(kind::DQUOT, 1000, 16, &[1, 136]), [0; 104]);
    let regions: &[&[u8]] = &[&dquot, &record];
    let Item::Dquot(found) = Item::decode(regions, &ctx).unwrap() else { panic!("a dquot") };
    assert_eq!((found.format.id.get(), found.record.len()), (1000, 104));
    assert_eq!(check_of(Item::decode(&regions[..1], &ctx)), "log.dquot.size");
    assert_eq!(check_of(Item::decode(&[&dquot[..20], &record], &ctx)), "log.dquot.len");
    let off = head(kind::QUOTAOFF, 1, 0, &[0]);
    assert!(matches!(Item::decode(&[&off], &ctx).unwrap(), Item::Quotaoff(_)));
    assert_eq!(check_of(Item::decode(&[&off[..16]], &ctx)), "log.quotaoff.len");
}
