//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod crashes;
mod exchange;
mod killed;
mod restore;
