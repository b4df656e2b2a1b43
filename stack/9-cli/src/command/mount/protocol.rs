//! The protocol of the control socket of a mount: requests and replies, a line of JSON each.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xfskit::{Carried, FileFork, Mounted, Volume};

use super::mounts::MountEntry;
use crate::command::action::Job;
use crate::command::console::Step;
use crate::command::stats::Counters;
use crate::exit::Failure;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// For the requests of the kernel so far.
    Stats,
    /// For the end of the mount.
    Wait,
    /// For what the volume is, and whether it is frozen.
    Volume,
    /// For the extents of an inode.
    Extents {
        /// Its number.
        ino: u64,
        /// Those of the attributes, not of the content.
        attr: bool,
    },
    /// For the devices as they are now.
    Snapshot,
    /// To make changes wait.
    Freeze,
    /// To let them go on.
    Thaw,
    /// To do something to the array below.
    Array(Job),
}

/// A line of a reply. The last one is `Done`, `Problem`, `Failed`, or the only result of the
/// request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Stats(Stats),
    Ended(Ended),
    Volume(State),
    /// The file whose extents follow.
    File(FileEnd),
    /// Some extents; more may follow.
    Extents(Vec<Extent>),
    /// The protocol of snapshots follows.
    Snapshot,
    /// Something worth knowing; more follows.
    Note(String),
    /// A result in both forms; more follows.
    Result {
        json: Value,
        text: String,
    },
    /// Bytes of a step; more follows.
    Progress {
        step: Step,
        done: u64,
        total: u64,
    },
    Done,
    /// Done, and a problem was found.
    Problem,
    Failed(Failed),
}

/// The requests of the kernel so far, and what the volume did.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stats {
    pub transport: Transport,
    pub requests: Vec<Requests>,
    /// What the volume did for them.
    pub counters: Counters,
    pub first_failure: Option<String>,
}

impl Stats {
    /// Returns those of a mount.
    pub(super) fn of(mounted: &Mounted) -> Self {
        let requests = mounted.requests().into_iter().map(|requests| Requests {
            kind: format!("{:?}", requests.kind).to_lowercase(),
            count: requests.requests,
            seconds: requests.seconds,
            histogram: requests.histogram,
        });
        let counters = Counters::of(mounted.volume());
        Self {
            transport: Transport::of(mounted),
            requests: requests.collect(),
            counters,
            first_failure: mounted.first_failure(),
        }
    }
}

/// What carries the requests of a mount.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Transport {
    /// `device` or `io_uring`.
    pub name: String,
    /// Requests that came by the device,
    pub device: u64,
    /// … and by io_uring.
    pub io_uring: u64,
}

impl Transport {
    fn of(mounted: &Mounted) -> Self {
        let Carried { carrier, device, io_uring } = mounted.carried();
        Self { name: carrier.name().to_owned(), device, io_uring }
    }
}

/// Requests of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Requests {
    pub kind: String,
    #[serde(rename = "requests")]
    pub count: u64,
    pub seconds: f64,
    /// Number of requests below 1 µs, below 2, 4, 8, ….
    pub histogram: Vec<u64>,
}

/// How the end of a mount went.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The error of closing the volume.
    pub error: Option<String>,
}

/// A mounted volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub layout: Layout,
    /// Files can share blocks.
    pub reflink: bool,
    /// Changes wait.
    pub frozen: bool,
}

impl State {
    pub(super) fn of(mounted: &Mounted) -> Self {
        let volume = mounted.volume();
        let (layout, reflink) = (Layout::of(volume), volume.has_reflink());
        Self { layout, reflink, frozen: mounted.is_frozen() }
    }
}

/// What a listing of extents needs to know of a volume. Lengths in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub blocksize: u64,
    /// Length of a group.
    pub group: u64,
    /// Stripe unit, or 0.
    pub unit: u64,
    /// Stripe width, or 0.
    pub width: u64,
    /// Length of a realtime group, or 0.
    #[serde(default)]
    pub rtgroup: u64,
}

impl Layout {
    /// Returns the layout of `volume`.
    pub(crate) fn of(volume: &Volume) -> Self {
        let geo = volume.geometry();
        let bytes = |blocks: u32| u64::from(blocks) << geo.blocklog;
        Self {
            blocksize: bytes(1),
            group: bytes(geo.agblocks),
            unit: bytes(geo.unit),
            width: bytes(geo.width),
            rtgroup: geo.rgblocks << geo.blocklog,
        }
    }
}

/// An extent. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// In the file.
    pub start: u64,
    pub len: u64,
    /// On the device.
    pub device: u64,
    /// First block, in the numbers of the volume.
    pub startblock: u64,
    pub unwritten: bool,
    pub shared: bool,
}

