//! Faulty devices: every access of a workload of all kinds of operations fails once, or comes to something else than the
//! device says. What follows is a correct answer or a clean error, never a wrong one.
//!
//! | module | what |
//! | --- | --- |
//! | [`work`] | the workload: operations one by one, and the volume they run on |
//! | [`judge`] | runs on a faulty device, and what is asked of it afterwards |
//! | [`tree`] | what a volume shows: every node of it, by path |

pub mod judge;
pub mod tree;
pub mod work;
