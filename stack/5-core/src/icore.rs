//! Changes of an inode's core, in a transaction.
//!
//! Every change of an inode goes through the inode's image: there is no other copy of it in memory.
//! Fields are set one at a time, so that undo and journal hold only what changed.

use std::mem::offset_of;

use xfskit_format::Image;
use xfskit_format::inode::{Core, CoreV3, FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{AgIno, ByteLen, Geometry, Ino};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Most links of an inode.
pub const LINKS_MAX: u32 = i32::MAX.unsigned_abs();

/// The times of an inode that are set to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// Last access.
    pub atime: bool,
    /// Last change of content.
    pub mtime: bool,
    /// Last change of the inode.
    pub ctime: bool,
}

impl Touch {
    /// Content changed: mtime and ctime.
    pub const CONTENT: Self = Self { atime: false, mtime: true, ctime: true };
    /// The inode changed: ctime.
    pub const INODE: Self = Self { atime: false, mtime: false, ctime: true };
}

/// The initial state of a new inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewInode {
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub projid: u32,
    /// Major and minor number of a device.
    pub rdev: Option<(u32, u32)>,
    /// Links: 0 for a file that is created unlinked.
    pub nlink: u32,
    /// Flags, inherited or requested.
    pub flags: InodeFlags,
    /// The second word of flags, beside the flags that all inodes of the volume have.
    pub flags2: InodeFlags2,
    /// Extent size hint in blocks.
    pub extsize: u32,
    /// Extent size hint for copies on write, in blocks.
    pub cowextsize: u32,
    /// The value of all its times.
    pub now: Timestamp,
}

impl NewInode {
    /// Returns the core of inode `ino` of a volume like `geo`, of this generation, with empty
    /// forks.
    pub(crate) fn core(&self, geo: &Geometry, ino: Ino, generation: u32) -> CoreV3 {
        let time = encode(self.now, geo.features.bigtime());
        let mut core: CoreV3 = zerocopy::FromZeros::new_zeroed();
        core.core.magic = xfskit_format::inode::MAGIC.into();
        core.core.version = 3;
        core.core.mode = self.mode.into();
        core.core.format = first_format(self.mode);
        core.core.uid = self.uid.into();
        core.core.gid = self.gid.into();
        core.core.nlinkv2 = self.nlink.into();
        let (hi, lo) = halves(self.projid);
        (core.core.projid_lo, core.core.projid_hi) = (lo.into(), hi.into());
        (core.core.atime, core.core.mtime, core.core.ctime) = (time, time, time);
        core.core.extsize = self.extsize.into();
        core.core.aformat = 2;
        core.core.flags = self.flags.bits().into();
        core.core.generation = generation.into();
        core.core.next_unlinked = U32::new(u32::MAX);
        core.change_count = 1.into();
        core.flags2 = (InodeFlags2::of_new(&geo.features) | self.flags2).bits().into();
        core.cowextsize = self.cowextsize.into();
        core.crtime = time;
        core.inumber = ino.0.into();
        core.uuid = *geo.meta_uuid.as_bytes();
        core
    }

    /// Returns the contents of a device's data fork.
    pub(crate) fn device(&self) -> Option<U32> {
        self.rdev.map(|(major, minor)| U32::new((major << 18) | minor))
    }
}

