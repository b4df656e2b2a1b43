//! A mounted volume: its threads, its commits, its end.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::MountFlags;
use xfskit_devfuse::mount::{self, MountOptions};
use xfskit_units::Ino;
use xfskit_vfs::Fs;

use crate::ended::Ended;
use crate::idle::Idle;
use crate::idmap::Mapped;
use crate::operations::Operations;
use crate::options::{Atime, Options};
use crate::server::Server;
use crate::statistics::Statistics;
use crate::transport::Transport;

/// Time from a change to its commit, at most: what a crash costs. A plain FUSE mount is not told of
/// sync(2).
const COMMIT: Duration = Duration::from_secs(5);
/// Time that processes have to leave a mount that is taken down.
const LEAVE: Duration = Duration::from_secs(10);
/// Threads that serve requests, for each processor.
const THREADS: usize = 2;

/// A mounted volume. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct Session<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> {
    server: Arc<Server<F>>,
    statistics: Arc<Statistics>,
    dir: PathBuf,
    serving: Vec<JoinHandle<io::Result<()>>>,
    committing: Option<JoinHandle<()>>,
    watching: Option<JoinHandle<()>>,
    ended: Arc<Ended>,
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + std::fmt::Debug + 'static> Session<F> {
    /// Mounts the tree below `root` of the volume on `dir`, and serves it until it is unmounted.
    ///
    /// # Errors
    /// `dir` is not a directory, /dev/fuse or fusermount3 is missing or refuses.
    pub fn start(fs: F, root: Ino, dir: &Path, options: &Options) -> io::Result<Self> {
        let server = Arc::new(Server::new(fs, root, options));
        let (statistics, ended) = (Arc::new(Statistics::default()), Arc::new(Ended::default()));
        let dir = dir.canonicalize()?;
        if !dir.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let serving = match &options.idmap {
            Some(map) => {
                let mapped = Mapped::new(Arc::clone(&server), map.clone());
                serve(Arc::new(mapped), &statistics, &dir, options, &ended)?
            }
            None => serve(Arc::clone(&server), &statistics, &dir, options, &ended)?,
        };
        let committing = std::thread::Builder::new().name("commit".into()).spawn({
            let (ended, server) = (Arc::clone(&ended), Arc::clone(&server));
            move || {
                while !ended.wait(COMMIT) {
                    if let Err(error) = server.commit() {
                        tracing::error!(%error, "changes could not be committed");
                    }
                }
            }
        })?;
        let (committing, watching) = (Some(committing), None);
        let mut session = Self { server, statistics, dir, serving, committing, watching, ended };
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

    /// Unmounts: what the kernel caches is written first. A mount in use disappears from the tree,
    /// and processes have ten seconds to leave it.
    ///
    /// # Errors
    /// The mount cannot be taken down.
    pub fn unmount(&self) -> io::Result<()> {
        if self.ended.wait(Duration::ZERO) {
            return Ok(());
        }
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
        let threads = self.serving.drain(..).map(|thread| thread.join().unwrap_or_else(panicked));
        let served = threads.fold(Ok(()), Result::and);
        self.ended.set();
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
        if self.serving.is_empty() {
            return;
        }
        if !self.ended.wait(Duration::ZERO) {
            let _ = mount::unmount(&self.dir, true);
        }
        let _ = self.end();
    }
}

/// Mounts `operations` on `dir`, and starts the threads that serve them.
fn serve<O: Operations>(
    operations: Arc<O>,
    statistics: &Arc<Statistics>,
    dir: &Path,
    options: &Options,
    ended: &Arc<Ended>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let transport = Arc::new(Transport::new(operations, Arc::clone(statistics), options));
    let channel = mount::mount(dir, &mount_options(options))?;
    let start = |number| {
        let (transport, ended) = (Arc::clone(&transport), Arc::clone(ended));
        let channel = channel.try_clone()?;
        std::thread::Builder::new().name(format!("fuse-{number}")).spawn(move || {
            let served = transport.serve(&channel, number);
            ended.set();
            served
        })
    };
    let started: io::Result<Vec<_>> = (0..threads(options)).map(start).collect();
    started.inspect_err(|_| {
        let _ = mount::unmount(dir, true);
    })
}

fn threads(options: &Options) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or(THREADS * processors.max(2))
}

/// Returns how the mount is made.
fn mount_options(options: &Options) -> MountOptions {
    let flags = [
        (options.read_only, MountFlags::RDONLY),
        (!options.dev, MountFlags::NODEV),
        (!options.suid, MountFlags::NOSUID),
        (options.noexec, MountFlags::NOEXEC),
        (options.atime == Atime::Never, MountFlags::NOATIME),
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
