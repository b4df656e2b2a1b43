//! Intents and done items.
//!
//! An intent records work that a later transaction will do. The done item of that transaction names
//! the intent by its id. Recovery must finish intents without a done item. Linux writes both only
//! if the journal was forced between the two transactions.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attri::Attri;
use super::{Item, exactly, kind, prefix};
use crate::corruption::{Expected, VerifyResult};
use crate::ctx::Ctx;

/// The kind of work of an intent. A done item must match it, and the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// EFI, EFD: extents to free.
    ExtentFree,
    /// EFI_RT, EFD_RT.
    ExtentFreeRt,
    /// RUI, RUD: reverse mappings to update.
    Rmap,
    /// RUI_RT, RUD_RT.
    RmapRt,
    /// CUI, CUD: reference counts to update.
    Refcount,
    /// CUI_RT, CUD_RT.
    RefcountRt,
    /// BUI, BUD: block maps to update.
    Bmap,
    /// ATTRI, ATTRD: an attribute to change.
    Attr,
    /// XMI, XMD: mappings to exchange between two files.
    Exchange,
}

impl Family {
    /// Returns the usual name of the intent: "EFI", ….
    pub const fn intent_name(self) -> &'static str {
        match self {
            Self::ExtentFree => "EFI",
            Self::ExtentFreeRt => "EFI_RT",
            Self::Rmap => "RUI",
            Self::RmapRt => "RUI_RT",
            Self::Refcount => "CUI",
            Self::RefcountRt => "CUI_RT",
            Self::Bmap => "BUI",
            Self::Attr => "ATTRI",
            Self::Exchange => "XMI",
        }
    }

    /// Returns the usual name of the done item: "EFD", ….
    pub const fn done_name(self) -> &'static str {
        match self {
            Self::ExtentFree => "EFD",
            Self::ExtentFreeRt => "EFD_RT",
            Self::Rmap => "RUD",
            Self::RmapRt => "RUD_RT",
            Self::Refcount => "CUD",
            Self::RefcountRt => "CUD_RT",
            Self::Bmap => "BUD",
            Self::Attr => "ATTRD",
            Self::Exchange => "XMD",
        }
    }

    /// Returns the type of an intent's item.
    pub const fn intent_kind(self) -> u16 {
        match self {
            Self::ExtentFree => kind::EFI,
            Self::ExtentFreeRt => kind::EFI_RT,
            Self::Rmap => kind::RUI,
            Self::RmapRt => kind::RUI_RT,
            Self::Refcount => kind::CUI,
            Self::RefcountRt => kind::CUI_RT,
            Self::Bmap => kind::BUI,
            Self::Attr => kind::ATTRI,
            Self::Exchange => kind::XMI,
        }
    }

    /// Returns the type of a done item.
    pub const fn done_kind(self) -> u16 {
        match self {
            Self::ExtentFree => kind::EFD,
            Self::ExtentFreeRt => kind::EFD_RT,
            Self::Rmap => kind::RUD,
            Self::RmapRt => kind::RUD_RT,
            Self::Refcount => kind::CUD,
            Self::RefcountRt => kind::CUD_RT,
            Self::Bmap => kind::BUD,
            Self::Attr => kind::ATTRD,
            Self::Exchange => kind::XMD,
        }
    }
}

/// An intent: work logged ahead of doing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The kind of work.
    pub family: Family,
    /// Id, unique among the pending intents of the journal.
    pub id: u64,
    /// The work.
    pub work: Work,
}

impl Intent {
    /// Returns the intent to change an attribute.
    pub(super) fn of_attr(attri: Attri) -> Self {
        let id = attri.format.id.get();
        Self { family: Family::Attr, id, work: Work::Attr(Box::new(attri)) }
    }

    /// Returns the done item for the whole intent.
    pub fn done(&self) -> Done {
        let freed = match &self.work {
            Work::Free(extents) => extents.clone(),
            _ => Vec::new(),
        };
        Done { family: self.family, id: self.id, freed }
    }
}

