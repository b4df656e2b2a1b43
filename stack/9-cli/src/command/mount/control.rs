//! The socket by which other processes ask the one that serves a mount.
//!
//! Its name is the device number of the mount, in the abstract namespace. Root and the user who
//! mounted may ask: see [`protocol`](super::protocol).
//!
//! One thread receives the requests, and replies to those that take no time. The others have a
//! thread each, so many at once. They end with the client or with the mount, which shuts their
//! streams down.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use xfskit::{FileFork, Mounted};

use super::protocol::{Ended, Extent, FileEnd, Reply, Request, State, Stats, address, send};
use super::{array, mounts};
use crate::command::action::Runner;
use crate::command::open;
use crate::exit::Failure;

/// Time that a client has to write its request.
const REQUEST: Duration = Duration::from_secs(1);
/// Time in which the process of an ended mount closes its socket.
const RELEASE: Duration = Duration::from_secs(10);
/// Time between attempts to open the socket.
const RETRY: Duration = Duration::from_millis(20);
/// Bytes of a request at most.
const LINE_MAX: u64 = 10_000;
/// Requests that run at once, at most.
const RUNNING_MAX: usize = 32;
/// Snapshots at once, at most: each keeps what is overwritten meanwhile.
const SNAPSHOTS_MAX: usize = 8;
/// Clients that wait for the end, at most.
const WAITING_MAX: usize = 256;
/// Extents of a line.
const EXTENTS: usize = 500;

/// The socket of a mount.
pub(super) struct Socket {
    listener: UnixListener,
    /// Device number of the mount.
    device: String,
    /// Clients that wait for the end.
    waiting: Mutex<Vec<UnixStream>>,
    /// Requests that run.
    running: Mutex<Vec<Running>>,
    /// The mount is gone: no request begins any more.
    has_ended: AtomicBool,
}

/// A request that runs.
struct Running {
    request: Request,
    stream: UnixStream,
    thread: thread::ThreadId,
}

/// Opens the socket of a mount. The kernel gives the number of a mount that has just ended to the
/// next one, while the process of the old mount may not have seen its end.
fn bind(device: &str) -> std::io::Result<UnixListener> {
    let (address, start) = (address(device)?, Instant::now());
    loop {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < RELEASE => {
                thread::sleep(RETRY);
            }
            bound => return bound,
        }
    }
}

