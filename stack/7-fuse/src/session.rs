//! A mounted volume: its threads, its commits, its end.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use xfskit_devfuse::Channel;
use xfskit_devfuse::mount::{self, MountOptions};
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Fs};

use crate::ended::Ended;
use crate::freeze::Passage;
use crate::idle::Idle;
use crate::idmap::Mapped;
use crate::operations::Operations;
use crate::options::{Atime, Options};
use crate::read_ahead::ReadAhead;
use crate::server::Server;
use crate::statistics::Statistics;
use crate::transport::{self, Post, Transport, Waiting};

/// Time from a change to its commit, at most: what a crash costs. A plain FUSE mount is not told of
/// sync(2).
const COMMIT: Duration = Duration::from_secs(5);
/// Time that processes have to leave a mount that is taken down.
const LEAVE: Duration = Duration::from_secs(10);

/// A mounted volume. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct Session<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> {
    server: Arc<Server<F>>,
    statistics: Arc<Statistics>,
    dir: PathBuf,
    serving: Serving,
    committing: Option<JoinHandle<()>>,
    watching: Option<JoinHandle<()>>,
    ended: Arc<Ended>,
    /// Held by a thread that freezes or thaws.
    freezing: Mutex<()>,
}

/// The threads that serve a mount.
#[derive(Debug)]
struct Serving {
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Requests that wait for a thaw.
    waiting: Arc<dyn Waiting>,
    /// For messages to the kernel.
    channel: Arc<Channel>,
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + std::fmt::Debug + 'static> Session<F> {
    /// Mounts the tree below `root` of the volume on `dir`, and serves it until it is unmounted.
    ///
    /// # Errors
    /// `dir` is not a directory, /dev/fuse or fusermount3 is missing or refuses.
    pub fn start(fs: F, root: Ino, dir: &Path, options: &Options) -> io::Result<Self> {
        let ahead = ReadAhead::new(fs.volume().device().topology().stripe_width);
        let server = Arc::new(Server::new(fs, root, options));
        let (statistics, ended) = (Arc::new(Statistics::default()), Arc::new(Ended::default()));
        let dir = dir.canonicalize()?;
        if !dir.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let serving = match &options.idmap {
            Some(map) => {
                let mapped = Mapped::new(Arc::clone(&server), map.clone());
                serve(Arc::new(mapped), &statistics, &dir, (options, ahead), &ended)?
            }
            None => serve(Arc::clone(&server), &statistics, &dir, (options, ahead), &ended)?,
        };
        ahead.raise(&dir);
        let committing = std::thread::Builder::new().name("commit".into()).spawn({
            let (ended, server) = (Arc::clone(&ended), Arc::clone(&server));
            move || {
                while !ended.wait(COMMIT) {
                    let commit = || server.commit().map(drop);
                    if let Err(error) = server.guarded("a commit", commit) {
                        tracing::error!(%error, "changes could not be committed");
                    }
                }
            }
        })?;
        let (committing, watching) = (Some(committing), None);
        let freezing = Mutex::default();
        let mut session =
            Self { server, statistics, dir, serving, committing, watching, ended, freezing };
        if let Some(timeout) = options.idle_timeout {
            session.watch(timeout)?;
        }
        Ok(session)
    }

    /// Unmounts when the mount was not in use for `timeout`.
    fn watch(&mut self, timeout: Duration) -> io::Result<()> {
        let Some(idle) = Idle::new(&self.dir, timeout, &self.statistics) else { return Ok(()) };
        let ended = Arc::clone(&self.ended);
        let watching = std::thread::Builder::new().name("idle".into());
        self.watching = Some(watching.spawn(move || idle.watch(&ended))?);
        Ok(())
    }

    /// Waits until the mount is gone, at most for `time`. Returns true if it is.
    pub fn wait(&self, time: Duration) -> bool {
        self.ended.wait(time)
    }

    /// Makes changes wait until [`thaw`](Self::thaw), and writes all changes so far in place: the
    /// device has the whole volume, with a clean journal unless there are files without a name.
    /// Content that the kernel caches is written too, as far as it was written to files before.
    /// Returns false if the mount is frozen already.
    ///
    /// # Errors
    /// The volume cannot be written. The mount is not frozen then.
    pub fn freeze(&self) -> vfs::Result<bool> {
        let _freezing = self.freezing.lock();
        if self.is_frozen() {
            return Ok(false);
        }
        self.write_caches();
        self.write_back()?;
        self.close_gate()?;
        Ok(true)
    }

    /// Has the kernel write the content that it caches of files that are open for writing, and
    /// waits for it. A sync of the kernel's need not wait for writes to a FUSE filesystem.
    fn write_caches(&self) {
        for ino in self.server.may_be_dirty() {
            if let Err(error) = self.serving.channel.invalidate(ino.0) {
                tracing::debug!(%ino, %error, "the kernel does not write its cache");
            }
        }
    }

    fn write_back(&self) -> vfs::Result<()> {
        self.server.guarded("a freeze", || self.server.write_back())
    }

    fn close_gate(&self) -> vfs::Result<()> {
        self.server.changes().freeze();
        let quiesced = self.server.guarded("a freeze", || self.server.quiesce());
        quiesced.inspect_err(|_| self.open_gate())
    }

