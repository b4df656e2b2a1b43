//! Operation headers, 12 bytes and big-endian, and the transaction header behind a START.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Who wrote an operation: a transaction.
pub const CLIENT_TRANSACTION: u8 = 0x69;
/// Who wrote an operation: the journal itself (unmount).
pub const CLIENT_LOG: u8 = 0xaa;

/// `flags`: opens a transaction; no payload.
pub const START: u8 = 0x01;
/// `flags`: closes a transaction; no payload.
pub const COMMIT: u8 = 0x02;
/// `flags`: the region is cut here and goes on in the next record.
pub const CONTINUE: u8 = 0x04;
/// `flags`: a further piece of a cut region.
pub const WAS_CONT: u8 = 0x08;
/// `flags`: the last piece of a cut region.
pub const END: u8 = 0x10;
/// `flags`: the journal is clean from here.
pub const UNMOUNT: u8 = 0x20;

/// The header, as it stands on disk. `xfs_logprint` calls the fields `oh_tid` and so on.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OpHeader {
    /// Transaction id; random, shared by all operations of one transaction.
    pub tid: U32,
    /// Bytes of payload in this record. Kernels store 0 for the unmount operation.
    pub len: U32,
    /// [`CLIENT_TRANSACTION`] or [`CLIENT_LOG`].
    pub clientid: u8,
    /// [`START`], [`COMMIT`], ….
    pub flags: u8,
    /// Zero.
    pub res2: U16,
}

/// Bytes of an operation header.
pub const LEN: usize = 12;
const _: () = assert!(size_of::<OpHeader>() == LEN);