impl Socket {
    /// Opens the socket of the mount on `dir`.
    pub(super) fn open(dir: &Path) -> Result<Self, Failure> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::cannot(format!("{}: control socket: {why}", dir.display()))
        };
        let entry = mounts::find(dir)?.ok_or_else(|| cannot(&"the mount is gone"))?;
        Ok(Self {
            listener: bind(&entry.device).map_err(|error| cannot(&error))?,
            device: entry.device,
            waiting: Mutex::default(),
            running: Mutex::default(),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Returns true if the mount is in the list of mounts.
    pub(super) fn is_listed(&self) -> bool {
        // If the list cannot be read, nothing is known.
        mounts::with_number(&self.device).map_or(true, |entry| entry.is_some())
    }

    /// Receives requests until [`end`](Self::end).
    pub(super) fn run<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        mounted: &'s Mounted,
        runner: Runner,
    ) {
        while !self.has_ended.load(Ordering::Acquire) {
            match self.listener.accept() {
                // A client that is gone or may not ask is no concern of the mount.
                Ok((client, _)) => drop(self.receive(scope, (mounted, runner), client)),
                // Too many files are open.
                Err(_) => thread::sleep(RETRY),
            }
        }
        // The command that unmounted has asked just before.
        let _ = self.listener.set_nonblocking(true);
        while let Ok((client, _)) = self.listener.accept() {
            let _ = self.receive(scope, (mounted, runner), client);
        }
    }

    /// Ends the requests that run, and lets none begin.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        for Running { stream, .. } in &*self.running.lock() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        // Wakes the thread that receives.
        let _ = address(&self.device).and_then(|address| UnixStream::connect_addr(&address));
    }

    fn receive<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        (mounted, runner): (&'s Mounted, Runner),
        client: UnixStream,
    ) -> std::io::Result<()> {
        let fail = |why: &str| send(&client, &Reply::Failed(Failure::cannot(why).into()));
        let peer = rustix::net::sockopt::socket_peercred(&client)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return fail("permission denied: the mount belongs to another user");
        }
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(REQUEST))?;
        client.set_write_timeout(Some(REQUEST))?;
        let mut line = String::new();
        BufReader::new((&client).take(LINE_MAX)).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Request::Wait) => self.wait(client),
            Ok(Request::Stats) => send(&client, &Reply::Stats(Stats::of(mounted))),
            Ok(Request::Volume) => send(&client, &Reply::Volume(State::of(mounted))),
            Ok(request) => self.start(scope, (mounted, runner), client, request),
            Err(_) => fail("unknown request: the mount is of another version of xfskit"),
        }
    }

    /// Adds a client that waits for the end.
    fn wait(&self, client: UnixStream) -> std::io::Result<()> {
        client.set_nonblocking(true)?;
        let mut waiting = self.waiting.lock();
        // One that is gone has closed its end; the others send nothing.
        waiting.retain(|client| {
            matches!((&*client).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        });
        if waiting.len() < WAITING_MAX {
            waiting.push(client);
        }
        Ok(())
    }

    /// Runs a request on a thread of its own.
    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        (mounted, runner): (&'s Mounted, Runner),
        client: UnixStream,
        request: Request,
    ) -> std::io::Result<()> {
        client.set_read_timeout(None)?;
        client.set_write_timeout(None)?;
        let fail = |why: &str| send(&client, &Reply::Failed(Failure::cannot(why).into()));
        let mut running = self.running.lock();
        let snapshots = running.iter().filter(|run| run.request == Request::Snapshot).count();
        if self.has_ended.load(Ordering::Acquire) {
            return fail("the mount has ended");
        }
        if running.len() >= RUNNING_MAX
            || request == Request::Snapshot && snapshots >= SNAPSHOTS_MAX
        {
            return fail("the mount has too many requests at once; try again later");
        }
        let (stream, asked) = (client.try_clone()?, request.clone());
        let work = move || {
            let served = AssertUnwindSafe(|| serve(mounted, runner, &client, asked));
            if catch_unwind(served).is_err() {
                // The log has the message, and the mount goes on, or its volume was shut down.
                let bug = Failure::cannot("a bug in xfskit: the request panicked");
                let _ = send(&client, &Reply::Failed(bug.into()));
            }
            let this = thread::current().id();
            self.running.lock().retain(|run| run.thread != this);
        };
        // The lock is held: the thread is in the list before it leaves it.
        let thread = thread::Builder::new().name("control".into()).spawn_scoped(scope, work)?;
        running.push(Running { request, stream, thread: thread.thread().id() });
        Ok(())
    }

    /// Closes the socket of a mount that is gone: another may get its number. Returns the clients
    /// that wait for the volume to be closed.
    pub(super) fn close(self) -> Waiting {
        Waiting(self.waiting.into_inner())
    }
}

/// Runs a request, and replies.
fn serve(
    mounted: &Mounted,
    runner: Runner,
    client: &UnixStream,
    request: Request,
) -> std::io::Result<()> {
    let done = match request {
        Request::Extents { ino, attr } => {
            let fork = if attr { FileFork::Attr } else { FileFork::Data };
            return extents(mounted, client, ino, fork);
        }
        Request::Array(job) => return array::run(mounted, client, &job, runner),
        Request::Snapshot => match mounted.snapshot() {
            Ok(snapshot) => {
                send(client, &Reply::Snapshot)?;
                return snapshot.serve(client);
            }
            Err(error) => Err(open::failure(&error)),
        },
        Request::Freeze => freeze(mounted),
        Request::Thaw if mounted.thaw() => Ok(()),
        Request::Thaw => Err(Failure::cannot("not frozen")),
        Request::Stats | Request::Wait | Request::Volume => Ok(()),
    };
    let reply = done.map_or_else(|failure| Reply::Failed(failure.into()), |()| Reply::Done);
    send(client, &reply)
}

fn freeze(mounted: &Mounted) -> Result<(), Failure> {
    match mounted.freeze() {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Failure::cannot("frozen already").hint("`xfskit thaw` lets changes go on"))
        }
        Err(error) => Err(open::failure(&error)),
    }
}

fn extents(
    mounted: &Mounted,
    client: &UnixStream,
    ino: u64,
    fork: FileFork,
) -> std::io::Result<()> {
    let map = match mounted.extent_map(ino, fork) {
        Ok(map) => map,
        Err(error) => return send(client, &Reply::Failed(open::failure(&error).into())),
    };
    send(client, &Reply::File(FileEnd::of(&map, fork)))?;
    for some in map.extents.chunks(EXTENTS) {
        send(client, &Reply::Extents(some.iter().map(Extent::from).collect()))?;
    }
    send(client, &Reply::Done)
}

/// Clients that wait until the volume of a mount is closed.
pub(super) struct Waiting(Vec<UnixStream>);

impl Waiting {
    /// Tells them how that went.
    pub(super) fn end(self, failure: Option<&Failure>) {
        let error = failure.map(|failure| failure.message.clone());
        let ended = Reply::Ended(Ended { error });
        for client in self.0 {
            let _ = send(&client, &ended);
        }
    }
}
