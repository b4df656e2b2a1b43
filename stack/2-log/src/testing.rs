//! A writer of journals for tests. It knows all positions, so tests can compare the reader with it.

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::log::op::{self, OpFlags, OpHeader, TransHeader};
use xfskit_format::log::record::{self, BLOCK, FMT_LINUX_LE, MAGIC, RecordHeader};
use xfskit_format::log::unmount_record;
use xfskit_units::features::VersionNum;
use xfskit_units::{ByteLen, Daddr, Features, Geometry, LogBlock, Lsn, Version, example};
use zerocopy::{FromZeros, IntoBytes};

use crate::{Log, Result};

/// Returns the geometry of a volume with a journal of `logblocks` blocks of 4 KiB.
pub(crate) fn geo(version: Version, logblocks: u32, logsunit: u32) -> Geometry {
    let bits = if logsunit == u32::MAX { 0xb0a0 } else { 0xb4a0 };
    let versionnum = VersionNum::from_bits_retain(bits);
    let example = example::geometry();
    Geometry {
        features: Features { version, versionnum, ..example.features },
        logblocks,
        logsunit: if logsunit == u32::MAX { 0 } else { logsunit },
        ..example
    }
}

/// An operation as a test writes it: transaction id, flags, bytes.
pub(crate) type TestOp<'a> = (u32, OpFlags, &'a [u8]);

/// An operation without flags: a whole region.
pub(crate) const NONE: OpFlags = OpFlags::empty();
pub(crate) const START: OpFlags = OpFlags::START;
pub(crate) const COMMIT: OpFlags = OpFlags::COMMIT;
pub(crate) const CONTINUE: OpFlags = OpFlags::CONTINUE;
pub(crate) const WAS_CONT: OpFlags = OpFlags::WAS_CONT;
pub(crate) const END: OpFlags = OpFlags::END;

/// A journal in memory and its writer.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) dev: MemDevice,
    pub(crate) geo: Geometry,
    /// Position of the next record.
    pub(crate) head: Lsn,
    pub(crate) prev: u32,
    /// Record buffer, in bytes.
    pub(crate) size: u32,
}

impl Writer {
    /// Makes an empty, zeroed journal.
    pub(crate) fn new(geo: Geometry) -> Self {
        let dev = MemDevice::new(ByteLen(u64::from(geo.log_bbs()) * 512));
        let size = geo.logsunit.max(32 * 1024);
        Self { dev, geo, head: Lsn::new(1, LogBlock(0)), prev: u32::MAX, size }
    }

    pub(crate) fn open(&self) -> Result<Log<'_>> {
        Log::open(&self.dev, Daddr(0), &self.geo)
    }

    /// Appends a record of these operations and returns its LSN.
    pub(crate) fn append(&mut self, tail: Option<Lsn>, ops: &[TestOp<'_>]) -> Lsn {
        let mut payload = Vec::new();
        for (tid, flags, data) in ops {
            let op = OpHeader {
                tid: (*tid).into(),
                len: u32::try_from(data.len()).unwrap().into(),
                clientid: op::CLIENT_TRANSACTION,
                flags: *flags,
                res2: 0.into(),
            };
            payload.extend_from_slice(op.as_bytes());
            payload.extend_from_slice(data);
        }
        let v2 = self.geo.features.logv2();
        let headers = if v2 { record::header_blocks(self.size) } else { 1 };
        let unit = (self.geo.logsunit as usize).max(BLOCK);
        let len = payload.len();
        let total = (headers * BLOCK + len).next_multiple_of(unit);
        let len = if v2 { total - headers * BLOCK } else { len };

        let mut header = RecordHeader::new_zeroed();
        header.magicno = MAGIC.into();
        header.cycle = self.head.cycle().into();
        header.version = if v2 { 2 } else { 1 }.into();
        header.len = u32::try_from(len).unwrap().into();
        header.lsn = self.head.0.into();
        header.tail_lsn = tail.unwrap_or(self.head).0.into();
        header.prev_block = self.prev.into();
        header.num_logops = u32::try_from(ops.len()).unwrap().into();
        header.fmt = FMT_LINUX_LE.into();
        header.fs_uuid = *self.geo.uuid.as_bytes();
        header.size = self.size.into();

        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(headers * BLOCK, 0);
        bytes.extend_from_slice(&payload);
        bytes.resize(total, 0);
        record::pack(&mut bytes, headers, self.head.cycle());
        record::wrap(&mut bytes, (self.geo.log_bbs() - self.head.block().0) as usize);
        // The checksum ends with the payload, not with its padding.
        record::sum(&mut bytes[..headers * BLOCK + len], headers);
        self.put(&bytes)
    }

    /// Appends an unmount record.
    pub(crate) fn unmount(&mut self) -> Lsn {
        let bytes = unmount_record(&self.geo, self.head, self.prev);
        self.put(&bytes)
    }

    /// Appends one transaction in one record, with a region of `len` bytes after its header.
    pub(crate) fn transaction(&mut self, tail: Option<Lsn>, tid: u32, len: usize) -> Lsn {
        let header = trans_header(tid);
        let region = vec![0xaa; len];
        let ops: &[TestOp<'_>] =
            &[(tid, START, &[]), (tid, NONE, &header), (tid, NONE, &region), (tid, COMMIT, &[])];
        self.append(tail, ops)
    }

    fn put(&mut self, bytes: &[u8]) -> Lsn {
        let at = self.head;
        let ring = crate::Ring::new(&self.dev, Daddr(0), &self.geo).unwrap();
        ring.write(at.block(), bytes).unwrap();
        let end = at.block().0 + u32::try_from(bytes.len() / BLOCK).unwrap();
        let blocks = ring.blocks();
        self.head = if end < blocks {
            Lsn::new(at.cycle(), LogBlock(end))
        } else {
            Lsn::new(record::next_cycle(at.cycle()), LogBlock(end - blocks))
        };
        self.prev = at.block().0;
        at
    }

    /// Changes one byte of block `at`.
    pub(crate) fn damage(&self, at: LogBlock, byte: u64) {
        let offset = xfskit_units::ByteOffset(u64::from(at.0) * 512 + byte);
        let mut found = [0];
        self.dev.read_at(offset, &mut found).unwrap();
        self.dev.write_at(offset, &[found[0] ^ 1]).unwrap();
    }
}

/// Returns the first region of a transaction.
pub(crate) fn trans_header(tid: u32) -> Vec<u8> {
    let header = TransHeader {
        magic: op::TRANS_MAGIC.into(),
        r#type: op::TRANS_CHECKPOINT.into(),
        tid: tid.into(),
        num_items: 1.into(),
    };
    header.as_bytes().to_vec()
}
