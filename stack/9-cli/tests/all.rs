//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

mod bad_input;
mod bench;
mod bench_runs;
mod change;
mod claims;
mod common;
mod copies;
mod damaged_journal;
mod findings;
mod heal;
mod hostile;
mod lost_superblock;
mod make;
mod md;
mod md_bad_input;
mod md_guess;
mod md_manage;
mod mount;
mod mount_damage;
mod mount_helper;
mod mount_users;
mod names;
mod programs;
mod read;
mod verified_reads;
