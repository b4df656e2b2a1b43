//! Floor 7: a volume as a mounted filesystem.
//!
//! The kernel sends the system calls of programs as requests (FUSE). A [`Session`] mounts a volume
//! and serves them until it is unmounted. The mount is the volume's only writer, so the kernel may
//! cache names, attributes and content for as long as it likes.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`operations`] | the operations, whatever carries the requests |
//! | [`server`] | runs them on a volume |
//! | [`idmap`] | shows other owners than those of the volume |
//! | `nodes` | the inodes that the kernel refers to |
//! | [`freeze`] | changes that wait |
//! | `ioctl`, `geometry` | ioctls and their arguments |
//! | `read_ahead` | how far the kernel reads ahead |
//! | `transport` | requests of the kernel, by the FUSE device or io_uring |
//! | [`session`] | mounts, commits, unmounts |
//! | `ended` | the end of a mount, which threads wait for |
//! | `idle` | unmounts what is not in use |
//! | [`options`] | options of a mount |
//! | [`statistics`] | counts of requests, and how long they took |

mod ended;
pub mod freeze;
mod geometry;
mod idle;
pub mod idmap;
mod ioctl;
mod nodes;
pub mod operations;
pub mod options;
mod read_ahead;
pub mod server;
pub mod session;
pub mod statistics;
mod transport;

pub use idmap::{IdMap, IdMapError};
pub use options::{Atime, Durable, OptionError, Options};
pub use server::Server;
pub use session::Session;
pub use statistics::{Carried, Carrier, Kind, Requests, Statistics};
