//! Log items as nodes.

use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::bmbt::{Extent, records};
use xfskit_format::dir::sf::Sf;
use xfskit_format::inode::{FileType, Format};
use xfskit_format::log::item::attri::Attri;
use xfskit_format::log::item::buf::{Buf, BufType, Change};
use xfskit_format::log::item::inode::{self, Inode, LogDinode};
use xfskit_format::log::item::intent::{FreeExtent, MapExtent, Work};
use xfskit_format::log::item::{Dquot, Icreate, Intent, Item};
use xfskit_format::sb::Superblock;
use xfskit_format::timestamp::Timestamp;
use xfskit_format::{Fork, Layout, bytes};
use xfskit_units::{Geometry, Uuid};
use zerocopy::FromBytes;

use crate::dump::Scalar;

use super::node::{Node, digits, escaped, hex};

/// Decodes one item, with its bytes if `data`.
pub(super) fn node(item: &Item<'_>, geo: &Geometry, data: bool) -> Node {
    match item {
        Item::Buf(buf) => buf_node(buf, geo, data),
        Item::Inode(inode) => inode_node(inode, geo, data),
        Item::Icreate(icreate) => icreate_node(icreate),
        Item::Dquot(dquot) => dquot_node(dquot, data),
        Item::Quotaoff(off) => Node::new("QUOTAOFF").field("flags", hex(off.flags.get())),
        Item::Intent(intent) => intent_node(intent),
        Item::Done(done) => Node::new(done.family.done_name())
            .field("id", hex(done.id))
            .children(done.freed.iter().map(free_node)),
    }
}

// ---- buffers ------------------------------------------------------------------------------------

fn buf_node(buf: &Buf<'_>, geo: &Geometry, data: bool) -> Node {
    let format = buf.format;
    let mut node = Node::new("BUF")
        .field("regs", format.size.get())
        .field("blkno", hex(format.blkno.get()))
        .field("len", format.len.get())
        .field("map_size", format.map_size.get())
        .field("flags", hex(format.flags.get()))
        .field("type", format!("{:?}", buf.buf_type()));
    if buf.is_cancel() {
        return node.field("cancel", "yes");
    }
    if buf.is_unlinked() {
        node = node.children(unlinked_nodes(buf, geo));
    } else {
        node = node.children(header_node(buf));
    }
    let change = |change: Change<'_>| {
        let node =
            Node::new("change").field("offset", change.offset).field("len", change.bytes.len());
        if data { node.field("bytes", digits(change.bytes)) } else { node }
    };
    node.children(buf.changes().map(change))
}

/// Returns the unlinked pointers that an inode cluster's image has.
fn unlinked_nodes<'a>(buf: &Buf<'a>, geo: &'a Geometry) -> impl Iterator<Item = Node> + use<'a> {
    let size = geo.inodesize();
    buf.changes().flat_map(move |change| {
        let end = change.offset.saturating_add(change.bytes.len());
        (change.offset / size..end.div_ceil(size)).filter_map(move |index| {
            let field = index.checked_mul(size)?.checked_add(inode::NEXT_UNLINKED_OFFSET)?;
            let next = bytes::be32(change.bytes, field.checked_sub(change.offset)?)?;
            Some(Node::new("unlinked").field("index", index).field("next", hex(next)))
        })
    })
}

/// Decodes the fields of a superblock or group header that the change at its start covers.
fn header_node(buf: &Buf<'_>) -> Option<Node> {
    let first = buf.changes().next().filter(|change| change.offset == 0)?;
    let mut sector = vec![0; 512.max(first.bytes.len())];
    sector.get_mut(..first.bytes.len())?.copy_from_slice(first.bytes);
    let node = match buf.buf_type() {
        BufType::Superblock => {
            let sb = Superblock::parse(&sector)?;
            Node::new("superblock")
                .field("icount", sb.icount.get())
                .field("ifree", sb.ifree.get())
                .field("fdblocks", sb.fdblocks.get())
                .field("frextents", sb.frextents.get())
                .field("versionnum", hex(sb.versionnum.get()))
        }
        BufType::Agf => {
            let (agf, _) = Agf::ref_from_prefix(&sector).ok()?;
            Node::new("agf")
                .field("seqno", agf.seqno.get())
                .field("length", agf.length.get())
                .field("bnoroot", agf.bnoroot.get())
                .field("cntroot", agf.cntroot.get())
                .field("flfirst", agf.flfirst.get())
                .field("fllast", agf.fllast.get())
                .field("flcount", agf.flcount.get())
                .field("freeblks", agf.freeblks.get())
                .field("longest", agf.longest.get())
        }
        BufType::Agi => {
            let (agi, _) = Agi::ref_from_prefix(&sector).ok()?;
            Node::new("agi")
                .field("seqno", agi.seqno.get())
                .field("length", agi.length.get())
                .field("count", agi.count.get())
                .field("root", agi.root.get())
                .field("level", agi.level.get())
                .field("freecount", agi.freecount.get())
                .field("newino", hex(agi.newino.get()))
        }
        _ => return None,
    };
    Some(node)
}

