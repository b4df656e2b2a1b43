//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod circles;
mod ids;
mod layering;
mod tidy;
mod unit_tests;
