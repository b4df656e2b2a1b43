//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod bytes;
mod geometry;
mod stripes;
