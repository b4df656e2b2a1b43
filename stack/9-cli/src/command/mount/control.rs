//! The socket by which other processes ask the one that serves a mount.
//!
//! Its name is the device number of the mount, in the abstract namespace. A request is a line, the
//! reply is a line of JSON. Root and the user who mounted may ask.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xfskit::Mounted;

use super::mounts::{self, MountEntry};
use crate::exit::Failure;

/// Time that a client has to write its request.
const REQUEST: Duration = Duration::from_secs(1);
/// Time in which the process of an ended mount closes its socket.
const RELEASE: Duration = Duration::from_secs(10);
/// Time between attempts to open the socket.
const RETRY: Duration = Duration::from_millis(20);
/// Bytes of a request at most.
const LINE_MAX: u64 = 100;

/// The requests.
const STATS: &str = "stats";
const WAIT: &str = "wait";

/// The socket of a mount.
pub(super) struct Socket {
    listener: UnixListener,
    /// Clients that wait for the end.
    waiting: Mutex<Vec<UnixStream>>,
}

/// How the end of a mount went.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The error of closing the volume.
    pub error: Option<String>,
}

fn address(device: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("xfskit-mount-{device}"))
}

/// Opens the socket of a mount. The kernel gives the number of a mount that has just ended to the
/// next one, while the process of the old mount may not have seen its end.
fn bind(device: &str) -> std::io::Result<UnixListener> {
    let (address, start) = (address(device)?, Instant::now());
    loop {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < RELEASE => {
                std::thread::sleep(RETRY);
            }
            bound => return bound,
        }
    }
}

impl Socket {
    /// Opens the socket of the mount on `dir`.
    pub(super) fn serve(dir: &Path) -> Result<Self, Failure> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::cannot(format!("{}: control socket: {why}", dir.display()))
        };
        let entry = mounts::find(dir)?.ok_or_else(|| cannot(&"the mount is gone"))?;
        let listener = bind(&entry.device).map_err(|error| cannot(&error))?;
        listener.set_nonblocking(true).map_err(|error| cannot(&error))?;
        Ok(Self { listener, waiting: Mutex::default() })
    }

    /// Replies to the requests that have arrived.
    pub(super) fn answer(&self, mounted: &Mounted) {
        while let Ok((client, _)) = self.listener.accept() {
            // A client that is gone or may not ask is no concern of the mount.
            let _ = self.answer_one(client, mounted);
        }
    }

    fn answer_one(&self, mut client: UnixStream, mounted: &Mounted) -> std::io::Result<()> {
        let peer = rustix::net::sockopt::socket_peercred(&client)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return client.write_all(b"{\"error\":\"permission denied\"}\n");
        }
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(REQUEST))?;
        let mut line = String::new();
        let limited = std::io::Read::take(&client, LINE_MAX);
        BufReader::new(limited).read_line(&mut line)?;
        match line.trim_end() {
            WAIT => self.waiting.lock().push(client),
            STATS => {
                let (requests, failure) = (mounted.requests(), mounted.first_failure());
                let stats = serde_json::json!({ "requests": requests, "first_failure": failure });
                writeln!(client, "{stats}")?;
            }
            _ => client.write_all(b"{\"error\":\"unknown request\"}\n")?,
        }
        Ok(())
    }

    /// Closes the socket of a mount that is gone: another may get its number. Returns the clients
    /// that wait for the volume to be closed.
    pub(super) fn close(self) -> Waiting {
        Waiting(self.waiting.into_inner())
    }
}

/// Clients that wait until the volume of a mount is closed.
pub(super) struct Waiting(Vec<UnixStream>);

impl Waiting {
    /// Tells them how that went.
    pub(super) fn end(self, failure: Option<&Failure>) {
        let ended = Ended { error: failure.map(|failure| failure.message.clone()) };
        let line = serde_json::to_string(&ended).unwrap_or_default();
        for mut client in self.0 {
            let _ = writeln!(client, "{line}");
        }
    }
}

/// Sends a request to the mount, and returns the stream of the reply; `None` if no process serves
/// it.
fn ask(entry: &MountEntry, request: &str) -> Option<UnixStream> {
    let mut stream = UnixStream::connect_addr(&address(&entry.device).ok()?).ok()?;
    writeln!(stream, "{request}").ok()?;
    Some(stream)
}

/// Waits for the end of a mount.
pub(super) struct Waiter(UnixStream);

impl Waiter {
    /// Begins to wait for the end of `entry`; `None` if no process serves it.
    pub(super) fn of(entry: &MountEntry) -> Option<Self> {
        ask(entry, WAIT).map(Self)
    }

    /// Waits. Returns how it ended; `None` if the process did not say.
    pub(super) fn wait(self) -> Option<Ended> {
        let mut line = String::new();
        BufReader::new(self.0).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

/// Returns the statistics of the mount, as JSON; `None` if no process serves it.
pub(super) fn stats(entry: &MountEntry) -> Option<serde_json::Value> {
    let mut line = String::new();
    BufReader::new(ask(entry, STATS)?).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
