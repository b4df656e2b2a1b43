//! From a request to its bytes, and from bytes to a dump by their magic.

use xfskit_core::{Error, Result, Volume};
use xfskit_format::agbtree::Tree;
use xfskit_format::bytes::be32;
use xfskit_format::{Fork, Layout, da, dir as dir_format};
use xfskit_units::{AgNumber, Daddr, FileOff, Geometry, Ino, index};

use crate::dump::{Dump, Item};
use crate::what::What;
use crate::{attr, dir, headers, inode, trees};

/// Directories and attribute forks of more blocks than this are shown up to here.
const BLOCKS_MAX: u64 = 100_000;

/// Decodes `what` on `volume`.
///
/// # Errors
/// Device failures, and requests for what the volume cannot have. Damage is no error: it is shown.
pub fn inspect(volume: &Volume, what: What) -> Result<Dump> {
    let geo = volume.geo();
    let header = |agno: AgNumber, sector| {
        exists(agno.0 < geo.agcount, "such group")?;
        read(volume, geo.ag_header_daddr(agno, sector), geo.sectsize())
    };
    match what {
        What::Sb(agno) => Ok(headers::sb(&header(agno, 0)?, geo)),
        What::Agf(agno) => Ok(headers::agf(&header(agno, 1)?, geo)),
        What::Agi(agno) => Ok(headers::agi(&header(agno, 2)?, geo)),
        What::Agfl(agno) => Ok(headers::agfl(&header(agno, 3)?, geo)),
        What::Tree(tree, agno, None) => {
            exists(tree.exists(geo), tree.ids().tree)?;
            let root = match tree {
                Tree::Bno => be32(&header(agno, 1)?, 16),
                Tree::Cnt => be32(&header(agno, 1)?, 20),
                Tree::Rmap => be32(&header(agno, 1)?, 24),
                Tree::Refcount => be32(&header(agno, 1)?, 88),
                Tree::Ino => be32(&header(agno, 2)?, 20),
                Tree::Fino => be32(&header(agno, 2)?, 328),
            };
            let root = xfskit_units::AgBlock(root.unwrap_or(0));
            inspect(volume, What::Tree(tree, agno, Some(root)))
        }
        What::Tree(tree, agno, Some(agbno)) => {
            exists(agbno.0 < geo.ag_length(agno), "such block")?;
            let block = read(volume, geo.agb_to_daddr(agno, agbno), geo.blocksize())?;
            Ok(trees::short(&block, geo, tree))
        }
        What::Inode(ino) => Ok(inode::inode(&inode_bytes(volume, ino)?, geo)),
        What::Dir(ino) => fork(volume, ino, Fork::Data),
        What::Attr(ino) => fork(volume, ino, Fork::Attr),
        What::AgBlock(agno, agbno) => inspect(volume, What::Block(geo.agb_to_fsb(agno, agbno))),
        What::Block(fsbno) => {
            let daddr = geo.fsb_to_daddr(fsbno);
            inspect(volume, What::Daddr(daddr.ok_or(Error::Missing("such block"))?))
        }
        What::Daddr(daddr) => guess(volume, daddr),
    }
}

fn exists(it_does: bool, what: &'static str) -> Result<()> {
    if it_does { Ok(()) } else { Err(Error::Missing(what)) }
}

fn read(volume: &Volume, daddr: Daddr, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    volume.device().read_at(daddr.byte_offset(), &mut bytes)?;
    Ok(bytes)
}