impl From<&xfskit::Extent> for Extent {
    fn from(extent: &xfskit::Extent) -> Self {
        let xfskit::Extent { range, device_offset, startblock, unwritten, shared, .. } = extent;
        let (start, len) = (range.start, range.end.saturating_sub(range.start));
        let (device, startblock) = (*device_offset, *startblock);
        Self { start, len, device, startblock, unwritten: *unwritten, shared: *shared }
    }
}

/// Where the listing of a file ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileEnd {
    /// Size of the content, in bytes.
    pub size: u64,
    /// Extents behind the end of the content are listed, too.
    pub preallocated: bool,
    /// The content is on the realtime device.
    #[serde(default)]
    pub realtime: bool,
}

impl FileEnd {
    /// Returns where the listing of a fork ends.
    pub(crate) fn of(map: &xfskit::ExtentMap, fork: FileFork) -> Self {
        match fork {
            FileFork::Data => {
                Self { size: map.size, preallocated: map.preallocated, realtime: map.realtime }
            }
            FileFork::Attr => Self { size: 0, preallocated: true, realtime: false },
        }
    }
}

/// A [`Failure`] on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    message: String,
    hint: Option<String>,
    exit: u8,
}

impl From<Failure> for Failed {
    fn from(Failure { exit, message, hint }: Failure) -> Self {
        Self { message, hint, exit }
    }
}

impl From<Failed> for Failure {
    fn from(Failed { message, hint, exit }: Failed) -> Self {
        Self { exit, message, hint }
    }
}

/// Returns the address of the socket of the mount with this device number.
pub(super) fn address(device: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("xfskit-mount-{device}"))
}

/// Writes one line.
pub(super) fn send(mut stream: &UnixStream, line: &impl Serialize) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)
}

/// The other end of a request.
pub(super) struct Client {
    stream: BufReader<UnixStream>,
    /// The mount, for messages.
    shown: String,
}

impl Client {
    /// Sends a request to the process that serves `entry`. Returns `None` if there is none.
    pub(super) fn connect(entry: &MountEntry, request: Request) -> Option<Self> {
        let stream = UnixStream::connect_addr(&address(&entry.device).ok()?).ok()?;
        // A process that refuses at once may have hung up; its reply says why.
        let _ = send(&stream, &request);
        Some(Self { stream: BufReader::new(stream), shown: entry.dir.display().to_string() })
    }

    /// Sends a request like [`connect`](Self::connect).
    ///
    /// # Errors
    /// No process serves the mount.
    pub(super) fn ask(entry: &MountEntry, request: Request) -> Result<Self, Failure> {
        Self::connect(entry, request).ok_or_else(|| {
            let shown = entry.dir.display();
            Failure::cannot(format!("{shown}: no process serves the mount"))
                .hint(format!("`xfskit umount {shown}` removes it"))
        })
    }

    /// Returns the next line of the reply.
    ///
    /// # Errors
    /// The request failed, or the process has ended.
    pub(super) fn reply(&mut self) -> Result<Reply, Failure> {
        let mut line = String::new();
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::cannot(format!("{}: the process that serves the mount: {why}", self.shown))
        };
        match self.stream.read_line(&mut line) {
            Ok(0) => return Err(cannot(&"it has ended")),
            Ok(_) => {}
            Err(error) => return Err(cannot(&error)),
        }
        match serde_json::from_str(&line) {
            Ok(Reply::Failed(failed)) => Err(failed.into()),
            Ok(reply) => Ok(reply),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Returns the failure of a reply that belongs to another request.
    pub(super) fn unexpected(&self) -> Failure {
        Failure::cannot(format!("{}: the mount is of another version of xfskit", self.shown))
    }

    /// Waits for the end of a request without a result.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub(super) fn done(mut self) -> Result<(), Failure> {
        match self.reply()? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Returns what the volume is that is mounted on `entry`.
    ///
    /// # Errors
    /// As [`ask`](Self::ask) and [`reply`](Self::reply).
    pub(super) fn state(entry: &MountEntry) -> Result<State, Failure> {
        let mut client = Self::ask(entry, Request::Volume)?;
        match client.reply()? {
            Reply::Volume(state) => Ok(state),
            _ => Err(client.unexpected()),
        }
    }

    /// Returns the stream, for what follows the lines.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_read_back() {
        for request in [
            Request::Stats,
            Request::Wait,
            Request::Volume,
            Request::Extents { ino: u64::MAX, attr: true },
            Request::Snapshot,
            Request::Freeze,
            Request::Thaw,
        ] {
            let line = serde_json::to_string(&request).unwrap();
            assert!(line.len() < 100 && !line.contains('\n'));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        let failure = Failure::cannot("no\nline").hint("a hint");
        let line = serde_json::to_string(&Reply::Failed(failure.into())).unwrap();
        assert!(!line.contains('\n'));
        let Ok(Reply::Failed(failed)) = serde_json::from_str(&line) else { panic!("{line}") };
        let failure = Failure::from(failed);
        assert_eq!((failure.exit, &*failure.message), (2, "no\nline"));
        assert_eq!(failure.hint.as_deref(), Some("a hint"));
    }
}
