//! Floor 0: the units of the storage stack, as types.
//!
//! Every number on an XFS volume counts something: bytes, 512-byte sectors, filesystem blocks
//! within one allocation group, filesystem blocks with the group encoded in the high bits. Mixing
//! two of them is the classic bug of filesystem code. So each is a type of its own, and only the
//! named methods of [`Geometry`] convert one into another.
//!
//! | module | what |
//! | --- | --- |
//! | [`number`] | the newtypes: [`Daddr`], [`AgBlock`], [`FsBlock`], [`Ino`], … |
//! | [`lsn`] | [`Lsn`]: cycle and block of the journal |
//! | [`flags`] | words of flag bits with names |
//! | [`features`] | [`Features`]: the format of a volume |
//! | [`geometry`] | [`Geometry`]: sizes and counts of one volume, and every conversion |
//! | [`example`] | a volume for tests and documentation |

pub mod example;
pub mod features;
pub mod flags;
pub mod geometry;
pub mod lsn;
pub mod number;

#[doc(hidden)] // for the expansion of `flag_word!`
pub use bitflags;
pub use features::{Features, Version};
pub use geometry::{Geometry, ValidInos};
pub use lsn::Lsn;
pub use number::{
    AgBlock, AgIno, AgNumber, ArraySector, ByteLen, ByteOffset, Column, DaBlock, Daddr, ExtLen,
    FilBlks, FileOff, FsBlock, Ino, JournalSector, LogBlock, MemberByte, MemberSector,
    PositionRange, RfsBlock, Sectors, StripeByte, SyncSector, index,
};
pub use uuid::Uuid;
