//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod at_rest;
mod attrs_written;
mod content;
mod damaged_names;
mod directories;
mod files;
mod hints;
mod names;
mod sharing;
