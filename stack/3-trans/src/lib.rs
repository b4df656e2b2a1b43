//! Floor 3: the buffer and inode caches, transactions, the CIL, the AIL and the lock order.
//!
//! This floor knows *blocks* and *atomicity*, not trees. The caller passes a verifier that defines
//! what a block contains, and a [log item](log_item) records what a transaction changed.
//!
//! | module | what |
//! | --- | --- |
//! | [`lock`] | [`LockRank`](lock::LockRank): the stack's lock order, checked in debug builds |
//! | [`log_item`] | [`LogItem`]: one block or inode in memory, and its states |
//! | `bytes` | the bytes of a log item, shared with snapshots; only the core of a new inode |
//! | `guard` | guards of a log item, to be stored in a vector |
//! | `buf_map` | [`BufMap`]: where a block lies |
//! | [`buf`] | [`BufCache`]: verified metadata blocks, shared by all readers, in bounded memory |
//! | [`heal`] | [`Heals`]: blocks that failed their verifier and were read in another way |
//! | [`icache`] | [`InodeCache`]: inodes, locked, changed and logged one by one |
//! | [`trans`] | [`Trans`]: lock, edit, then commit or undo |
//! | `work` | the state of a transaction: joined items, undo, items for the CIL |
//! | `cil` | the CIL (committed item list) and its context lock |
//! | `park` | transactions parked between two changes of their thread |
//! | `error` | [`TransError`]: why a transaction cannot continue |
//! | [`engine`] | [`Engine`]: caches, CIL, journal and AIL of a writable volume; shutdown |
//! | `force` | group commit: many threads in fsync share one checkpoint |
//! | [`running`] | [`Running`]: an engine with threads that write checkpoints and push the AIL |
//! | `signal` | the signal that wakes such a thread |
//! | `journal` | [`Journal`]: the journal as checkpoints leave it |
//! | `checkpoint` | writes the CIL as a checkpoint into the journal |
//! | `intents` | intents and done items: work that takes several transactions |
//! | `ail` | the AIL (active item list): items to write in place; the journal's tail |
//! | `writeback` | the state of the AIL push |
//! | `push` | AIL push: writes items in place, sorted and stamped |
//! | [`busy`] | [`BusyExtents`]: freed extents, not reused until their checkpoint is durable |
//! | `remapped` | remapped extents, not written in place until their checkpoint is durable |
//! | `tally` | what each thread counts of its transactions |
//! | `unwinding` | recognizes a panic: the volume is shut down before others see what it left |
//! | [`stats`] | [`Stats`]: counters of work done and of lock waits |
//!
//! `ARCHITECTURE.md` follows a write through these modules; `docs/design/transactions.md` gives the
//! reasons.

mod ail;
pub mod buf;
mod buf_map;
pub mod busy;
mod bytes;
mod checkpoint;
mod cil;
pub mod engine;
mod error;
mod force;
mod guard;
pub mod heal;
pub mod icache;
mod intents;
mod journal;
pub mod lock;
pub mod log_item;
mod park;
#[cfg(all(test, shuttle))]
mod protocols;
mod push;
mod remapped;
pub mod running;
mod signal;
pub mod stats;
mod sync;
mod tally;
#[cfg(test)]
mod testing;
pub mod trans;
mod unwinding;
mod work;
mod writeback;

pub use buf::{BufCache, BufError};
pub use buf_map::BufMap;
pub use busy::{BusyExtents, Freed};
pub use bytes::Buf;
pub use cil::Delta;
pub use engine::{DataTicket, Engine};
pub use error::{Busy, ShutDown, TransError};
pub use guard::Shared;
pub use heal::{Healed, Heals};
pub use icache::{InodeCache, InodeLocation};
pub use intents::IntentItem;
pub use journal::Journal;
pub use lock::LockPosition;
pub use log_item::{DiskLocation, LogItem, NewCluster};
pub use running::Running;
pub use stats::Stats;
pub use trans::{Held, Trans};
pub use work::Handle;

#[cfg(test)]
mod tests;
