//! The features that both sides agree on.

use bitflags::bitflags;

use crate::message::{InitIn, InitOut};

/// The protocol's major version.
const MAJOR: u32 = 7;
/// The newest minor version whose messages are known here.
const MINOR: u32 = 45;
/// The oldest: Linux 5.4.
const MINOR_MIN: u32 = 31;
/// Bytes of a page: the protocol counts in them.
const PAGE: u32 = 4096;

bitflags! {
    /// Features of the protocol (`FUSE_…` of INIT).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u64 {
        /// Reads at once of one file.
        const ASYNC_READ = 1;
        /// OPEN truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Files can be opened by their handles, by an NFS server.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// ioctl(2) of directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// Listings with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// … where they seem to be of use.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct reads and writes at once of one file.
        const ASYNC_DIO = 1 << 15;
        /// The kernel caches writes, sizes and times.
        const WRITEBACK_CACHE = 1 << 16;
        /// OPEN may be refused for good.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups and listings at once of one directory.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks ACLs.
        const POSIX_ACL = 1 << 20;
        /// The reply says how many pages a request may have.
        const MAX_PAGES = 1 << 22;
        /// The kernel caches targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
        /// OPENDIR may be refused for good.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Only the server drops cached content.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The kernel says when setuid and setgid go.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// The second word of features counts.
        const INIT_EXT = 1 << 30;
        /// Files of direct I/O can be mapped.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Requests come by io_uring.
        const OVER_IO_URING = 1 << 41;
    }
}

/// What the server asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Each is used if the kernel has it.
    pub features: Features,
    /// Bytes of one write.
    pub max_write: u32,
    /// Bytes that are read ahead.
    pub max_readahead: u32,
    /// Requests in the background that the kernel sends at once.
    pub max_background: u16,
}

/// Returns the features of a kernel's INIT.
pub fn offered(init: &InitIn) -> Features {
    let second = if init.flags & flag(Features::INIT_EXT) != 0 { init.flags2 } else { 0 };
    Features::from_bits_retain(u64::from(second) << 32 | u64::from(init.flags))
}

/// Returns the reply to INIT; `None` if the kernel's protocol is too old or too new.
pub fn reply(init: &InitIn, wishes: &Wishes) -> Option<InitOut> {
    if init.major != MAJOR || init.minor < MINOR_MIN {
        return None;
    }
    let used = offered(init) & (wishes.features | Features::INIT_EXT | Features::MAX_PAGES);
    let bits = used.bits();
    let pages = wishes.max_write.div_ceil(PAGE);
    Some(InitOut {
        major: MAJOR,
        minor: MINOR.min(init.minor),
        max_readahead: wishes.max_readahead.min(init.max_readahead),
        flags: u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default(),
        flags2: u32::try_from(bits >> 32).unwrap_or_default(),
        max_background: wishes.max_background,
        congestion_threshold: wishes.max_background / 4 * 3,
        max_write: wishes.max_write,
        time_gran: 1,
        max_pages: u16::try_from(pages).unwrap_or(u16::MAX),
        ..InitOut::default()
    })
}

/// Returns the features that a reply to INIT settles.
pub fn settled(reply: &InitOut) -> Features {
    Features::from_bits_retain(u64::from(reply.flags2) << 32 | u64::from(reply.flags))
}

/// Returns the bit of a feature of the first word.
fn flag(feature: Features) -> u32 {
    u32::try_from(feature.bits()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISHES: Wishes = Wishes {
        features: Features::WRITEBACK_CACHE.union(Features::DIRECT_IO_ALLOW_MMAP),
        max_write: 1 << 20,
        max_readahead: 1 << 20,
        max_background: 64,
    };

    fn kernel(features: Features) -> InitIn {
        let bits = features.bits();
        InitIn {
            major: 7,
            minor: 40,
            max_readahead: 131_072,
            flags: (bits & 0xFFFF_FFFF) as u32,
            flags2: (bits >> 32) as u32,
        }
    }

    #[test]
    fn only_what_both_have_is_used() {
        let all = WISHES.features | Features::INIT_EXT | Features::POSIX_ACL;
        let out = reply(&kernel(all), &WISHES).unwrap();
        assert_eq!((out.flags, out.flags2), (1 << 16 | 1 << 30, 1 << 4));
        assert_eq!(settled(&out), WISHES.features | Features::INIT_EXT);
        assert_eq!((out.minor, out.max_readahead, out.max_pages), (40, 131_072, 256));
        let out = reply(&kernel(WISHES.features), &WISHES).unwrap();
        assert_eq!((out.flags, out.flags2), (1 << 16, 0));
    }

    #[test]
    fn other_protocols_are_refused() {
        assert!(reply(&InitIn { major: 8, ..kernel(Features::empty()) }, &WISHES).is_none());
        assert!(reply(&InitIn { minor: 30, ..kernel(Features::empty()) }, &WISHES).is_none());
    }
}
