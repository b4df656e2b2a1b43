//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod chains;
mod cleared;
mod intents;
mod kept;
mod kernel;
mod logprint;
mod lost_headers;
mod newer;
mod pieces;
mod stress;
mod torn;
mod writer;