// ---- inodes -------------------------------------------------------------------------------------

fn inode_node(item: &Inode<'_>, geo: &Geometry, data: bool) -> Node {
    let format = &item.format;
    let mut node = Node::new("INODE")
        .field("regs", format.size.get())
        .field("ino", hex(format.ino.get()))
        .field("fields", hex(format.fields.get()))
        .field("asize", format.asize.get())
        .field("dsize", format.dsize.get())
        .field("blkno", hex(format.blkno.get()))
        .field("len", format.len.get())
        .field("boffset", format.boffset.get())
        .child(core_node(&item.core));
    if format.fields.get() & inode::DEV != 0 {
        node = node.child(Node::new("dev").field("rdev", hex(format.rdev.get())));
    }
    for (fork, name, broot) in
        [(Fork::Data, "data", inode::DBROOT), (Fork::Attr, "attr", inode::ABROOT)]
    {
        let Some(logged) = item.fork(fork) else { continue };
        let root = format.fields.get() & broot != 0;
        node = node.child(fork_node(name, logged, root, item, fork, geo, data));
    }
    node
}

fn core_node(core: &LogDinode) -> Node {
    let v3 = core.version >= 3;
    let bigtime = v3 && core.flags2.get() & 8 != 0;
    let time = |raw: u64| {
        let time = if bigtime {
            Timestamp::from_bigtime(raw)
        } else {
            // Converts two numbers, seconds first, in either byte order.
            Timestamp::from_legacy(raw.rotate_left(32))
        };
        format!("{}.{:09}", time.sec, time.nsec)
    };
    let mut node = Node::new("core")
        .field("mode", Scalar::Octal(core.mode.get().into()))
        .field("version", core.version)
        .field("format", core.format)
        .field("nlink", core.nlink.get())
        .field("uid", core.uid.get())
        .field("gid", core.gid.get())
        .field("projid", (u64::from(core.projid_hi.get()) << 16) | u64::from(core.projid_lo.get()))
        .field("atime", time(core.atime.get()))
        .field("mtime", time(core.mtime.get()))
        .field("ctime", time(core.ctime.get()))
        .field("size", core.size.get())
        .field("nblocks", core.nblocks.get())
        .field("extsize", core.extsize.get())
        .field("nextents", core.nextents.get())
        .field("naextents", core.anextents.get())
        .field("forkoff", core.forkoff)
        .field("aformat", core.aformat)
        .field("flags", hex(core.flags.get()))
        .field("gen", core.r#gen.get());
    if v3 {
        node = node
            .field("big_nextents", core.big_nextents.get())
            .field("flags2", hex(core.flags2.get()))
            .field("cowextsize", core.cowextsize.get())
            .field("crtime", time(core.crtime.get()))
            .field("uuid", Uuid::from_bytes(core.uuid).to_string());
    } else {
        node = node.field("flushiter", core.flushiter());
    }
    node
}

fn fork_node(
    name: &'static str,
    logged: &[u8],
    root: bool,
    item: &Inode<'_>,
    fork: Fork,
    geo: &Geometry,
    data: bool,
) -> Node {
    let node = Node::new(name).field("len", logged.len());
    let format = match fork {
        Fork::Data => item.core.format,
        Fork::Attr => item.core.aformat,
    };
    let file_type = FileType::from_mode(item.core.mode.get()).filter(|_| fork == Fork::Data);
    match Format::from_disk(format) {
        _ if root => node.field("form", "btree").children(root_nodes(logged, geo)),
        Some(Format::Extents) => {
            let extents = records(logged, logged.len() / 16);
            node.field("form", "extents")
                .children(extents.iter().map(|rec| extent_node(&rec.decode())))
        }
        Some(Format::Local) if file_type == Some(FileType::Symlink) => {
            node.field("form", "local").field("target", escaped(logged))
        }
        Some(Format::Local) if file_type == Some(FileType::Directory) => {
            let entries = Sf::parse(logged, geo).map(|sf| sf.entries());
            let entry = |entry: xfskit_format::dir::Entry<'_>| {
                Node::new("entry")
                    .field("name", escaped(entry.name))
                    .field("inumber", entry.inumber.0)
            };
            node.field("form", "local").children(entries.into_iter().flatten().map(entry))
        }
        _ if data => node.field("form", "local").field("bytes", digits(logged)),
        _ => node.field("form", "local"),
    }
}

