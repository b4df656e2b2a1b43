//! Model tests: random operations run on a volume and on a plain in-memory model, and both are
//! compared
//! after each step. Another test lets Linux and xfskit change one volume in turns.
//!
//! | module | contents |
//! | --- | --- |
//! | [`mem`] | the model: a filesystem as maps |
//! | [`content`] | the content of the model's files |
//! | [`drawn`] | operations drawn from a seed |
//! | [`operation`] | operations resolved against a tree |
//! | [`ours`] | applies operations with xfskit |
//! | [`linux`] | applies operations with Linux |
//! | [`run`] | runs both sides and reports differences |
//! | [`shrink`] | finds a shorter sequence that still fails |

pub mod content;
pub mod drawn;
pub mod linux;
pub mod mem;
pub mod operation;
pub mod ours;
pub mod run;
pub mod shrink;
