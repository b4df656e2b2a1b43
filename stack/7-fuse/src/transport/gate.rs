//! Requests that wait while the mount is frozen.

use std::fmt::Debug;
use std::io;

use xfskit_devfuse::{Operation, Request};

use super::Transport;
use super::carried::Carried;
use super::serve::O_TRUNC;
use crate::ioctl::Ioctl;
use crate::operations::Operations;

/// Requests that wait for the thaw, whatever serves them.
pub(crate) trait Waiting: Debug + Send + Sync {
    /// Serves the requests that waited, after the thaw.
    fn run(&self);
    /// Drops them: the mount is gone.
    fn clear(&self);
}

impl<O: Operations + Debug> Waiting for Transport<O> {
    fn run(&self) {
        self.kept.run(self.operations.gate(), self);
    }

    fn clear(&self) {
        self.kept.clear();
    }
}

impl<O: Operations> Transport<O> {
    /// Serves a request, or keeps it if it changes something and the mount is frozen.
    pub(super) fn pass<C: Carried>(&self, mut carried: C) -> io::Result<()> {
        let passage = self.operations.gate().enter();
        let waits = |request: Request<'_>| changes(&request.operation);
        if !passage.is_frozen() || !carried.open().0.is_some_and(waits) {
            return self.answer_safely(carried);
        }
        let kept = carried.keep();
        self.kept.keep(passage, move |transport: &Self| {
            if let Err(error) = transport.answer_safely(kept) {
                tracing::warn!(%error, "a request that waited has no reply");
            }
        });
        Ok(())
    }
}

/// Returns true if the operation changes something.
fn changes(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Setattr(_)
        | Operation::Symlink { .. }
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Unlink { .. }
        | Operation::Rmdir { .. }
        | Operation::Rename { .. }
        | Operation::Link { .. }
        | Operation::Create { .. }
        | Operation::Tmpfile(_)
        | Operation::Write { .. }
        | Operation::Setxattr { .. }
        | Operation::Removexattr { .. }
        | Operation::Fallocate(_)
        | Operation::CopyFileRange(_) => true,
        Operation::Open(arg) => arg.flags & O_TRUNC != 0,
        Operation::Ioctl { arg, .. } => Ioctl::from_command(arg.cmd).is_some_and(Ioctl::changes),
        // A sync of what is frozen finds nothing to do.
        Operation::Lookup { .. }
        | Operation::Forget(_)
        | Operation::BatchForget(_)
        | Operation::Getattr
        | Operation::Statx(_)
        | Operation::Readlink
        | Operation::Read(_)
        | Operation::Statfs
        | Operation::Release
        | Operation::Fsync
        | Operation::Fsyncdir
        | Operation::Syncfs
        | Operation::Getxattr { .. }
        | Operation::Listxattr(_)
        | Operation::Opendir
        | Operation::Readdir(_)
        | Operation::Readdirplus(_)
        | Operation::Releasedir
        | Operation::Lseek(_)
        | Operation::Init(_)
        | Operation::Destroy
        | Operation::Flush
        | Operation::Interrupt
        | Operation::Unknown(_) => false,
    }
}
