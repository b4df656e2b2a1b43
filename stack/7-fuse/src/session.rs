//! A mounted volume: its threads, its commits, its end.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Config, MountOption, SessionACL, SessionUnmounter};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use xfskit_units::Ino;
use xfskit_vfs::Fs;

use crate::options::Options;
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
    unmounter: Mutex<SessionUnmounter>,
    serving: Option<JoinHandle<io::Result<()>>>,
    committing: Option<JoinHandle<()>>,
    ended: Arc<Ended>,
}

/// True when the mount is gone.
#[derive(Debug, Default)]
struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    fn set(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for the end, at most for `time`. Returns true if it came.
    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut ended = self.ended.lock();
        while !*ended {
            if self.changed.wait_until(&mut ended, until).timed_out() {
                break;
            }
        }
        *ended
    }
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + std::fmt::Debug + 'static> Session<F> {
    /// Mounts the tree below `root` of the volume on `dir`, and serves it until it is unmounted.
    ///
    /// # Errors
    /// `dir` is not a directory, /dev/fuse or fusermount3 is missing or refuses.
    pub fn start(fs: F, root: Ino, dir: &Path, options: &Options) -> io::Result<Self> {
        let server = Arc::new(Server::new(fs, root, options));
        let statistics = Arc::new(Statistics::default());
        let transport =
            Transport::new(Arc::clone(&server), Arc::clone(&statistics), options.no_open);
        let mut session = fuser::Session::new(transport, dir, &config(options))?;
        let unmounter = Mutex::new(session.unmount_callable());
        let ended = Arc::new(Ended::default());
        let serving = std::thread::Builder::new().name("mount".into()).spawn({
            let ended = Arc::clone(&ended);
            move || {
                let served = session.run();
                ended.set();
                served
            }
        })?;
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
        let (serving, committing) = (Some(serving), Some(committing));
        let dir = dir.to_owned();
        Ok(Self { server, statistics, dir, unmounter, serving, committing, ended })
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
        match self.unmounter.lock().unmount() {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                unmount(&self.dir, UnmountFlags::DETACH)?;
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
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let served = serving.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        self.ended.set();
        if let Some(committing) = self.committing.take() {
            let _ = committing.join();
        }
        self.server.end();
        served
    }
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Drop for Session<F> {
    fn drop(&mut self) {
        if self.serving.is_some() {
            let _ = self.unmounter.lock().unmount();
            let _ = self.end();
        }
    }
}

/// Returns how the protocol's crate mounts.
fn config(options: &Options) -> Config {
    let mut config = Config::default();
    let fsname = options.fsname.clone().unwrap_or_else(|| "xfskit".into());
    let mut mount = vec![
        MountOption::FSName(fsname),
        // fuser passes its own `Subtype` to fusermount3 only.
        MountOption::CUSTOM("subtype=xfskit".into()),
        MountOption::DefaultPermissions,
    ];
    let mut add = |given: bool, yes, no| mount.push(if given { yes } else { no });
    add(options.read_only, MountOption::RO, MountOption::RW);
    add(options.dev, MountOption::Dev, MountOption::NoDev);
    add(options.suid, MountOption::Suid, MountOption::NoSuid);
    add(options.noexec, MountOption::NoExec, MountOption::Exec);
    add(options.atime == crate::options::Atime::Never, MountOption::NoAtime, MountOption::Atime);
    config.mount_options = mount;
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(options.threads.unwrap_or(THREADS * processors.max(2)));
    config.clone_fd = true;
    config
}
