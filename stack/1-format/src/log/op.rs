//! Operation headers, 12 bytes and big-endian, and the transaction header that follows a START.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian as le};

use crate::corruption::{Expected, VerifyResult};
use crate::ctx::Ctx;

/// Writer of an operation: a transaction.
pub const CLIENT_TRANSACTION: u8 = 0x69;
/// Writer of an operation: the journal itself (unmount).
pub const CLIENT_LOG: u8 = 0xaa;

xfskit_units::flag_word! {
    /// The `flags` of an operation, named as `xfs_logprint` prints them.
    #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
    #[repr(transparent)]
    pub struct OpFlags: u8 {
        /// Opens a transaction; no payload.
        START = 1 << 0, "START";
        /// Closes a transaction; no payload.
        COMMIT = 1 << 1, "COMMIT";
        /// The region is split here and continues in the next record.
        CONTINUE = 1 << 2, "CONTINUE";
        /// A further piece of a split region.
        WAS_CONT = 1 << 3, "WAS_CONT";
        /// The last piece of a split region.
        END = 1 << 4, "END";
        /// The journal is clean from here.
        UNMOUNT = 1 << 5, "UNMOUNT";
    }
}

/// The header, as it is on disk. `xfs_logprint` calls the fields `oh_tid` and so on.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OpHeader {
    /// Transaction id; random, shared by all operations of one transaction.
    pub tid: U32,
    /// Bytes of payload in this record. Kernels store 0 for the unmount operation.
    pub len: U32,
    /// [`CLIENT_TRANSACTION`] or [`CLIENT_LOG`].
    pub clientid: u8,
    /// The role of the operation in its transaction.
    pub flags: OpFlags,
    /// Zero.
    pub res2: U16,
}

/// Bytes of an operation header.
pub const LEN: usize = 12;
const _: () = assert!(size_of::<OpHeader>() == LEN);

/// One operation: its header and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// The header.
    pub header: &'a OpHeader,
    /// Offset of the header in the payload, in bytes.
    pub offset: usize,
    /// Its data.
    pub data: &'a [u8],
}

impl Op<'_> {
    /// Returns true if all of `flags` are set.
    pub fn has(&self, flags: OpFlags) -> bool {
        self.header.flags.contains(flags)
    }
}

/// Iterates over the first `num_logops` operations of an unpacked payload; ends after the first bad
/// one.
pub fn ops<'a>(
    payload: &'a [u8],
    num_logops: u32,
    ctx: &Ctx<'_>,
) -> impl Iterator<Item = VerifyResult<Op<'a>>> {
    let mut rest = Some(payload);
    (0..num_logops).map_while(move |index| {
        let bytes = rest?;
        let offset = payload.len().saturating_sub(bytes.len());
        let op = op(bytes, offset, &ctx.entry(index as usize));
        rest = op.as_ref().ok().and_then(|op| bytes.get(LEN.saturating_add(op.data.len())..));
        Some(op)
    })
}

/// Returns the operation at the start of `bytes`.
fn op<'a>(bytes: &'a [u8], offset: usize, ctx: &Ctx<'_>) -> VerifyResult<Op<'a>> {
    let Ok((header, rest)) = OpHeader::ref_from_prefix(bytes) else {
        return Err(ctx.short("log.op.header", bytes.len()));
    };
    let known = matches!(header.clientid, CLIENT_TRANSACTION | CLIENT_LOG);
    ctx.require("log.op.clientid", known, "105 (transaction) or 170 (log)", header.clientid)?;
    let Some(data) = rest.get(..header.len.get() as usize) else {
        let room = Expected::AtMost(rest.len().into());
        return Err(ctx.corruption("log.op.len", room, header.len.get()));
    };
    Ok(Op { header, offset, data })
}

/// "TRAN".
pub const TRANS_MAGIC: u32 = 0x5452_414e;
/// `type` of checkpoints of delayed logging. Older kernels used other numbers; no reader uses the
/// field.
pub const TRANS_CHECKPOINT: u32 = 40;

/// The transaction header: the first region of every transaction. `xfs_logprint` calls the fields
/// `th_magic` and so on.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TransHeader {
    /// [`TRANS_MAGIC`].
    pub magic: le::U32,
    /// [`TRANS_CHECKPOINT`].
    pub r#type: le::U32,
    /// The transaction id, little-endian here.
    pub tid: le::U32,
    /// Regions of the transaction. Informational.
    pub num_items: le::U32,
}
const _: () = assert!(size_of::<TransHeader>() == 16);

impl TransHeader {
    /// Verifies the first region of a transaction.
    ///
    /// # Errors
    /// If the region has another length or magic.
    pub fn verify<'a>(region: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<&'a Self> {
        let Ok(header) = Self::ref_from_bytes(region) else {
            let whole = Expected::Exactly(size_of::<Self>().into());
            return Err(ctx.corruption("log.trans.len", whole, region.len()));
        };
        ctx.eq_hex("log.trans.magic", TRANS_MAGIC, header.magic.get())?;
        Ok(header)
    }
}
