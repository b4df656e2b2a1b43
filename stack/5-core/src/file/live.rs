//! The current state of files that are being written: inodes that include changes in memory, and
//! readers of file data.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xfskit_format::inode::CoreV3;
use xfskit_units::{FilBlks, FileOff, Ino};
use zerocopy::FromBytes;

use crate::error::Result;
use crate::icore::encode;
use crate::inode::Inode;
use crate::open_files::{Content, State};
use crate::volume::Volume;

impl Volume {
    /// Returns inode `ino`, which must be in use. For a regular file with unflushed writes, the
    /// inode has the size, the blocks and the times that a flush would leave. The caller must not
    /// be in a transaction.
    ///
    /// # Errors
    /// As [`iget`](Self::iget).
    pub fn iget_live(&self, ino: Ino) -> Result<Inode> {
        loop {
            let closed = self.contents.closed.load(Ordering::Acquire);
            let inode = self.iget(ino)?;
            if !self.space().is_writable() || !inode.core().is_regular() {
                return Ok(inode);
            }
            let open = self.contents.open.lock().get(&ino).cloned();
            match open {
                Some(content) => {
                    let live = content.inode(self);
                    self.release_content(content);
                    return live;
                }
                None if self.contents.closed.load(Ordering::Acquire) == closed => return Ok(inode),
                // It may have been flushed and closed after it was read above.
                None => {}
            }
        }
    }

    /// Ends one use of `content` without writing anything. Data in memory stays there until the
    /// next flush, sync or close of the volume.
    pub fn leave_content(&self, content: Arc<Content>) {
        self.forget_if_last(content);
    }

    /// Ends a reader's use of `content`. Data that others wrote stays in memory. If all of them
    /// have closed the file meanwhile, and nothing is left to be written, this call closes it.
    pub fn release_content(&self, content: Arc<Content>) {
        if !self.is_last(&content) || !content.is_flushed() {
            return self.forget_if_last(content);
        }
        let ino = content.ino();
        if let Err(error) = self.close_content(content) {
            tracing::warn!(%ino, %error, "content stays in memory");
        }
    }
}

impl Content {
    fn is_flushed(&self) -> bool {
        self.state.read().is_flushed()
    }

    /// Returns the inode, including changes that are in memory only.
    fn inode(&self, vol: &Volume) -> Result<Inode> {
        let state = self.state.read();
        let inode = vol.iget(self.ino())?;
        if state.is_flushed() {
            return Ok(inode);
        }
        // A damaged map is reported when the file is read.
        let delayed = self.delayed_blocks(vol, &state).unwrap_or(FilBlks(0));
        let (bigtime, ctime) = (inode.core().has_bigtime(), inode.core().ctime());
        Ok(inode.with(|bytes| {
            let Ok((v3, _)) = CoreV3::mut_from_prefix(bytes) else { return };
            let core = &mut v3.core;
            core.size = state.size.0.into();
            core.nblocks = core.nblocks.get().saturating_add(delayed.0).into();
            if let Some(written) = state.written {
                core.mtime = encode(written, bigtime);
                core.ctime = encode(written.max(ctime), bigtime);
            }
        }))
    }

    /// Returns the number of blocks that a flush will allocate for data.
    fn delayed_blocks(&self, vol: &Volume, state: &State) -> Result<FilBlks> {
        let mut delayed = FilBlks(0);
        for (start, run) in state.dirty.parts(FileOff::ZERO..FileOff::MAX) {
            let blocks = start.range(FilBlks((run.len() as u64) >> vol.geo().blocklog));
            let new = self.survey(vol, blocks.clone())?.holes;
            delayed = delayed.plus(new).plus(self.shared_blocks(vol, blocks)?);
        }
        Ok(delayed)
    }
}
