//! Inodes: the core, then both forks.

use xfskit_format::attr::sf::Sf as AttrSf;
use xfskit_format::bmbt;
use xfskit_format::bytes::be16;
use xfskit_format::dir::sf::Sf as DirSf;
use xfskit_format::inode::{CRC_OFFSET, Dinode, FileType, Format, InodeFlags, InodeFlags2};
use xfskit_format::{Fork, attr};
use xfskit_units::{Geometry, index};

use crate::dump::{Dump, Item, Scalar};
use crate::fields::Kind::{Addr, Crc, Dec, Hex, Uuid};
use crate::fields::{self, Field};
use crate::trees;

const IDENTITY: &[Field] = &[("inumber", 152, Dec(8)), ("uuid", 160, Uuid)];
const UNLINKED: &[Field] = &[("next_unlinked", 96, Addr(4))];
const V3: &[Field] = &[
    ("crc", CRC_OFFSET, Crc),
    ("change_count", 104, Dec(8)),
    ("lsn", 112, Hex(8)),
    ("flags2", 120, Hex(8)),
    ("cowextsize", 128, Dec(4)),
];

fn format_name(raw: u8) -> &'static str {
    match Format::from_disk(raw) {
        Some(Format::Dev) => "dev",
        Some(Format::Local) => "local",
        Some(Format::Extents) => "extents",
        Some(Format::Btree) => "btree",
        Some(Format::Uuid) => "uuid",
        Some(Format::MetaBtree) => "meta btree",
        None => "unknown",
    }
}

fn core(dump: &mut Dump, inode: &Dinode<'_>, v5: bool) {
    let raw = inode.core;
    dump.hex("core.magic", raw.magic.get());
    dump.scalar("core.mode", Scalar::Octal(raw.mode.get().into()));
    dump.dec("core.version", raw.version);
    let format = |raw: u8| Item::Remark(Scalar::Dec(raw.into()), format_name(raw));
    dump.item("core.format", format(raw.format));
    dump.dec("core.onlink", raw.onlink.get());
    dump.dec("core.uid", raw.uid.get());
    dump.dec("core.gid", raw.gid.get());
    dump.dec("core.nlinkv2", raw.nlinkv2.get());
    dump.dec("core.projid_lo", raw.projid_lo.get());
    dump.dec("core.projid_hi", raw.projid_hi.get());
    if inode.has_nrext64() {
        dump.dec("core.nextents", inode.nextents());
    } else if !v5 {
        dump.dec("core.flushiter", raw.big_nextents.get() & 0xffff);
    }
    dump.time("core.atime", inode.atime());
    dump.time("core.mtime", inode.mtime());
    dump.time("core.ctime", inode.ctime());
    dump.dec("core.size", raw.size.get());
    dump.dec("core.nblocks", raw.nblocks.get());
    dump.dec("core.extsize", raw.extsize.get());
    if !inode.has_nrext64() {
        dump.dec("core.nextents", inode.nextents());
    }
    dump.dec("core.naextents", inode.anextents());
    dump.dec("core.forkoff", raw.forkoff);
    dump.item("core.aformat", format(raw.aformat));
    dump.hex("core.dmevmask", raw.dmevmask.get());
    dump.dec("core.dmstate", raw.dmstate.get());
    let set = inode.flags();
    for (name, mask) in [
        ("newrtbm", InodeFlags::NEWRTBM),
        ("prealloc", InodeFlags::PREALLOC),
        ("realtime", InodeFlags::REALTIME),
        ("immutable", InodeFlags::IMMUTABLE),
        ("append", InodeFlags::APPEND),
        ("sync", InodeFlags::SYNC),
        ("noatime", InodeFlags::NOATIME),
        ("nodump", InodeFlags::NODUMP),
        ("rtinherit", InodeFlags::RTINHERIT),
        ("projinherit", InodeFlags::PROJINHERIT),
        ("nosymlinks", InodeFlags::NOSYMLINKS),
        ("extsz", InodeFlags::EXTSIZE),
        ("extszinherit", InodeFlags::EXTSZINHERIT),
        ("nodefrag", InodeFlags::NODEFRAG),
        ("filestream", InodeFlags::FILESTREAM),
    ] {
        dump.dec(format!("core.{name}"), u8::from(set.contains(mask)));
    }
    dump.dec("core.gen", raw.generation.get());
}

fn v3(dump: &mut Dump, bytes: &[u8], inode: &Dinode<'_>) {
    fields::read(dump, "v3.", bytes, true, V3);
    if let Some(time) = inode.crtime() {
        dump.time("v3.crtime", time);
    }
    fields::read(dump, "v3.", bytes, true, IDENTITY);
    let set = inode.flags2();
    for (name, mask) in [
        ("reflink", InodeFlags2::REFLINK),
        ("cowextsz", InodeFlags2::COWEXTSIZE),
        ("dax", InodeFlags2::DAX),
        ("bigtime", InodeFlags2::BIGTIME),
        ("nrext64", InodeFlags2::NREXT64),
    ] {
        dump.dec(format!("v3.{name}"), u8::from(set.contains(mask)));
    }
}

