//! Floor 3: the buffer cache, and what will make changes atomic.
//!
//! This floor knows *blocks* and *atomicity*, not trees: what a block means is told by the caller
//! as a verifier, and (with the transactional engine) what a change means as an item.
//!
//! | module | what |
//! | --- | --- |
//! | [`lock`] | [`LockRank`](lock::LockRank): the one lock order of the stack, checked in debug builds |
//! | [`buf`] | [`BufCache`]: verified metadata blocks, shared by all readers, in bounded memory |
//!
//! Transactions, the committed-item list and the active-item list take their place here, between
//! the journal below and the trees above; ARCHITECTURE.md draws the way of a write.

pub mod buf;
pub mod lock;

pub use buf::{Buf, BufCache, BufError, BufMap};
