//! Replies to one request.

use std::io;

use rustix::io::Errno;
use xfskit_devfuse::message::{CreateOut, GetxattrOut, IoctlIn, IoctlOut, StatfsOut};
use xfskit_devfuse::reply::{Listing, Sink};
use xfskit_vfs::Stat;
use zerocopy::{Immutable, IntoBytes};

use super::encode;
use crate::operations::{Node, Reply, Statfs};

/// Replies to one request.
pub(super) struct Replier<'s> {
    pub sink: &'s mut dyn Sink,
}

impl Replier<'_> {
    pub(super) fn fail(self, error: Errno) -> io::Result<()> {
        self.sink.reply(Err(error))
    }

    pub(super) fn with<T: IntoBytes + Immutable>(self, value: Reply<T>) -> io::Result<()> {
        match value {
            Ok(value) => self.sink.reply(Ok(&[value.as_bytes()])),
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn empty(self, result: Reply<()>) -> io::Result<()> {
        match result {
            Ok(()) => self.sink.reply(Ok(&[])),
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn bytes(self, bytes: Reply<Vec<u8>>) -> io::Result<()> {
        match bytes {
            Ok(bytes) => self.sink.reply(Ok(&[&bytes])),
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn attr(self, stat: Reply<Stat>) -> io::Result<()> {
        self.with(stat.map(|stat| encode::attr(&stat)))
    }

    pub(super) fn entry(self, node: Result<&Option<Node>, &Errno>) -> io::Result<()> {
        self.with(node.map(|node| encode::entry(node.as_ref())).map_err(|&error| error))
    }

    pub(super) fn created(self, node: Reply<Node>) -> io::Result<()> {
        self.with(
            node.map(|node| CreateOut {
                entry: encode::entry(Some(&node)),
                open: encode::opened(),
            }),
        )
    }

    pub(super) fn listing(self, listed: Reply<()>, listing: &Listing) -> io::Result<()> {
        match listed {
            Ok(()) => self.sink.reply(Ok(&[listing.bytes()])),
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn statfs(self, of: &Statfs) -> io::Result<()> {
        let out = StatfsOut {
            blocks: of.blocks,
            bfree: of.blocks_free,
            bavail: of.blocks_free,
            files: of.inodes,
            ffree: of.inodes_free,
            bsize: of.blocksize,
            frsize: of.blocksize,
            namelen: of.name_max,
            ..StatfsOut::default()
        };
        self.with(Ok(out))
    }

    /// Replies with a value, or its size if `size` is 0.
    pub(super) fn sized(self, value: Reply<Vec<u8>>, size: u32) -> io::Result<()> {
        match value {
            Ok(value) if size == 0 => {
                let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
                self.with(Ok(GetxattrOut { size, padding: 0 }))
            }
            Ok(value) if value.len() as u64 > u64::from(size) => self.fail(Errno::RANGE),
            value => self.bytes(value),
        }
    }

    pub(super) fn ioctl(self, arg: &IoctlIn, result: Reply<Vec<u8>>) -> io::Result<()> {
        match result {
            Ok(bytes) if bytes.len() as u64 > u64::from(arg.out_size) => self.fail(Errno::INVAL),
            Ok(bytes) => {
                let out = IoctlOut::default();
                self.sink.reply(Ok(&[out.as_bytes(), &bytes]))
            }
            Err(error) => self.fail(error),
        }
    }
}
