//! Extended attributes of one inode, in all their forms, with remote values and parent pointers.

use xfskit_format::attr::leaf::{AttrValue, Leaf};
use xfskit_format::attr::{self, Namespace, remote, sf};
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork, Layout, Location};
use xfskit_units::Ino;

use crate::datree::{self, LeafHead, MappedFork};
use crate::volume::Volume;

/// Receives each parent pointer: the parent, its generation, the name.
pub(crate) type OnParent<'p> = dyn FnMut(Ino, u32, &[u8]) + 'p;

/// Checks the attributes of `inode`; `map` is the map of its attribute fork. Returns false if a
/// part could not be read.
pub(crate) fn check(
    vol: &Volume<'_>,
    scratch: &mut datree::Scratch,
    inode: &Dinode<'_>,
    at: Location,
    map: &[Extent],
    on_parent: &mut OnParent<'_>,
) -> bool {
    let (Some(room), Some(ino)) = (inode.attr_fork(), at.ino) else { return true };
    let ctx = vol.ctx(at.fork(Fork::Attr));
    match inode.aformat() {
        Some(Format::Local) => check_short_form(vol, &ctx, room, on_parent),
        Some(Format::Extents | Format::Btree) if !map.is_empty() => {
            let fork = MappedFork { vol, ino, fork: Fork::Attr, map };
            check_blocks(fork, scratch, on_parent)
        }
        _ => true,
    }
}

fn check_short_form(
    vol: &Volume<'_>,
    ctx: &Ctx<'_>,
    room: &[u8],
    on_parent: &mut OnParent<'_>,
) -> bool {
    let list = match sf::Sf::verify(room, ctx) {
        Ok(list) => list,
        Err(corruption) => return vol.sink.error(Err(corruption)),
    };
    for (index, entry) in list.entries().enumerate() {
        let ctx = ctx.entry(index);
        check_name(vol, &ctx, entry.flags, entry.name);
        let is_parent = entry.namespace() == Some(Namespace::Parent);
        let same = |other: &sf::Entry<'_>| {
            (other.flags, other.name) == (entry.flags, entry.name)
                && (!is_parent || other.value == entry.value)
        };
        if list.entries().take(index).any(|other| same(&other)) {
            let found =
                format!("the name {:?} is there twice", String::from_utf8_lossy(entry.name));
            vol.sink.error(ctx.fail("attr.dup", "each name once", found));
        }
        if is_parent {
            check_parent(vol, &ctx, entry.name, entry.value, on_parent);
        }
    }
    true
}

fn check_name(vol: &Volume<'_>, ctx: &Ctx<'_>, flags: u8, name: &[u8]) {
    let bad = name.contains(&0) || (flags & attr::PARENT != 0 && name.contains(&b'/'));
    if bad {
        let found = String::from_utf8_lossy(name).into_owned();
        vol.sink.error(ctx.require("attr.name", false, "a name that programs can give", found));
    }
}

fn check_parent(
    vol: &Volume<'_>,
    ctx: &Ctx<'_>,
    name: &[u8],
    value: &[u8],
    on_parent: &mut OnParent<'_>,
) {
    let rec = attr::parent::Rec::parse(value);
    let sound = rec.is_some_and(|rec| vol.geo.valid_ino(rec.ino()));
    let wanted = "an inode number and a generation";
    if vol.sink.error(ctx.require("parent.value", sound, wanted, value.len()))
        && let Some(rec) = rec
    {
        on_parent(rec.ino(), rec.p_gen.get(), name);
    }
}

/// Checks attributes that have blocks of their own.
fn check_blocks(
    fork: MappedFork<'_, '_>,
    scratch: &mut datree::Scratch,
    on_parent: &mut OnParent<'_>,
) -> bool {
    let vol = fork.vol;
    let mut seen = Seen::default();
    let entered = datree::walk(fork, scratch, &mut |bytes, ctx, whole| {
        let leaf = Leaf::verify(bytes, ctx)?;
        check_leaf(vol, ctx, &leaf, whole, &mut seen, on_parent);
        let hash = |entry: &attr::leaf::LeafEntry| entry.hashval.get();
        let hashes = leaf.entries.first().map(hash).zip(leaf.last_hash());
        Ok(LeafHead::new(leaf.info, hashes))
    });
    let mut sound = entered.is_some();
    let mut blocks = entered.unwrap_or(0);
    for (valueblk, valuelen) in seen.values {
        sound &= check_value(fork, valueblk, valuelen);
        blocks += u64::from(remote::blocks(&vol.geo, valuelen));
    }
    if sound {
        let ctx = vol.ctx(Location::of("inode").ino(fork.ino).fork(Fork::Attr));
        let mapped = fork.mapped(0, u64::MAX);
        // The blocks of an unfinished attribute are reported with it.
        if !seen.unfinished {
            vol.sink.warning(ctx.eq("attr.unreached", 0, mapped.saturating_sub(blocks)));
        }
        vol.sink.error(ctx.at_most("attr.leaf.valueblk", mapped, blocks));
    }
    sound
}