fn extent_node(extent: &Extent) -> Node {
    Node::new("extent")
        .field("startoff", extent.startoff.0)
        .field("startblock", extent.startblock.0)
        .field("blockcount", extent.blockcount.0)
        .field("unwritten", u8::from(extent.unwritten))
}

/// Decodes the keys and pointers of a logged btree root.
fn root_nodes(logged: &[u8], geo: &Geometry) -> Vec<Node> {
    let body = logged.get(Layout::of(geo).long_header..).unwrap_or_default();
    let room = body.len() / 16;
    let numrecs = usize::from(bytes::be16(logged, 6).unwrap_or(0)).min(room);
    let child = |i: usize| {
        let key = bytes::be64(body, i.checked_mul(8)?)?;
        let ptr = bytes::be64(body, room.checked_add(i)?.checked_mul(8)?)?;
        Some(Node::new("child").field("startoff", key).field("block", ptr))
    };
    (0..numrecs).filter_map(child).collect()
}

fn icreate_node(item: &Icreate) -> Node {
    Node::new("ICREATE")
        .field("ag", item.ag.get())
        .field("agbno", item.agbno.get())
        .field("count", item.count.get())
        .field("isize", item.isize.get())
        .field("length", item.length.get())
        .field("gen", item.r#gen.get())
}

fn dquot_node(item: &Dquot<'_>, data: bool) -> Node {
    let node = Node::new("DQUOT")
        .field("id", item.format.id.get())
        .field("blkno", hex(item.format.blkno.get()))
        .field("len", item.format.len.get())
        .field("boffset", item.format.boffset.get());
    if data { node.field("bytes", digits(item.record)) } else { node }
}

// ---- intents ------------------------------------------------------------------------------------

fn intent_node(intent: &Intent) -> Node {
    let node = Node::new(intent.family.intent_name()).field("id", hex(intent.id));
    match &intent.work {
        Work::Free(extents) => node.children(extents.iter().map(free_node)),
        Work::Rmap(extents) | Work::Bmap(extents) => node.children(extents.iter().map(map_node)),
        Work::Refcount(extents) => node.children(extents.iter().map(|extent| {
            Node::new("extent")
                .field("startblock", extent.startblock.get())
                .field("len", extent.len.get())
                .field("flags", hex(extent.flags.get()))
        })),
        Work::Attr(attri) => attri_fields(node, attri),
        Work::Exchange(xmi) => node
            .field("inode1", xmi.inode1.get())
            .field("inode2", xmi.inode2.get())
            .field("igen1", xmi.igen1.get())
            .field("igen2", xmi.igen2.get())
            .field("startoff1", xmi.startoff1.get())
            .field("startoff2", xmi.startoff2.get())
            .field("blockcount", xmi.blockcount.get())
            .field("flags", hex(xmi.flags.get()))
            .field("isize1", xmi.isize1.get())
            .field("isize2", xmi.isize2.get()),
    }
}

fn free_node(extent: &FreeExtent) -> Node {
    Node::new("extent").field("startblock", extent.start.get()).field("len", extent.len.get())
}

fn map_node(extent: &MapExtent) -> Node {
    Node::new("extent")
        .field("owner", extent.owner.get().cast_signed().to_string())
        .field("startblock", extent.startblock.get())
        .field("startoff", extent.startoff.get())
        .field("len", extent.len.get())
        .field("flags", hex(extent.flags.get()))
}

fn attri_fields(node: Node, attri: &Attri) -> Node {
    let node = node
        .field("op", format!("{:?}", attri.op))
        .field("ino", attri.format.ino.get())
        .field("igen", attri.format.igen.get())
        .field("attr_filter", hex(attri.format.attr_filter.get()))
        .field("name", escaped(&attri.name))
        .field("value", escaped(&attri.value));
    if attri.new_name.is_empty() {
        return node;
    }
    node.field("new_name", escaped(&attri.new_name)).field("new_value", escaped(&attri.new_value))
}
