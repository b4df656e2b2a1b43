//! The unmount record: one operation that marks everything before it as in place.
//!
//! mkfs writes one as the first record of a new journal, without a checksum; an unmount writes one
//! with a checksum. A journal whose last record is such a record is clean.

use xfskit_units::{Geometry, LogBlock, Lsn, Uuid};
use zerocopy::{FromZeros, IntoBytes};

use super::op::{CLIENT_LOG, LEN, OpFlags, OpHeader};
use super::record::{self, BLOCK, FMT_LINUX_LE, MAGIC, RecordHeader};

/// The body of the unmount operation: "Un" in the writer's byte order, then zeroes.
const BODY: [u8; 8] = [0x6e, 0x55, 0, 0, 0, 0, 0, 0];
/// The transaction id of mkfs' unmount operation.
const SEED_TID: u32 = 0xb0c0_d0d0;

/// Returns the record with which mkfs starts a journal of the volume `uuid`: complete, to be
/// written at block 0 of a zeroed journal. `logsunit` is the superblock's field, in bytes (0 and 1
/// mean none).
///
/// mkfs leaves the checksum zero. This code does the same, because tests compare the bytes with
/// those of mkfs.
pub fn seed_record(uuid: Uuid, logsunit: u32, logv2: bool) -> Vec<u8> {
    let lsn = Lsn::new(1, LogBlock(0));
    let (mut bytes, headers) = record(uuid, lsn, u32::MAX, logsunit, logv2);
    record::pack(&mut bytes, headers, lsn.cycle());
    bytes
}

/// Returns the record that marks a journal of the volume `geo` clean. It is written at the head
/// `lsn` when everything before is in place. `prev_block` is the block of the record before it. If
/// the record continues over the end of the journal, its rest goes to block 0.
pub fn unmount_record(geo: &Geometry, lsn: Lsn, prev_block: u32) -> Vec<u8> {
    let logv2 = geo.features.logv2();
    let (mut bytes, headers) = record(geo.uuid, lsn, prev_block, geo.logsunit, logv2);
    record::pack(&mut bytes, headers, lsn.cycle());
    record::wrap(&mut bytes, geo.log_bbs().saturating_sub(lsn.block().0) as usize);
    record::sum(&mut bytes, headers);
    bytes
}

/// Returns the record before its cycles are stamped, and its number of header blocks.
fn record(uuid: Uuid, lsn: Lsn, prev_block: u32, logsunit: u32, logv2: bool) -> (Vec<u8>, usize) {
    let sunit = if logv2 && logsunit > 1 { logsunit } else { 0 };
    let size = sunit.max(32 * 1024);
    let headers = if logv2 { record::header_blocks(size) } else { 1 };
    let total = (sunit as usize).max(2 * BLOCK).next_multiple_of(BLOCK);
    let payload = total.saturating_sub(headers.saturating_mul(BLOCK));

    let op = OpHeader {
        tid: SEED_TID.into(),
        len: 8.into(),
        clientid: CLIENT_LOG,
        flags: OpFlags::UNMOUNT,
        res2: 0.into(),
    };
    let mut header = RecordHeader::new_zeroed();
    header.magicno = MAGIC.into();
    header.cycle = lsn.cycle().into();
    header.version = if logv2 { 2 } else { 1 }.into();
    header.len = u32::try_from(payload).unwrap_or(0).into();
    header.lsn = lsn.0.into();
    header.tail_lsn = lsn.0.into();
    header.prev_block = prev_block.into();
    header.num_logops = 1.into();
    header.fmt = FMT_LINUX_LE.into();
    header.fs_uuid = *uuid.as_bytes();
    header.size = size.into();

    let mut bytes = vec![0; total];
    let (head, body) = bytes.split_at_mut(headers.saturating_mul(BLOCK));
    if let Some(first) = body.first_chunk_mut::<{ LEN + BODY.len() }>() {
        let (op_at, body_at) = first.split_at_mut(LEN);
        op_at.copy_from_slice(op.as_bytes());
        body_at.copy_from_slice(&BODY);
    }
    if let Some(block) = head.first_chunk_mut::<BLOCK>() {
        block.copy_from_slice(header.as_bytes());
    }
    (bytes, headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_record_is_what_mkfs_writes() {
        let uuid = Uuid::parse_str("11111111-2222-3333-4444-555555555555").unwrap();
        // Length and CRC32c of the records that mkfs.xfs 6.1 wrote for this uuid.
        for (logsunit, logv2, len, crc) in [
            (0, false, 1024, 0x6a22_1017),
            (1, true, 1024, 0xfe1f_8f30),
            (4096, true, 4096, 0x28cf_f821),
            (65536, true, 65536, 0xe9d9_9fdb),
            (262_144, true, 262_144, 0x7e49_6564),
        ] {
            let record = seed_record(uuid, logsunit, logv2);
            assert_eq!(record.len(), len, "logsunit {logsunit}");
            assert_eq!(xfskit_crc::crc32c(&record), crc, "logsunit {logsunit}");
        }
    }
}