/// The work of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Extents to free.
    Free(Vec<FreeExtent>),
    /// Reverse mappings to update.
    Rmap(Vec<MapExtent>),
    /// Reference counts to update.
    Refcount(Vec<CountExtent>),
    /// Block maps to update.
    Bmap(Vec<MapExtent>),
    /// An attribute to change.
    Attr(Box<Attri>),
    /// Mappings to exchange.
    Exchange(Box<Exchange>),
}

/// A done item: the work of an intent is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The kind of work.
    pub family: Family,
    /// Id of the intent.
    pub id: u64,
    /// EFD: the freed extents. Informational.
    pub freed: Vec<FreeExtent>,
}

/// Header of EFI, EFD, RUI, CUI and BUI; the whole of the other done items.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Head {
    /// See [`kind`].
    pub r#type: U16,
    /// 1.
    pub size: U16,
    /// Extents that follow.
    pub nextents: U32,
    /// Id of the intent.
    pub id: U64,
}
const _: () = assert!(size_of::<Head>() == 16);

/// One extent of EFI and EFD.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FreeExtent {
    /// First block.
    pub start: U64,
    /// Blocks.
    pub len: U32,
    /// Zero. Old 32-bit kernels left it out.
    pub pad: U32,
}
const _: () = assert!(size_of::<FreeExtent>() == 16);
/// Bytes of an extent that an old 32-bit kernel logged.
const FREE_EXTENT_PACKED: usize = 12;

/// One extent of RUI and BUI.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MapExtent {
    /// Inode, or one of the special owners (RUI).
    pub owner: U64,
    /// First block.
    pub startblock: U64,
    /// Position in the owner's fork, in blocks.
    pub startoff: U64,
    /// Blocks.
    pub len: U32,
    /// Operation in the low byte, fork and state above.
    pub flags: U32,
}
const _: () = assert!(size_of::<MapExtent>() == 32);

/// The operation of a RUI on a reverse mapping. It is the same for shared blocks and for staging
/// extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmapOp {
    /// The owner gains the blocks.
    Map,
    /// The owner loses the blocks.
    Unmap,
    /// The blocks change between written and unwritten.
    Convert,
}

/// The operation of a BUI on a file's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOp {
    /// Maps the blocks.
    Map,
    /// Unmaps the blocks, without freeing them.
    Unmap,
}

impl MapExtent {
    /// The low byte: the operation.
    const OP: u32 = 0xff;
    const BIT_29: u32 = 1 << 29;
    const BIT_30: u32 = 1 << 30;
    const BIT_31: u32 = 1 << 31;

    fn has(&self, bit: u32) -> bool {
        self.flags.get() & bit != 0
    }

    /// Returns the operation; `None` if unknown bits are set.
    fn op(&self) -> Option<u32> {
        let known = Self::OP | Self::BIT_29 | Self::BIT_30 | Self::BIT_31;
        (!self.has(!known)).then_some(self.flags.get() & Self::OP)
    }

    /// Returns the operation of a RUI; `None` if it is unknown.
    pub fn rmap_op(&self) -> Option<RmapOp> {
        Some(match self.op()? {
            1 | 2 | 7 => RmapOp::Map,
            3 | 4 | 8 => RmapOp::Unmap,
            5 | 6 => RmapOp::Convert,
            _ => return None,
        })
    }

    /// Returns the operation of a BUI; `None` if it is unknown.
    pub fn map_op(&self) -> Option<MapOp> {
        Some(match self.op()? {
            1 => MapOp::Map,
            2 => MapOp::Unmap,
            _ => return None,
        })
    }

    /// Returns true if the extent belongs to the attribute fork.
    pub fn in_attr_fork(&self) -> bool {
        self.has(Self::BIT_31)
    }

    /// Returns true if the blocks of a RUI are those of the fork's btree.
    pub fn is_tree_block(&self) -> bool {
        self.has(Self::BIT_30)
    }

    /// Returns true if the blocks of a RUI are unwritten.
    pub fn rmap_unwritten(&self) -> bool {
        self.has(Self::BIT_29)
    }