impl Tx<'_> {
    fn put_core<T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        inode: TxInode,
        offset: usize,
        value: &T,
    ) {
        self.image(inode.handle).put(offset, value);
    }

    /// Sets type and permissions.
    pub fn set_mode(&mut self, inode: TxInode, mode: u16) {
        self.put_core(inode, offset_of!(Core, mode), &U16::new(mode));
    }

    /// Sets owner and group.
    pub fn set_owner(&mut self, inode: TxInode, uid: u32, gid: u32) {
        self.put_core(inode, offset_of!(Core, uid), &[U32::new(uid), U32::new(gid)]);
    }

    /// Sets the project.
    pub fn set_projid(&mut self, inode: TxInode, projid: u32) {
        let (hi, lo) = halves(projid);
        self.put_core(inode, offset_of!(Core, projid_lo), &[U16::new(lo), U16::new(hi)]);
    }

    /// Sets the number of links.
    ///
    /// # Errors
    /// [`Error::TooManyLinks`] above [`LINKS_MAX`].
    pub fn set_nlink(&mut self, inode: TxInode, nlink: u32) -> Result<()> {
        if nlink > LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.put_core(inode, offset_of!(Core, nlinkv2), &U32::new(nlink));
        Ok(())
    }

    /// Sets the size of the file's data, in bytes.
    pub fn set_size(&mut self, inode: TxInode, size: ByteLen) {
        self.put_core(inode, offset_of!(Core, size), &U64::new(size.0));
    }

    /// Sets the format of the data fork, a number of [`Format`](xfskit_format::inode::Format).
    pub fn set_format(&mut self, inode: TxInode, format: u8) {
        self.put_core(inode, offset_of!(Core, format), &format);
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, inode: TxInode, flags: InodeFlags) {
        self.put_core(inode, offset_of!(Core, flags), &U16::new(flags.bits()));
    }

    /// Sets the second word of flags.
    pub fn set_flags2(&mut self, inode: TxInode, flags2: InodeFlags2) {
        self.put_core(inode, offset_of!(CoreV3, flags2), &U64::new(flags2.bits()));
    }

    /// Sets the extent size hint, in blocks; 0 removes it. The hint of a directory is inherited by
    /// the files that are made in it.
    pub fn set_extsize(&mut self, inode: TxInode, blocks: u32) {
        let core = self.core(inode);
        let flag = if core.is_dir() { InodeFlags::EXTSZINHERIT } else { InodeFlags::EXTSIZE };
        let mut flags = core.flags();
        flags.set(flag, blocks != 0);
        self.put_core(inode, offset_of!(Core, extsize), &U32::new(blocks));
        self.set_flags(inode, flags);
    }

    /// Sets the extent size hint for copies of shared blocks, in blocks; 0 removes it.
    pub fn set_cowextsize(&mut self, inode: TxInode, blocks: u32) {
        let mut flags2 = self.core(inode).flags2();
        flags2.set(InodeFlags2::COWEXTSIZE, blocks != 0);
        self.put_core(inode, offset_of!(CoreV3, cowextsize), &U32::new(blocks));
        self.set_flags2(inode, flags2);
    }

    /// Sets the next inode of the unlinked list that this inode is on.
    pub(crate) fn set_next_unlinked(&mut self, inode: TxInode, next: Option<AgIno>) {
        let next = next.map_or(u32::MAX, |agino| agino.0);
        self.put_core(inode, offset_of!(Core, next_unlinked), &U32::new(next));
        self.log_unlinked(inode.handle);
    }

    /// Sets times; `None` leaves a time as it is. An inode with the older encoding is given the
    /// newer one if the volume has it.
    pub fn set_times(
        &mut self,
        inode: TxInode,
        atime: Option<Timestamp>,
        mtime: Option<Timestamp>,
        ctime: Option<Timestamp>,
    ) {
        self.become_bigtime(inode);
        let bigtime = self.core(inode).has_bigtime();
        for (time, at) in [
            (atime, offset_of!(Core, atime)),
            (mtime, offset_of!(Core, mtime)),
            (ctime, offset_of!(Core, ctime)),
        ] {
            if let Some(time) = time {
                self.put_core(inode, at, &encode(time, bigtime));
            }
        }
    }

    /// Sets the generation.
    pub(crate) fn set_generation(&mut self, inode: TxInode, generation: u32) {
        self.put_core(inode, offset_of!(Core, generation), &U32::new(generation));
    }

    /// Sets the time of creation.
    pub(crate) fn set_crtime(&mut self, inode: TxInode, time: Timestamp) {
        let bigtime = self.core(inode).has_bigtime();
        self.put_core(inode, offset_of!(CoreV3, crtime), &encode(time, bigtime));
    }

    fn become_bigtime(&mut self, inode: TxInode) {
        let core = self.core(inode);
        if core.has_bigtime() || !self.volume().geo().features.bigtime() {
            return;
        }
        let flags2 = core.flags2() | InodeFlags2::BIGTIME;
        let times = [core.atime(), core.mtime(), core.ctime()].map(|time| encode(time, true));
        let crtime = core.crtime().map(|time| encode(time, true));
        self.put_core(inode, offset_of!(Core, atime), &times);
        if let Some(crtime) = crtime {
            self.put_core(inode, offset_of!(CoreV3, crtime), &crtime);
        }
        self.set_flags2(inode, flags2);
    }

    /// Records a change of the inode: sets times to `now` and increments the change counter.
    pub fn touch(&mut self, inode: TxInode, what: Touch, now: Timestamp) {
        self.become_bigtime(inode);
        let core = self.core(inode);
        let (time, count) =
            (encode(now, core.has_bigtime()), core.change_count().unwrap_or(0).wrapping_add(1));
        // The most frequent changes are one edit.
        let (start, last) = (offset_of!(Core, atime), offset_of!(CoreV3, change_count));
        let fields = self.edit(inode.handle, start..last + size_of::<U64>());
        let mut put = |at: usize, value: U64| {
            fields[at - start..][..size_of::<U64>()].copy_from_slice(value.as_bytes());
        };
        for (wanted, at) in [
            (what.atime, start),
            (what.mtime, offset_of!(Core, mtime)),
            (what.ctime, offset_of!(Core, ctime)),
        ] {
            if wanted {
                put(at, time);
            }
        }
        put(last, count.into());
    }

    /// Writes the core of an inode that is freed: unused, and of another generation.
    pub(crate) fn clear_core(&mut self, inode: TxInode) {
        let flags2 = InodeFlags2::of_new(&self.volume().geo().features);
        let image = self.edit(inode.handle, 0..size_of::<CoreV3>());
        let Ok(v3) = CoreV3::mut_from_bytes(image) else { return };
        let core = &mut v3.core;
        (core.mode, core.format, core.nlinkv2) = (U16::ZERO, 2, U32::ZERO);
        (core.big_nextents, core.size, core.nblocks) = (U64::ZERO, U64::ZERO, U64::ZERO);
        (core.extsize, core.nextents, core.naextents) = (U32::ZERO, U32::ZERO, U16::ZERO);
        (core.forkoff, core.aformat, core.flags) = (0, 2, U16::ZERO);
        core.generation = core.generation.get().wrapping_add(1).into();
        (v3.cowextsize, v3.flags2) = (U32::ZERO, flags2.bits().into());
    }
}

