//! Reads the bytes of a request, and decodes a block by its magic.

use xfskit_core::{Error, Result, Volume};
use xfskit_format::agbtree::Tree;
use xfskit_format::bytes::be32;
use xfskit_format::{Fork, Layout, da, dir as dir_format};
use xfskit_units::{AgNumber, Daddr, FileOff, Geometry, Ino, index};

use crate::dump::{Dump, Item};
use crate::structure::Structure;
use crate::{attr, dir, headers, inode, trees};

/// Number of blocks of a directory or an attribute fork after which the dump is cut.
const BLOCKS_MAX: u64 = 100_000;

/// Decodes `structure` on `volume`.
///
/// # Errors
/// Device failures, and requests for structures that the volume cannot have. Damage is not an
/// error: it is printed.
pub fn inspect(volume: &Volume, structure: Structure) -> Result<Dump> {
    let geo = volume.geo();
    let header = |agno: AgNumber, sector| {
        require_exists(agno.0 < geo.agcount, "such group")?;
        read(volume, geo.ag_header_daddr(agno, sector), geo.sectsize())
    };
    match structure {
        Structure::Sb(agno) => Ok(headers::sb(&header(agno, 0)?, geo)),
        Structure::Agf(agno) => Ok(headers::agf(&header(agno, 1)?, geo)),
        Structure::Agi(agno) => Ok(headers::agi(&header(agno, 2)?, geo)),
        Structure::Agfl(agno) => Ok(headers::agfl(&header(agno, 3)?, geo)),
        Structure::Tree(tree, agno, None) => {
            require_exists(tree.exists(geo), tree.ids().tree)?;
            let root = match tree {
                Tree::Bno => be32(&header(agno, 1)?, 16),
                Tree::Cnt => be32(&header(agno, 1)?, 20),
                Tree::Rmap => be32(&header(agno, 1)?, 24),
                Tree::Refcount => be32(&header(agno, 1)?, 88),
                Tree::Ino => be32(&header(agno, 2)?, 20),
                Tree::Fino => be32(&header(agno, 2)?, 328),
            };
            let root = xfskit_units::AgBlock(root.unwrap_or(0));
            inspect(volume, Structure::Tree(tree, agno, Some(root)))
        }
        Structure::Tree(tree, agno, Some(agbno)) => {
            require_exists(agbno.0 < geo.ag_length(agno), "such block")?;
            let block = read(volume, geo.agb_to_daddr(agno, agbno), geo.blocksize())?;
            Ok(trees::short(&block, geo, tree))
        }
        Structure::Inode(ino) => Ok(inode::inode(&inode_bytes(volume, ino)?, geo)),
        Structure::Dir(ino) => fork(volume, ino, Fork::Data),
        Structure::Attr(ino) => fork(volume, ino, Fork::Attr),
        Structure::AgBlock(agno, agbno) => {
            inspect(volume, Structure::Block(geo.agb_to_fsb(agno, agbno)))
        }
        Structure::Block(fsbno) => {
            let daddr = geo.fsb_to_daddr(fsbno);
            inspect(volume, Structure::Daddr(daddr.ok_or(Error::Missing("such block"))?))
        }
        Structure::Daddr(daddr) => guess(volume, daddr),
    }
}

fn require_exists(does_exist: bool, what: &'static str) -> Result<()> {
    if does_exist { Ok(()) } else { Err(Error::Missing(what)) }
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

/// Decodes the inode, then every block of one of its forks.
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

/// Decodes one block of a fork: `step` filesystem blocks from `fileoff`, in one or more extents.
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

/// Decodes the structure at `daddr`: a header of that sector, or a block by its magic, or bytes.
fn guess(volume: &Volume, daddr: Daddr) -> Result<Dump> {
    let geo = volume.geo();
    let left = volume.device().size().0.saturating_sub(daddr.byte_offset().0);
    require_exists(left > 0, "such address")?;
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

/// Decodes a block by its magic. A block without a known magic is printed in hexadecimal.
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

/// Returns the prefix of a node: `xfs_db` prints `nhdr` for a directory and `hdr` for an attribute
/// fork. The children show which it is: those of a directory are beyond 32 GiB.
fn node_prefix(block: &[u8], geo: &Geometry) -> &'static str {
    let child = be32(block, Layout::of(geo).da_node_header + 4).unwrap_or(0);
    if child >= geo.dir_leafblk().0 { "n" } else { "" }
}

/// Prints bytes in rows of 16, without repeated rows.
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

/// Formats up to four bytes in hexadecimal.
fn word(bytes: &[u8]) -> String {
    let number = bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
    format!("{number:0width$x}", width = 2 * bytes.len())
}
