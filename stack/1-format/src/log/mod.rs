//! The journal: the formats of records, operations and items.
//!
//! The journal is a ring of 512-byte blocks. Writers fill it with *records*. A record's payload is
//! a sequence of *operations*, each a small header and a *region* of bytes. The regions between the
//! START and the COMMIT of one transaction id are a *transaction*. A transaction's regions form
//! *items*: "these 128-byte chunks of that buffer changed", "this inode is now as follows", "these
//! extents must still be freed".
//!
//! | module | content |
//! | --- | --- |
//! | [`record`] | the record header, its checksum, the cycle numbers stamped over a record |
//! | [`op`] | operation headers and the transaction header |
//! | [`item`] | the items: buffers, inodes, inode chunks, intents and done items |
//! | [`stamp`] | offsets of CRC, LSN and UUID in a block |
//! | [`unmount`] | the record that marks a journal clean, and the one mkfs seeds it with |
//!
//! Byte orders differ: record and operation headers are big-endian, items are in the order of the
//! machine that wrote them (little-endian, the only one supported), and the bytes in a buffer item
//! are the big-endian metadata itself.

pub mod item;
pub mod op;
pub mod record;
pub mod stamp;
pub mod unmount;

pub use item::Item;
pub use record::RecordHeader;
pub use stamp::Stamp;
pub use unmount::{seed_record, unmount_record};

#[cfg(test)]
mod tests;