fn inode_bytes(volume: &Volume, ino: Ino) -> Result<Vec<u8>> {
    let at = volume.geo().ino_to_byte(ino).ok_or(Error::Missing("such inode"))?;
    let mut bytes = vec![0; volume.geo().inodesize()];
    volume.device().read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// The inode, then every block of one of its forks.
fn fork(volume: &Volume, ino: Ino, which: Fork) -> Result<Dump> {
    let geo = volume.geo();
    let mut dump = Dump::default();
    dump.heading(format!("inode {ino}"));
    dump.append(inode::inode(&inode_bytes(volume, ino)?, geo));
    let extents = match volume.iget(ino).and_then(|inode| volume.extents(&inode, which)) {
        Ok(extents) => extents,
        Err(err) => {
            dump.heading(format!("the blocks cannot be found: {err}"));
            return Ok(dump);
        }
    };
    let (name, step) = match which {
        Fork::Data => ("dblock", u64::from(geo.dirblkfsbs())),
        Fork::Attr => ("ablock", 1),
    };
    let mut shown = 0;
    for extent in extents.as_slice() {
        for i in (0..extent.blockcount.0).filter(|i| (extent.startoff.0 + i).is_multiple_of(step)) {
            if shown == BLOCKS_MAX {
                dump.heading(format!("more than {BLOCKS_MAX} blocks: the rest is left out"));
                return Ok(dump);
            }
            shown += 1;
            let fileoff = FileOff(extent.startoff.0 + i);
            dump.heading(format!("{name} {fileoff}"));
            dump.append(match fork_block(volume, &extents, fileoff, step) {
                Ok(block) => decode(&block, geo),
                Err(err) => line(format!("cannot be read: {err}")),
            });
        }
    }
    Ok(dump)
}

/// One block of a fork: `step` filesystem blocks from `fileoff`, which may lie apart.
fn fork_block(
    volume: &Volume,
    extents: &xfskit_core::ExtentList,
    fileoff: FileOff,
    step: u64,
) -> Result<Vec<u8>> {
    let geo = volume.geo();
    let mut block = vec![0; index(step) << geo.blocklog];
    for (i, piece) in (0..step).zip(block.chunks_mut(geo.blocksize())) {
        let at = FileOff(fileoff.0 + i);
        let fsbno = extents.lookup(at).and_then(|extent| extent.block_at(at));
        let daddr = fsbno.and_then(|fsbno| geo.fsb_to_daddr(fsbno));
        let daddr = daddr.ok_or(Error::Missing("piece of this block"))?;
        volume.device().read_at(daddr.byte_offset(), piece)?;
    }
    Ok(block)
}

fn line(text: String) -> Dump {
    Dump { fields: vec![(String::new(), Item::Line(text))] }
}

/// What stands at `daddr`: a header of its sector, or a block by its magic, or bytes.
fn guess(volume: &Volume, daddr: Daddr) -> Result<Dump> {
    let geo = volume.geo();
    let left = volume.device().size().0.saturating_sub(daddr.byte_offset().0);
    exists(left > 0, "such address")?;
    let sector = read(volume, daddr, index(left.min(geo.sectsize() as u64)))?;
    match sector.first_chunk() {
        Some(b"XFSB") => return Ok(headers::sb(&sector, geo)),
        Some(b"XAGF") => return Ok(headers::agf(&sector, geo)),
        Some(b"XAGI") => return Ok(headers::agi(&sector, geo)),
        Some(b"XAFL") => return Ok(headers::agfl(&sector, geo)),
        Some([b'I', b'N', _, _]) => {
            return Ok(inode::inode(&read(volume, daddr, geo.inodesize())?, geo));
        }
        _ => {}
    }
    let block = read(volume, daddr, index(left.min(geo.blocksize() as u64)))?;
    let is_dir = dir_format::data::Form::of(&block, geo).is_some();
    let block = if is_dir && left >= geo.dirblksize() as u64 {
        read(volume, daddr, geo.dirblksize())?
    } else {
        block
    };
    Ok(decode(&block, geo))
}

/// Decodes a block by its magic; what has none is shown in hexadecimal.
fn decode(block: &[u8], geo: &Geometry) -> Dump {
    let layout = Layout::of(geo);
    let magic = be32(block, 0).unwrap_or(0);
    if let Some(tree) = Tree::ALL.into_iter().find(|tree| tree.magic(geo) == magic) {
        return trees::short(block, geo, tree);
    }
    match magic {
        m if m == layout.bmap_magic => return trees::long(block, geo),
        m if m == layout.dir_data_magic || m == layout.dir_block_magic => {
            return dir::data(block, geo);
        }
        m if m == layout.dir_free_magic => return dir::free(block, geo),
        xfskit_format::attr::remote::MAGIC => return attr::remote(block, geo),
        xfskit_format::symlink::MAGIC => return attr::symlink(block, geo),
        _ => {}
    }
    match da::magic(block) {
        Some(m) if m == layout.attr_leaf_magic => attr::leaf(block, geo),
        Some(m) if m == layout.da_node_magic => dir::node(block, geo, node_prefix(block, geo)),
        Some(m) if m == layout.dir_leaf1_magic || m == layout.dir_leafn_magic => {
            dir::leaf(block, geo)
        }
        _ => hex(block),
    }
}

/// `xfs_db` calls a directory's node `nhdr` and an attribute fork's `hdr`. The children tell: those
/// of a directory lie behind 32 GiB.
fn node_prefix(block: &[u8], geo: &Geometry) -> &'static str {
    let child = be32(block, Layout::of(geo).da_node_header + 4).unwrap_or(0);
    if child >= geo.dir_leafblk().0 { "n" } else { "" }
}

/// Bytes in rows of 16, repeated rows left out.
fn hex(block: &[u8]) -> Dump {
    let mut dump = Dump::default();
    let mut last: Option<&[u8]> = None;
    let mut skipping = false;
    for (i, row) in block.chunks(16).enumerate() {
        if last == Some(row) {
            if !skipping {
                dump.item(format!("{:#05x}", i * 16), Item::Line("*".into()));
            }
            skipping = true;
            continue;
        }
        (last, skipping) = (Some(row), false);
        let words: Vec<String> = row.chunks(4).map(word).collect();
        let text: String = row
            .iter()
            .map(|&b| if (0x20..0x7f).contains(&b) { char::from(b) } else { '.' })
            .collect();
        let line = format!("{:04x}: {:35}  {text}", i * 16, words.join(" "));
        dump.item(format!("{:#05x}", i * 16), Item::Line(line));
    }
    dump
}

/// Up to four bytes in hexadecimal.
fn word(bytes: &[u8]) -> String {
    let number = bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
    format!("{number:0width$x}", width = 2 * bytes.len())
}
