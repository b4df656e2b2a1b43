//! Integration tests of floor 6: dumps and restores in memory.

mod common;
mod damage;
mod files;
mod volumes;
