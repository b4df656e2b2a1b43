//! Fault injection: every access of a workload with operations of all kinds fails once, or silently
//! does something else than requested. A correct result or a clean error must follow, never a wrong
//! result.
//!
//! | module | contents |
//! | --- | --- |
//! | [`work`] | the workload: its operations, and the volume they run on |
//! | [`verify`] | runs on a faulty device, and the verification afterwards |
//! | [`tree`] | the tree of a volume: every node, by path |

pub mod tree;
pub mod verify;
pub mod work;