/// Decodes an inode, with the contents of inline forks.
pub fn inode(bytes: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    let Some(inode) = Dinode::parse(bytes, geo) else { return dump };
    core(&mut dump, &inode, geo.v5());
    fields::read(&mut dump, "", bytes, geo.v5(), UNLINKED);
    if geo.v5() {
        v3(&mut dump, bytes, &inode);
    }
    let u = if geo.v5() { "u3" } else { "u" };
    fork(&mut dump, u, &inode, Fork::Data, geo);
    if inode.forkoff() != 0 {
        fork(&mut dump, "a", &inode, Fork::Attr, geo);
    }
    dump
}

fn fork(dump: &mut Dump, prefix: &str, inode: &Dinode<'_>, which: Fork, geo: &Geometry) {
    let Some(room) = inode.fork(which) else { return };
    let count = index(inode.fork_nextents(which));
    match (inode.fork_format(which), which) {
        (Some(Format::Dev), _) => {
            let raw = xfskit_format::bytes::be32(room, 0).unwrap_or(0);
            dump.hex(format!("{prefix}.dev"), raw);
        }
        (Some(Format::Local), Fork::Data) => local_data(dump, prefix, inode, room, geo),
        (Some(Format::Local), Fork::Attr) => local_attr(dump, prefix, room),
        (Some(Format::Extents), _) => {
            let rows: Vec<_> = bmbt::records(room, count).iter().map(trees::extent_row).collect();
            if rows.is_empty() {
                dump.scalar(prefix, Scalar::Text("(empty)".into()));
            }
            dump.table(format!("{prefix}.bmx"), 0, trees::EXTENT_COLUMNS, rows);
        }
        (Some(Format::Btree), _) => {
            let numrecs = be16(room, 2).unwrap_or(0);
            dump.dec(format!("{prefix}.bmbt.level"), be16(room, 0).unwrap_or(0));
            dump.dec(format!("{prefix}.bmbt.numrecs"), numrecs);
            let area = room.get(4..).unwrap_or(&[]);
            let max = bmbt::root_maxrecs(room.len());
            trees::long_children(dump, &format!("{prefix}.bmbt."), area, numrecs.into(), max);
        }
        _ => {}
    }
}

fn local_data(dump: &mut Dump, prefix: &str, inode: &Dinode<'_>, room: &[u8], geo: &Geometry) {
    let used = room.get(..index(inode.size().0)).unwrap_or(room);
    match inode.file_type() {
        Some(FileType::Directory) => {
            let ftype = geo.features.ftype();
            let name = if ftype { "sfdir3" } else { "sfdir2" };
            local_dir(dump, &format!("{prefix}.{name}"), used, geo);
        }
        Some(FileType::Symlink) => {
            dump.item(format!("{prefix}.symlink"), Item::Quoted(used.into()));
        }
        _ => dump.item(format!("{prefix}.local"), Item::Quoted(used.into())),
    }
}

fn local_dir(dump: &mut Dump, prefix: &str, used: &[u8], geo: &Geometry) {
    let Some(sf) = DirSf::parse(used, geo) else { return };
    let width = if sf.i8count == 0 { "i4" } else { "i8" };
    dump.dec(format!("{prefix}.hdr.count"), sf.count);
    dump.dec(format!("{prefix}.hdr.i8count"), sf.i8count);
    dump.dec(format!("{prefix}.hdr.parent.{width}"), sf.parent.0);
    for (i, entry) in sf.entries().enumerate() {
        let prefix = format!("{prefix}.list[{i}]");
        dump.dec(format!("{prefix}.namelen"), entry.name.len() as u64);
        dump.hex(format!("{prefix}.offset"), entry.offset);
        dump.item(format!("{prefix}.name"), Item::Quoted(entry.name.into()));
        dump.dec(format!("{prefix}.inumber.{width}"), entry.inumber.0);
        if let Some(filetype) = entry.filetype {
            dump.dec(format!("{prefix}.filetype"), filetype);
        }
    }
}

fn local_attr(dump: &mut Dump, prefix: &str, room: &[u8]) {
    let Some(sf) = AttrSf::parse(room) else { return };
    dump.dec(format!("{prefix}.sfattr.hdr.totsize"), sf.totsize);
    dump.dec(format!("{prefix}.sfattr.hdr.count"), sf.count);
    for (i, entry) in sf.entries().enumerate() {
        let prefix = format!("{prefix}.sfattr.list[{i}]");
        dump.dec(format!("{prefix}.namelen"), entry.name.len() as u64);
        dump.dec(format!("{prefix}.valuelen"), entry.value.len() as u64);
        dump.dec(format!("{prefix}.root"), u8::from(entry.flags & attr::ROOT != 0));
        dump.dec(format!("{prefix}.secure"), u8::from(entry.flags & attr::SECURE != 0));
        if entry.flags & attr::PARENT != 0 {
            dump.dec(format!("{prefix}.parent"), 1u8);
        }
        dump.item(format!("{prefix}.name"), Item::Quoted(entry.name.into()));
        if !entry.value.is_empty() {
            dump.item(format!("{prefix}.value"), Item::Quoted(entry.value.into()));
        }
    }
}
