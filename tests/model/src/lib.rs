//! Random operations on a volume and on a plain model in memory, compared step by step.
//!
//! | module | what |
//! | --- | --- |
//! | [`mem`] | the model: a filesystem as maps |
//! | [`op`] | operations, drawn from a seed |
//! | [`run`] | both sides do the same; what differs is told |
//! | [`shrink`] | the shortest sequence that still fails |

pub mod mem;
pub mod op;
pub mod run;
pub mod shrink;
