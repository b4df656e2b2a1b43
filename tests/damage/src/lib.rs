//! Every field of every structure, damaged; the repair of xfskit and that of `xfs_repair` side by
//! side on the same volume.
//!
//! | module | contents |
//! | --- | --- |
//! | [`populate`] | volumes with every structure, made by a mount of Linux |
//! | [`base`] | the volume without damage, and copies of it |
//! | [`locate`] | finds the structures on the volume |
//! | [`fields`] | the fields of each structure, as ranges of bits |
//! | [`verbs`] | the ways to change a field |
//! | [`case`](mod@case) | one structure, one field, one verb |
//! | [`tree`] | what a mount of Linux shows, and what is lost of it |
//! | [`child`] | the steps that may crash or hang, each a process of its own |
//! | [`trial`] | one case on both sides, and its outcomes |
//! | [`report`] | the table of outcomes, as text and JSON |
//! | [`run`](mod@run) | all cases of one volume, several at once |
//!
//! The scheme is that of xfstests' group `dangerous_fuzzers`.

pub mod base;
pub mod case;
pub mod child;
pub mod fields;
pub mod locate;
pub mod populate;
pub mod report;
pub mod run;
pub mod tree;
pub mod trial;
pub mod verbs;