    /// Lets the changes that wait go on. Returns false if the mount is not frozen.
    pub fn thaw(&self) -> bool {
        let _freezing = self.freezing.lock();
        let was_frozen = self.is_frozen();
        if was_frozen {
            self.open_gate();
        }
        was_frozen
    }

    fn open_gate(&self) {
        self.server.changes().thaw();
        self.server.free_unnamed();
        self.serving.waiting.run();
    }

    /// Begins a change that the kernel did not ask for. Returns `None` if the mount is frozen.
    pub fn changing(&self) -> Option<Passage<'_>> {
        let passage = self.server.changes().enter();
        (!passage.is_frozen()).then_some(passage)
    }

    /// Returns true while changes wait.
    pub fn is_frozen(&self) -> bool {
        self.server.changes().is_frozen()
    }

    /// Calls `take` at a moment when the device has the whole volume and nothing changes. Changes
    /// wait as long as what is not in place yet takes to be written.
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze).
    pub fn at_rest<T>(&self, take: impl FnOnce() -> T) -> vfs::Result<T> {
        let _freezing = self.freezing.lock();
        if self.is_frozen() {
            return Ok(take());
        }
        self.write_back()?;
        self.close_gate()?;
        let taken = take();
        self.open_gate();
        Ok(taken)
    }

    /// Unmounts: what the kernel caches is written first. A mount in use disappears from the tree,
    /// and processes have ten seconds to leave it. A frozen mount is thawed.
    ///
    /// # Errors
    /// The mount cannot be taken down.
    pub fn unmount(&self) -> io::Result<()> {
        if self.ended.wait(Duration::ZERO) {
            return Ok(());
        }
        self.thaw();
        // Asked of the kernel, which asks this process: other threads answer.
        if let Ok(root) = File::open(&self.dir) {
            let _ = rustix::fs::syncfs(&root);
        }
        match mount::unmount(&self.dir, false) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                mount::unmount(&self.dir, true)?;
            }
            unmounted => unmounted?,
        }
        if !self.ended.wait(LEAVE) {
            tracing::warn!("the mount is still in use");
        }
        Ok(())
    }

    /// Returns the requests so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the filesystem behind the mount.
    pub fn server(&self) -> &Server<F> {
        &self.server
    }

    /// Waits for the end of the mount, and frees files without a name. The volume stays open.
    ///
    /// # Errors
    /// The kernel ended the session with an error.
    pub fn join(mut self) -> io::Result<()> {
        self.end()
    }
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Session<F> {
    fn end(&mut self) -> io::Result<()> {
        let panicked = |_| Err(io::Error::other("a thread panicked"));
        let threads =
            self.serving.threads.drain(..).map(|thread| thread.join().unwrap_or_else(panicked));
        let served = threads.fold(Ok(()), Result::and);
        self.ended.set();
        self.serving.waiting.clear();
        if let Some(committing) = self.committing.take() {
            let _ = committing.join();
        }
        if let Some(watching) = self.watching.take() {
            let _ = watching.join();
        }
        self.server.end();
        served
    }
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Drop for Session<F> {
    fn drop(&mut self) {
        if self.serving.threads.is_empty() {
            return;
        }
        if !self.ended.wait(Duration::ZERO) {
            let _ = mount::unmount(&self.dir, true);
        }
        let _ = self.end();
    }
}

/// Mounts `operations` on `dir`, and starts the threads that serve them.
fn serve<O: Operations + std::fmt::Debug>(
    operations: Arc<O>,
    statistics: &Arc<Statistics>,
    dir: &Path,
    (options, ahead): (&Options, ReadAhead),
    ended: &Arc<Ended>,
) -> io::Result<Serving> {
    let queues = transport::queues(options);
    let statistics = Arc::clone(statistics);
    let channel = Arc::new(mount::mount(dir, &mount_options(options))?);
    let start = || {
        let threads = ahead.threads(options);
        let transport =
            Transport::new(operations, statistics, Arc::clone(&channel), options, threads)
                .with_rings(!queues.is_empty())
                .with_background(ahead.max_background());
        let transport = Arc::new(transport);
        transport.greet()?;
        let start = |post: Post| {
            let (transport, ended) = (Arc::clone(&transport), Arc::clone(ended));
            std::thread::Builder::new().name(post.name()).spawn(move || {
                let served = transport.serve(post);
                ended.set();
                served
            })
        };
        let posts = transport.posts(queues, threads)?;
        let threads = posts.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Serving { threads, waiting: transport, channel: Arc::clone(&channel) })
    };
    start().inspect_err(|_: &io::Error| {
        let _ = mount::unmount(dir, true);
    })
}

/// Returns how the mount is made.
fn mount_options(options: &Options) -> MountOptions {
    let flags = [
        (options.read_only, MountFlags::RDONLY),
        (!options.dev, MountFlags::NODEV),
        (!options.suid, MountFlags::NOSUID),
        (options.noexec, MountFlags::NOEXEC),
        (options.atime == Atime::Never, MountFlags::NOATIME),
        // The kernel follows each write with an fsync, instead of keeping it in its cache.
        (options.sync, MountFlags::SYNCHRONOUS),
    ];
    let set = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
    MountOptions {
        fsname: options.fsname.clone().unwrap_or_else(|| "xfskit".into()),
        subtype: "xfskit".into(),
        flags: set.fold(MountFlags::empty(), MountFlags::union),
        allow_other: options.allow_other,
        default_permissions: true,
    }
}
