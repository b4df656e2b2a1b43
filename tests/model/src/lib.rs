//! Random operations on a volume and on a plain model in memory, compared step by step; and Linux doing the
//! same, in turns.
//!
//! | module | what |
//! | --- | --- |
//! | [`mem`] | the model: a filesystem as maps |
//! | [`content`] | what the model's files hold |
//! | [`op`] | operations, drawn from a seed |
//! | [`deed`] | what an operation comes to on a given tree |
//! | [`ours`] | xfskit does it |
//! | [`linux`] | Linux does it |
//! | [`run`] | xfskit and the model do the same; what differs is told |
//! | [`shrink`] | the shortest sequence that still fails |

pub mod content;
pub mod deed;
pub mod linux;
pub mod mem;
pub mod op;
pub mod ours;
pub mod run;
pub mod shrink;
