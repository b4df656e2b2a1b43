//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod exchange;
mod full;
mod limits;
mod random;
mod threads;
mod turns;
