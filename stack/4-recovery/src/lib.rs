//! Floor 4: journal recovery. Applies the changes in the journal to the disk.
//!
//! The journal is read twice from tail to head. The first pass changes nothing. It verifies every
//! record and item, and collects the buffers that were freed (`cancel`). Older images of those must
//! not be replayed, because their blocks may hold file data by now. The second pass applies
//! transaction after transaction, in the order of their commits. Within a transaction the items are
//! applied in five ranks (`pass`).
//!
//! The LSN on a block tells whether a change is already in place, because every write stamps the
//! block with the LSN of the transaction that changed it. All transactions that share an LSN must
//! be compared with the state on disk before any of them. Changes are therefore collected in a
//! `queue`, and written when a transaction with another LSN follows.
//!
//! Recovery writes to the device it is given. A volume that is opened for reading gives it an
//! overlay in memory.
//!
//! Replay leaves intents without done items untouched, and inodes on unlinked lists. The [`Replay`]
//! lists both. `5-core` finishes intents in transactions of their own, and frees unlinked inodes,
//! once the volume is open. Quota records are skipped.
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | errors; where a journal is damaged |
//! | `options` | what a caller may ask for |
//! | `replay` | both passes, and what they found |
//! | `before_damage` | for a repair: the replay of a damaged journal up to the damage |
//! | `pass` | the second pass: items by rank |
//! | `queue` | changed sectors that wait for the write, and their stamps |
//! | `cancel` | buffers that were freed |
//! | `buffer` | BUF items; the superblock; unlinked pointers |
//! | `inode` | INODE and ICREATE items |
//! | `owner` | changes of the owner of extent btree blocks |
//! | `pieces` | directory blocks in several pieces, which Linux cannot recover |
//! | `restamp` | their CRC, when everything is in place |
//! | `counters` | the superblock's counters, from the group headers |
//! | `intents` | intents and their done items |

mod before_damage;
mod buffer;
mod cancel;
mod counters;
mod error;
mod inode;
mod intents;
mod options;
mod owner;
mod pass;
mod pieces;
mod queue;
mod replay;
mod restamp;

pub use before_damage::{BeforeDamage, Lost, replay_before_damage};
pub use error::{Error, JournalDamage, Result};
pub use inode::{write_core, write_forks};
pub use options::{OnReplay, ReplayOptions};
pub use pass::{Counts, for_items};
pub use replay::{Replay, open_log, replay, replay_if};
