//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod big;
mod block_devices;
mod build;
mod faults;
mod get;
mod harness;
mod inode_rules;
mod journal_options;
mod locate;
mod logs;
mod metadump;
mod mkfs;
mod orphans;
mod quota;
mod reserve;
mod unmounted;
mod uuid;
mod volumes;
