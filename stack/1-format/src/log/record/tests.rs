//! Records of every shape as Linux wrote them, and every check of them.

use xfskit_units::{Geometry, LogBlock, Uuid};

use super::{BLOCK, RecordHeader};
use crate::log::op::{self, OpFlags, TransHeader};
use crate::log::record;
use crate::testing::{each_check_fails, geo_v4_1k, geo_v5, geo_v5_1k, golden};
use crate::{Ctx, Location};

/// A record as Linux 6.18 left it in a journal, and its position.
struct Golden {
    geo: Geometry,
    bytes: Vec<u8>,
    at: LogBlock,
}

/// One header block: `mkfs.xfs` defaults.
fn plain() -> Golden {
    let bytes = golden(2 * BLOCK, include_str!("../golden/record.txt"));
    Golden { geo: geo_v5(), bytes, at: LogBlock(445) }
}

/// Eight header blocks: mounted with `logbsize=256k`.
fn large() -> Golden {
    let bytes = golden(9 * BLOCK, include_str!("../golden/record-large.txt"));
    Golden { geo: geo_v5_1k(), bytes, at: LogBlock(120_324) }
}

/// Version 1 (`-l version=1`), by Linux 6.12.
fn v1() -> Golden {
    let bytes = golden(2 * BLOCK, include_str!("../golden/record-v1.txt"));
    let uuid = Uuid::parse_str("c4c47c34-9a27-4ded-8507-9a611b19b344").unwrap();
    Golden { geo: Geometry { uuid, ..geo_v4_1k() }, bytes, at: LogBlock(407) }
}

fn ctx(geo: &Geometry) -> Ctx<'_> {
    Ctx::new(geo, Location::of("log record"))
}

/// Returns the payload with its first words restored.
fn unpacked(g: &Golden) -> (Vec<u8>, u32) {
    let header = RecordHeader::verify(&g.bytes, &ctx(&g.geo), g.at).unwrap();
    let (headers, payload) = g.bytes.split_at(header.header_blocks() * BLOCK);
    let mut payload = payload[..header.len.get() as usize].to_vec();
    record::unpack(headers, &mut payload);
    (payload, header.num_logops.get())
}

#[test]
fn records_read_as_linux_wrote_them() {
    for (g, headers, version) in [(plain(), 1, 2), (large(), 8, 2), (v1(), 1, 1)] {
        let header = RecordHeader::verify(&g.bytes, &ctx(&g.geo), g.at).unwrap();
        assert_eq!((header.header_blocks(), header.version.get()), (headers, version));
        let (head, payload) = g.bytes.split_at(headers * BLOCK);
        let payload = &payload[..header.len.get() as usize];
        assert!(record::checksums(head, payload).contains(&header.crc()), "version {version}");
        let (payload, num_logops) = unpacked(&g);
        let ops: Result<Vec<_>, _> = op::ops(&payload, num_logops, &ctx(&g.geo)).collect();
        let ops = ops.unwrap();
        assert_eq!(ops.len(), num_logops as usize);
        assert!(ops[0].has(OpFlags::START) && ops[ops.len() - 1].has(OpFlags::COMMIT));
        TransHeader::verify(ops[1].data, &ctx(&g.geo)).unwrap();
    }
}

#[test]
fn first_words_of_a_long_payload_are_restored_from_every_header_block() {
    let payload: Vec<u8> = (0..150 * BLOCK).map(|i| (i / 3).to_le_bytes()[0]).collect();
    let mut bytes = [vec![0; 3 * BLOCK], payload.clone()].concat();
    record::pack(&mut bytes, 3, 7);
    let (headers, packed) = bytes.split_at(3 * BLOCK);
    assert!(packed.chunks(BLOCK).all(|block| record::cycle_of(block) == 7));
    let mut back = packed.to_vec();
    record::unpack(headers, &mut back);
    assert!(back == payload);
}

#[test]
fn each_check_of_a_record_fails_by_its_name() {
    for g in [plain(), large()] {
        each_check_fails(
            &g.bytes[..BLOCK],
            None,
            &[
                ("log.record.magicno", 0, &[0]),
                ("log.record.cycle", 4, &[0, 0, 0, 9]),
                ("log.record.version", 8, &[0, 0, 0, 4]),
                ("log.record.len", 12, &[0, 0, 0, 0]),
                ("log.record.len", 12, &[0, 4, 0, 1]),
                ("log.record.lsn", 16, &[0, 0, 0, 1, 0, 0, 0, 9]),
                ("log.record.fmt", 300, &[0, 0, 0, 2]),
                ("log.record.fs_uuid", 304, &[0]),
                ("log.record.size", 320, &[0, 4, 0, 1]),
            ],
            |block| RecordHeader::verify(block, &ctx(&g.geo), g.at).map(drop),
        );
    }
    let g = v1();
    each_check_fails(
        &g.bytes[..BLOCK],
        None,
        &[("log.record.len", 12, &[0, 0, 0x80, 1])],
        |block| RecordHeader::verify(block, &ctx(&g.geo), g.at).map(drop),
    );
}

#[test]
fn each_check_of_operations_fails_by_its_name() {
    let g = plain();
    let (payload, num_logops) = unpacked(&g);
    let verify_block = |payload: &[u8], count: u32| {
        op::ops(payload, count, &ctx(&g.geo)).find_map(Result::err).map(|fault| fault.check.0)
    };
    assert_eq!(verify_block(&payload, num_logops), None);
    let broken = |offset: usize, byte: u8| {
        let mut bad = payload.clone();
        bad[offset] = byte;
        verify_block(&bad, num_logops)
    };
    assert_eq!(broken(8, 0x6a), Some("log.op.clientid"));
    assert_eq!(broken(4, 1), Some("log.op.len"));
    assert_eq!(verify_block(&payload[..op::LEN * 2 - 1], 2), Some("log.op.header"));
}

#[test]
fn each_check_of_a_transaction_header_fails_by_its_name() {
    let g = plain();
    let (payload, _) = unpacked(&g);
    let start = 2 * op::LEN;
    each_check_fails(
        &payload[start..start + 16],
        None,
        &[("log.trans.magic", 0, b"t")],
        |region| TransHeader::verify(region, &ctx(&g.geo)).map(drop),
    );
    let longer = TransHeader::verify(&payload[start..start + 17], &ctx(&g.geo)).unwrap_err();
    assert_eq!(longer.check.0, "log.trans.len");
}
