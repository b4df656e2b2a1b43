//! Verification of unfinished intents: invalid ones, and those that this code cannot finish.

use xfskit_format::attr::Namespace;
use xfskit_format::log::item::attri::AttrOp;
use xfskit_format::log::item::intent::{MapExtent, Work, exchange};
use xfskit_format::log::item::{Family, Intent};
use xfskit_format::rmap::owner;
use xfskit_format::{Ctx, Value, VerifyResult};
use xfskit_units::{FsBlock, Ino};

use super::ctx;
use crate::error::{Error, Result};
use crate::volume::Volume;

const REALTIME: &str = "on the realtime device";
const ATTR_FORK: &str = "about an attribute fork";

/// Refuses intents that this code cannot finish, by name.
///
/// # Errors
/// [`Error::Unsupported`].
pub(crate) fn refuse(intents: &[Intent]) -> Result<()> {
    use Family::{ExtentFreeRt, RefcountRt, RmapRt};
    for intent in intents {
        let what = match &intent.work {
            _ if matches!(intent.family, ExtentFreeRt | RmapRt | RefcountRt) => REALTIME,
            Work::Bmap(extents) if extents.iter().any(MapExtent::is_realtime) => REALTIME,
            Work::Bmap(extents) if extents.iter().any(MapExtent::in_attr_fork) => ATTR_FORK,
            Work::Exchange(work) if work.flags.get() & exchange::ATTR_FORK != 0 => ATTR_FORK,
            _ => continue,
        };
        let (name, id) = (intent.family.intent_name(), intent.id);
        return Err(Error::Unsupported(format!("finishing an intent {what} ({name} {id:#x})")));
    }
    Ok(())
}

/// Verifies `intent`, before anything is done.
pub(super) fn verify(volume: &Volume, intent: &Intent) -> Result<()> {
    let ctx = ctx(volume, intent);
    let done = match &intent.work {
        Work::Free(extents) => extents
            .iter()
            .try_for_each(|extent| verify_extent(&ctx, extent.start.get(), extent.len.get())),
        Work::Rmap(extents) => extents.iter().try_for_each(|extent| {
            ctx.require(
                "log.rui.flags",
                extent.rmap_op().is_some(),
                "a known operation",
                hex(extent.flags.get()),
            )?;
            verify_owner(&ctx, extent.owner.get())?;
            verify_extent(&ctx, extent.startblock.get(), extent.len.get())
        }),
        Work::Refcount(extents) => extents.iter().try_for_each(|extent| {
            ctx.require(
                "log.cui.flags",
                extent.op().is_some(),
                "a known operation",
                hex(extent.flags.get()),
            )?;
            ctx.require("log.cui.reflink", ctx.geo.features.reflink(), "reflink", "none")?;
            verify_extent(&ctx, extent.startblock.get(), extent.len.get())
        }),
        Work::Bmap(extents) => extents.iter().try_for_each(|extent| {
            ctx.require(
                "log.bui.flags",
                extent.map_op().is_some(),
                "a known operation",
                hex(extent.flags.get()),
            )?;
            verify_ino(&ctx, extent.owner.get())?;
            verify_extent(&ctx, extent.startblock.get(), extent.len.get())
        }),
        Work::Exchange(work) => {
            let flags = work.flags.get();
            ctx.require(
                "log.xmi.flags",
                flags & !exchange::KNOWN == 0,
                "known flags",
                Value::Hex(flags),
            )?;
            verify_ino(&ctx, work.inode1.get())?;
            verify_ino(&ctx, work.inode2.get())
        }
        Work::Attr(attri) => {
            let parent = matches!(
                attri.op,
                AttrOp::ParentSet | AttrOp::ParentRemove | AttrOp::ParentReplace
            );
            let fits =
                attri.namespace().is_some_and(|space| parent == (space == Namespace::Parent));
            let filter = attri.format.attr_filter.get();
            ctx.require("log.attri.attr_filter", fits, "the operation's namespace", hex(filter))?;
            verify_ino(&ctx, attri.format.ino.get())
        }
    };
    Ok(done?)
}

fn hex(flags: u32) -> Value {
    Value::Hex(flags.into())
}

fn verify_extent(ctx: &Ctx<'_>, start: u64, len: u32) -> VerifyResult {
    let valid = ctx.geo.valid_fsb_extent(FsBlock(start), len.into());
    ctx.require("log.intent.extent", valid, "blocks of one group", FsBlock(start))
}

fn verify_ino(ctx: &Ctx<'_>, ino: u64) -> VerifyResult {
    ctx.require("log.intent.ino", ctx.geo.valid_ino(Ino(ino)), "an inode of the volume", Ino(ino))
}

/// Verifies that an owner is an inode, or one of the special owners.
fn verify_owner(ctx: &Ctx<'_>, ino: u64) -> VerifyResult {
    if (owner::COW..=owner::FS).contains(&ino) { Ok(()) } else { verify_ino(ctx, ino) }
}
