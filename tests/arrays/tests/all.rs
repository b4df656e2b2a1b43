//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod assemble;
mod badblocks;
mod crash;
mod damage;
mod decoders;
mod force_and_overlay;
mod guess;
mod healing;
mod kernel;
mod kernel_crash;
mod kernel_logs;
mod kernel_made;
mod kernel_sync_actions;
mod lifecycle;
mod logs;
mod model;
mod monitor;
mod raid0;
mod reading;
mod scrubbing;
mod sequential;
mod sync_actions;
mod verified_reads;
mod writing;
