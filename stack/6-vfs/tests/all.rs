//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod acls;
mod common;
mod damage;
mod exchange;
mod features;
mod hints;
mod ncheck;
mod orphans;
mod share;
mod unreadable;
