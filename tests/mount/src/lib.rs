//! A volume mounted by xfskit beside one mounted by Linux: what the tests share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`pair`] | both mounts, and what a program sees in each |
//! | [`calls`] | random system calls |

pub mod calls;
pub mod pair;
