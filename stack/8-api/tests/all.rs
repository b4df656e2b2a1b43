//! All integration tests of this crate but the listing of its surface, in one program: it is linked
//! once, and its tests share the processors.

mod api;
mod arrays;
mod builders;
mod closing;
mod common;
mod compare;
mod examples;
mod files;
mod guess;
mod live;
mod locate;
mod repair;
mod snapshot;
mod trees;
mod undelete;
mod verified_array;