/// State collected from the leaves of a fork.
#[derive(Default)]
struct Seen {
    /// First block, and length in bytes, of each remote value.
    values: Vec<(u32, u32)>,
    /// True if an entry is incomplete.
    unfinished: bool,
}

fn check_leaf(
    vol: &Volume<'_>,
    ctx: &Ctx<'_>,
    leaf: &Leaf<'_>,
    whole: bool,
    seen: &mut Seen,
    on_parent: &mut OnParent<'_>,
) {
    if leaf.entries.is_empty() {
        let result = ctx.at_least("attr.leaf.count", 1, leaf.entries.len());
        if whole {
            vol.sink.warning(result)
        } else {
            vol.sink.error(result)
        };
    }
    vol.sink.error(leaf.verify_space(ctx));
    if !leaf.holes {
        let listed: usize = leaf.freemap.iter().map(|free| usize::from(free.size.get())).sum();
        let taken = Layout::of(&vol.geo).attr_leaf_header
            + size_of_val(leaf.entries)
            + leaf.attrs().map(|attr| attr.size()).sum::<usize>();
        let free = vol.geo.blocksize().saturating_sub(taken);
        vol.sink.warning(ctx.eq("attr.leaf.freemap", free, listed));
    }
    let mut run_start = 0;
    for (index, entry) in leaf.entries.iter().enumerate() {
        let ctx = ctx.entry(index);
        let Some(attr) = leaf.attr(entry) else { continue };
        if attr.is_incomplete() {
            seen.unfinished = true;
            let wanted = "an attribute that was finished";
            let found = "it was being set when power failed, and is not seen; the next change of the \
                         attributes clears it";
            vol.sink.error(ctx.fail("attr.leaf.incomplete", wanted, found));
            continue;
        }
        check_name(vol, &ctx, attr.flags, attr.name);
        let is_parent = attr.namespace() == Some(Namespace::Parent);
        if leaf.entries[run_start].hashval != entry.hashval {
            run_start = index;
        }
        let same = |other: &attr::leaf::Attr<'_>| {
            !other.is_incomplete()
                && (other.namespace(), other.name) == (attr.namespace(), attr.name)
                && (!is_parent || other.value == attr.value)
        };
        let run = leaf.entries[run_start..index].iter().filter_map(|e| leaf.attr(e));
        if run.take(MAX_RUN).any(|other| same(&other)) {
            let found = format!("the name {:?} is there twice", String::from_utf8_lossy(attr.name));
            vol.sink.error(ctx.fail("attr.dup", "each name once", found));
        }
        match attr.value {
            AttrValue::Remote { valueblk, valuelen } => seen.values.push((valueblk.0, valuelen)),
            AttrValue::Local(value) if is_parent => {
                check_parent(vol, &ctx, attr.name, value, on_parent);
            }
            AttrValue::Local(_) => {}
        }
        if is_parent && matches!(attr.value, AttrValue::Remote { .. }) {
            vol.sink.error(ctx.require("parent.value", false, "beside its name", "remote"));
        }
    }
}

/// Maximum number of entries of one hash that are compared with each other.
const MAX_RUN: usize = 64;

/// Checks a remote value.
fn check_value(fork: MappedFork<'_, '_>, valueblk: u32, valuelen: u32) -> bool {
    let vol = fork.vol;
    let mut buf = vec![0; vol.geo.blocksize()];
    let mut offset = 0;
    for n in 0..remote::blocks(&vol.geo, valuelen) {
        let at = fork.location("attr value", u64::from(valueblk) + u64::from(n));
        let ctx = vol.ctx(at);
        if at.daddr.is_none() {
            let mapped = "a block that the fork's map covers";
            return vol.sink.error(ctx.require("attr.leaf.valueblk", false, mapped, valueblk));
        }
        let part = fork.read(at, &mut buf).and_then(|()| {
            vol.verify_in(at, &mut buf, remote::CRC_OFFSET, |bytes| {
                remote::verify(bytes, &ctx, offset, valuelen).map(<[u8]>::len)
            })
        });
        let Some(part) = part else { return false };
        offset = offset.saturating_add(u32::try_from(part).unwrap_or(u32::MAX));
    }
    true
}
