//! A volume mounted by xfskit beside one mounted by Linux: what the tests share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`run`] | what a program saw, and what cannot be compared |
//! | [`tree`] | the trees that are left, seen where they were made and on the volume |
//! | [`pair`] | both mounts, and their comparison |
//! | [`calls`] | random system calls |
//! | [`users`] | calls by other users |

pub mod calls;
pub mod pair;
pub mod run;
pub mod tree;
pub mod users;
