//! Whole structures in one go, for a volume that is built from nothing.
//!
//! Nothing here reads or writes a device, and nothing is logged. Each part first plans: how many
//! blocks it takes, and where in its fork; once they have a place on the device it fills them one by
//! one, in any order, on any thread. The same input gives the same bytes.

pub mod attr;
pub mod bmbt;
pub mod btree;
pub mod dir;

mod row;