    /// Returns true if the blocks of a BUI are unwritten.
    pub fn map_unwritten(&self) -> bool {
        self.has(Self::BIT_30)
    }

    /// Returns true if the blocks of a BUI are on the realtime device.
    pub fn is_realtime(&self) -> bool {
        self.has(Self::BIT_29)
    }
}

/// One extent of CUI.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CountExtent {
    /// First block.
    pub startblock: U64,
    /// Blocks.
    pub len: U32,
    /// 1 increase, 2 decrease, 3 allocate CoW staging, 4 free CoW staging.
    pub flags: U32,
}
const _: () = assert!(size_of::<CountExtent>() == 16);

/// The operation of a CUI on reference counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountOp {
    /// Adds one owner.
    Increase,
    /// Removes one owner; removing the last one frees the blocks.
    Decrease,
    /// Makes the blocks a staging extent.
    CowAlloc,
    /// Ends a staging extent, without freeing the blocks.
    CowFree,
}

impl CountExtent {
    /// Returns the operation; `None` if it is unknown.
    pub fn op(&self) -> Option<CountOp> {
        Some(match self.flags.get() {
            1 => CountOp::Increase,
            2 => CountOp::Decrease,
            3 => CountOp::CowAlloc,
            4 => CountOp::CowFree,
            _ => return None,
        })
    }

    /// Returns the rest after the first `len` blocks; `None` if there is none.
    pub fn behind(&self, len: u32) -> Option<Self> {
        let left = self.len.get().checked_sub(len).filter(|&left| left > 0)?;
        let startblock = self.startblock.get().saturating_add(len.into()).into();
        Some(Self { startblock, len: left.into(), flags: self.flags })
    }
}

/// Flags of an [`Exchange`].
pub mod exchange {
    /// The attribute forks are exchanged.
    pub const ATTR_FORK: u64 = 1;
    /// Sizes are set at the end.
    pub const SET_SIZES: u64 = 2;
    /// Only written extents of the first file are exchanged.
    pub const WRITTEN_ONLY: u64 = 4;
    /// At the end the first file shares no blocks any more.
    pub const CLEAR_REFLINK_1: u64 = 8;
    /// At the end the second file shares no blocks any more.
    pub const CLEAR_REFLINK_2: u64 = 16;
    /// All known flags.
    pub const KNOWN: u64 = 31;
}

/// XMI: exchange the mappings of two files.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Exchange {
    /// [`kind::XMI`].
    pub r#type: U16,
    /// 1.
    pub size: U16,
    /// Zero.
    pub pad: U32,
    /// Id of the intent.
    pub id: U64,
    /// First file.
    pub inode1: U64,
    /// Second file.
    pub inode2: U64,
    /// Generation of the first file.
    pub igen1: U32,
    /// Generation of the second file.
    pub igen2: U32,
    /// Position in the first file, in blocks.
    pub startoff1: U64,
    /// Position in the second file, in blocks.
    pub startoff2: U64,
    /// Blocks to exchange.
    pub blockcount: U64,
    /// See [`exchange`].
    pub flags: U64,
    /// Size of the first file afterwards, in bytes; all ones without flag 2.
    pub isize1: U64,
    /// Size of the second file afterwards, in bytes.
    pub isize2: U64,
}
const _: () = assert!(size_of::<Exchange>() == 88);

