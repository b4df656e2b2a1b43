//! The journal: how records, operations and items look as bytes.
//!
//! The journal is a ring of 512-byte blocks. Writers fill it with *records*; a record's payload is a
//! sequence of *operations*, each a small header and a *region* of bytes; the regions between the
//! START and the COMMIT of one transaction id are a *transaction*; and a transaction's regions,
//! taken one by one, are *items*: "these 128-byte chunks of that buffer changed", "this inode now
//! looks so", "these extents must still be freed".
//!
//! | module | what |
//! | --- | --- |
//! | [`record`] | the record header, its checksum, the cycle numbers stamped over a record |
//! | [`op`] | operation headers and the transaction header |
//! | [`item`] | the items: buffers, inodes, inode chunks, intents and their completion |
//! | [`stamp`] | where a changed block carries CRC, LSN and UUID |
//! | [`unmount`] | the record that marks a journal clean, and the one mkfs seeds it with |
//!
//! Endianness has three flavours here: record and operation headers are big-endian, items are in
//! the order of the machine that wrote them (little-endian, the only one supported), and what a
//! buffer item carries is the raw big-endian metadata.

pub mod item;
pub mod op;
pub mod record;
pub mod stamp;
#[cfg(test)]
mod tests;
pub mod unmount;

pub use item::Item;
pub use record::RecordHeader;
pub use stamp::Stamp;
pub use unmount::{seed_record, unmount_record};
