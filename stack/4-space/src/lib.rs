//! Floor 4: the space of allocation groups: free extents, inode chunks, reverse mappings, reference
//! counts.
//!
//! A [`Space`] is the part of a volume that allocation needs: geometry, buffer cache, engine, and
//! hints about each group. A [`SpaceTx`] is a transaction that may allocate and free.
//! Inodes, forks and names are above: this crate knows an inode as a number in a chunk, and a file
//! as the [`Owner`] of an extent.
//!
//! | read in this order | contents |
//! | --- | --- |
//! | [`error`] | errors |
//! | [`extent`] | owners of extents, and requests to allocate one |
//! | `deferred` | work that is put off to the end of a transaction |
//! | `hints`, `rotor`, `record_cache`, `reserved`, `kept` | hints and caches between transactions |
//! | [`space`] | [`Space`]: geometry, headers of groups, counters |
//! | [`reservation`] | blocks that are set aside before they are allocated |
//! | [`tx`] | [`SpaceTx`]: group headers and blocks in a transaction |
//! | [`btree`] | btrees of all kinds, changed in transactions |
//! | [`kinds`], [`agtree`] | the six btrees of a group: their records, their roots |
//! | `busy`, `agfl`, `free_space` | the free extents of one group, and its free list |
//! | `edits`, `rmap` | reverse mappings |
//! | `refill`, `reserve`, `alloc` | the choice of a group; allocation and freeing |
//! | `exact` | allocation of blocks that are named exactly |
//! | `refcount` | reference counts and staging extents |
//! | `finish` | the deferred work |
//! | `trim` | free blocks, for the device to forget |
//! | `walk` | the btrees of a group, read without a transaction |
//! | [`inodes`] | inode numbers: allocation and freeing, by chunks |

mod agfl;
pub mod agtree;
mod alloc;
pub mod btree;
mod busy;
mod deferred;
mod edits;
pub mod error;
mod exact;
pub mod extent;
mod finish;
mod free_space;
mod hints;
pub mod inodes;
mod kept;
pub mod kinds;
mod record_cache;
mod refcount;
mod refill;
pub mod reservation;
mod reserve;
mod reserved;
mod rmap;
mod rotor;
pub mod space;
mod trim;
pub mod tx;
mod walk;

pub use deferred::Deferred;
pub use error::{Error, Result};
pub use exact::KeptExtents;
pub use extent::{AllocRequest, Owner};
pub use refcount::RECORDS_MAX;
pub use reservation::BlockReservation;
pub use space::{Counts, Space};
pub use trim::Trimmed;
pub use tx::SpaceTx;