/// Decodes the region of an intent or done item; `None` for a type that is neither.
pub(super) fn decode<'a>(
    kind: u16,
    region: &[u8],
    ctx: &Ctx<'_>,
) -> VerifyResult<Option<Item<'a>>> {
    use Family as F;
    let item = match kind {
        kind::EFI => free_intent(F::ExtentFree, region, ctx)?,
        kind::EFI_RT => free_intent(F::ExtentFreeRt, region, ctx)?,
        kind::RUI => intent(F::Rmap, Work::Rmap, region, ctx)?,
        kind::RUI_RT => intent(F::RmapRt, Work::Rmap, region, ctx)?,
        kind::CUI => intent(F::Refcount, Work::Refcount, region, ctx)?,
        kind::CUI_RT => intent(F::RefcountRt, Work::Refcount, region, ctx)?,
        kind::BUI => intent(F::Bmap, Work::Bmap, region, ctx)?,
        kind::XMI => exchange_intent(region, ctx)?,
        kind::EFD => free_done(F::ExtentFree, region, ctx)?,
        kind::EFD_RT => free_done(F::ExtentFreeRt, region, ctx)?,
        kind::RUD => done(F::Rmap, region, ctx)?,
        kind::RUD_RT => done(F::RmapRt, region, ctx)?,
        kind::CUD => done(F::Refcount, region, ctx)?,
        kind::CUD_RT => done(F::RefcountRt, region, ctx)?,
        kind::BUD => done(F::Bmap, region, ctx)?,
        kind::ATTRD => done(F::Attr, region, ctx)?,
        kind::XMD => done(F::Exchange, region, ctx)?,
        _ => return Ok(None),
    };
    Ok(Some(item))
}

/// Decodes RUI, CUI and BUI: a header and its extents, no byte more.
fn intent<'a, T>(
    family: Family,
    work: fn(Vec<T>) -> Work,
    region: &[u8],
    ctx: &Ctx<'_>,
) -> VerifyResult<Item<'a>>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned + Clone,
{
    let (head, rest) = prefix::<Head>(region, "log.intent.len", ctx)?;
    let extents = <[T]>::ref_from_bytes_with_elems(rest, head.nextents.get() as usize);
    let Ok(extents) = extents else { return Err(wrong_extents(head, rest, ctx)) };
    Ok(Item::Intent(Intent { family, id: head.id.get(), work: work(extents.to_vec()) }))
}

fn free_intent<'a>(family: Family, region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<Item<'a>> {
    let (head, extents) = free_extents(region, ctx)?;
    Ok(Item::Intent(Intent { family, id: head.id.get(), work: Work::Free(extents) }))
}

fn free_done<'a>(family: Family, region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<Item<'a>> {
    let (head, freed) = free_extents(region, ctx)?;
    Ok(Item::Done(Done { family, id: head.id.get(), freed }))
}

fn done<'a>(family: Family, region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<Item<'a>> {
    let (head, _) = prefix::<Head>(region, "log.intent.len", ctx)?;
    Ok(Item::Done(Done { family, id: head.id.get(), freed: Vec::new() }))
}

fn exchange_intent<'a>(region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<Item<'a>> {
    let xmi: &Exchange = exactly(region, "log.xmi.len", ctx)?;
    let work = Work::Exchange(Box::new(xmi.clone()));
    Ok(Item::Intent(Intent { family: Family::Exchange, id: xmi.id.get(), work }))
}

/// Decodes the extents of EFI and EFD. They have 16 bytes, or 12 if an old 32-bit kernel wrote
/// them; the length of the region decides.
fn free_extents<'a>(region: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<(&'a Head, Vec<FreeExtent>)> {
    let (head, rest) = prefix::<Head>(region, "log.intent.len", ctx)?;
    let n = head.nextents.get() as usize;
    if let Ok(extents) = <[FreeExtent]>::ref_from_bytes_with_elems(rest, n) {
        return Ok((head, extents.to_vec()));
    }
    if n.checked_mul(FREE_EXTENT_PACKED) != Some(rest.len()) {
        return Err(wrong_extents(head, rest, ctx));
    }
    let packed = rest.chunks_exact(FREE_EXTENT_PACKED).filter_map(|bytes| {
        let (start, rest) = U64::read_from_prefix(bytes).ok()?;
        let (len, _) = U32::read_from_prefix(rest).ok()?;
        Some(FreeExtent { start, len, pad: U32::ZERO })
    });
    Ok((head, packed.collect()))
}

/// Makes the corruption of extents that do not fill the region.
fn wrong_extents(head: &Head, rest: &[u8], ctx: &Ctx<'_>) -> Box<crate::Corruption> {
    let fitting = format!("as many extents as fill {} bytes", rest.len());
    ctx.corruption("log.intent.nextents", Expected::Described(fitting.into()), head.nextents.get())
}
