//! Floor 1: the kernel's FUSE device: mounts, requests and replies.
//!
//! | module | what |
//! | --- | --- |
//! | [`message`] | the structures of the protocol |
//! | [`request`] | a request, parsed |
//! | [`reply`] | where replies go, and those that are more than one structure |
//! | [`init`] | the features that both sides agree on |
//! | [`device`] | reading requests from the device, and writing replies to it |
//! | [`ring`] | requests and replies in memory that the kernel fills and reads, by io_uring |
//! | [`mount`] | mounting, directly or through fusermount3 |
//!
//! The layout of the messages is that of `include/uapi/linux/fuse.h`, protocol 7.31 to 7.45.

pub mod device;
pub mod init;
mod ioctl;
pub mod message;
pub mod mount;
pub mod reply;
pub mod request;
pub mod ring;

pub use device::{Channel, Received};
pub use request::{Operation, Request};