/// Returns the format of an empty data fork. Devices store their number there; everything else has
/// no extents yet.
fn first_format(mode: u16) -> u8 {
    match FileType::from_mode(mode) {
        Some(FileType::Regular | FileType::Directory | FileType::Symlink) => 2,
        _ => 0,
    }
}

/// Returns the high and the low half.
fn halves(n: u32) -> (u16, u16) {
    let [a, b, c, d] = n.to_be_bytes();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

pub(crate) fn encode(time: Timestamp, bigtime: bool) -> U64 {
    U64::new(if bigtime { time.to_bigtime() } else { time.to_legacy() })
}

/// Returns the flags of the second word that files and directories inherit from their directory.
pub fn inherited_flags2(parent: InodeFlags2, child: FileType) -> InodeFlags2 {
    match child {
        FileType::Regular | FileType::Directory => {
            parent & (InodeFlags2::COWEXTSIZE | InodeFlags2::DAX)
        }
        _ => InodeFlags2::empty(),
    }
}

/// Returns the flags that an inode inherits from its directory.
pub fn inherited_flags(parent: InodeFlags, child: FileType) -> InodeFlags {
    let mut keep = InodeFlags::NOATIME
        | InodeFlags::NODUMP
        | InodeFlags::SYNC
        | InodeFlags::NODEFRAG
        | InodeFlags::FILESTREAM;
    if child == FileType::Directory {
        keep |= InodeFlags::PROJINHERIT | InodeFlags::EXTSZINHERIT | InodeFlags::NOSYMLINKS;
    }
    let hint = child == FileType::Regular && parent.contains(InodeFlags::EXTSZINHERIT);
    (parent & keep) | if hint { InodeFlags::EXTSIZE } else { InodeFlags::empty() }
}
