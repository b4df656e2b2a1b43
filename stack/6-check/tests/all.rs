//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod clean;
mod common;
mod copies;
mod documentation;
mod faults;
mod flips;
mod planted;
mod repair;
