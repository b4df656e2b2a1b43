//! Floor 3: the buffer cache, and what will make changes atomic.
//!
//! This floor knows *blocks* and *atomicity*, not trees: what a block means is told by the caller
//! as a verifier, and (with the transactional engine) what a change means as a log item.
//!
//! | module | what |
//! | --- | --- |
//! | [`lock`] | [`LockRank`](lock::LockRank): the one lock order of the stack, checked in debug builds |
//! | [`log_item`] | [`LogItem`]: one block or inode in memory, its states from clean to in place again |
//! | `bytes` | the bytes of a log item, shared with snapshots; of a new inode the core alone |
//! | [`buf`] | [`BufCache`]: verified metadata blocks, shared by all readers, in bounded memory |
//! | [`heal`] | [`Heals`]: blocks that were bad in one way and good in another |
//! | [`icache`] | [`InodeCache`]: inodes that change, one by one |
//! | [`trans`] | [`Trans`]: lock, edit, then commit or undo |
//! | `work` | what a transaction gathers: held items, undo, what it lists |
//! | `park` | transactions at rest between two changes of their thread |
//! | `cil` | the committed-item list, and the gate before it |
//! | [`engine`] | [`Engine`]: when a checkpoint is due, what it takes, shutdown |
//! | `force` | group commit: many threads in fsync share one checkpoint |
//! | [`running`] | [`Running`]: an engine with a thread that writes checkpoints beside the transactions |
//! | [`checkpoint`] | [`Journal`]: what is listed becomes a checkpoint in the journal |
//! | `intents` | work in several transactions: what the journal says is still to be done |
//! | `ail` | the active-item list: written back sorted and stamped; the journal's tail |
//! | [`busy`] | [`BusyExtents`]: freed, and not to be used again yet |
//! | `remapped` | moved, and not to be written in place yet |
//! | [`stats`] | [`Stats`]: what was done so far, and which locks were waited for |
//!
//! ARCHITECTURE.md draws the way of a write; `docs/design/transactions.md` says why it is this way.

mod ail;
pub mod buf;
pub mod busy;
mod bytes;
pub mod checkpoint;
mod cil;
pub mod engine;
mod force;
mod guard;
pub mod heal;
pub mod icache;
mod intents;
pub mod lock;
pub mod log_item;
mod park;
#[cfg(all(test, shuttle))]
mod protocols;
mod remapped;
pub mod running;
pub mod stats;
mod sync;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod trans;
mod work;
mod writeback;

pub use buf::{BufCache, BufError, BufMap};
pub use busy::BusyExtents;
pub use checkpoint::Journal;
pub use engine::{DataTicket, Engine, ShutDown};
pub use guard::Shared;
pub use heal::{Healed, Heals};
pub use icache::{InodeCache, InodeLocation};
pub use intents::IntentItem;
pub use log_item::{Buf, DiskLocation, LogItem, NewCluster};
pub use running::Running;
pub use stats::Stats;
pub use trans::{Busy, Delta, Freed, Handle, Held, LockPosition, Trans, TransError};
