//! Extended attributes that had blocks of their own.
//!
//! Removing a file frees these blocks, and leaves their bytes. Leaves are logged: the journal has
//! those that were not written in place before the file was removed. The blocks of large values are
//! never logged, and were written before the attribute could be seen. Each block has the numbers of
//! its inode and its place, the UUID of the volume and a checksum, so that one that was used again
//! is not taken for the file's.
//!
//! Only the map of these blocks is kept of each file. They are read when the file is given back.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use xfskit_core::restore::RemovedAttr;
use xfskit_core::{Result, Volume};
use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::{Namespace, VALUE_MAX, parent, remote};
use xfskit_format::log::Stamp;
use xfskit_format::log::item::Item;
use xfskit_format::log::item::buf::BufType;
use xfskit_format::{Ctx, Fork, Location};
use xfskit_units::{DaBlock, Daddr, FileOff, Lsn, Sectors};

use crate::attr_blocks::{BLOCKS_MAX, Leaves, Part};
use crate::candidate::{Candidate, Name};
use crate::journal::{self, Step};

/// Maximum number of blocks that are looked for in the journal.
const WANTED_MAX: usize = 1 << 20;
/// Values for the unknown bytes of a leaf that only the journal has, in turn.
const FILLS: [u8; 2] = [0, 0xa5];

/// Takes what the journal has of the leaves of `candidates`. Returns false if `step` ended it.
pub(crate) fn take_logged(
    volume: &Volume,
    candidates: &mut [Candidate],
    step: &Step<'_>,
) -> Result<bool> {
    let geo = volume.geo();
    let places = candidates
        .iter()
        .map(|file| &file.attr_blocks)
        .flat_map(|blocks| blocks.numbers().filter_map(move |fileoff| blocks.daddr(geo, fileoff)));
    let wanted: FxHashSet<Daddr> = places.take(WANTED_MAX).collect();
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut leaves = Leaves::default();
    let complete = journal::walk(volume, step, &mut |item, lsn, _| {
        let Item::Buf(buf) = item else { return };
        if buf.is_cancel() || !wanted.contains(&buf.daddr()) {
            return;
        }
        let parts = leaves.entry(buf.daddr()).or_default();
        if buf.buf_type() != BufType::AttrLeaf {
            parts.push(Part { lsn, is_leaf: false, offset: 0, bytes: Vec::new() });
            return;
        }
        parts.extend(buf.changes().map(|change| Part {
            lsn,
            is_leaf: true,
            offset: change.offset,
            bytes: change.bytes.to_vec(),
        }));
    })?;
    let leaves = Arc::new(leaves);
    for file in candidates.iter_mut().filter(|file| !file.attr_blocks.map.is_empty()) {
        file.attr_blocks.logged = Arc::clone(&leaves);
    }
    Ok(complete)
}

/// The attributes of a removed file.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    pub attrs: Vec<RemovedAttr>,
    /// The names in its parent pointers.
    pub parents: Vec<Name>,
    /// These are all.
    pub is_whole: bool,
}

/// Reads the attributes of a removed file.
pub(crate) fn read(volume: &Volume, file: &Candidate) -> Attributes {
    let blocks = &file.attr_blocks;
    let (attrs, is_whole) = (file.attrs.clone(), !blocks.is_damaged && !blocks.is_too_large());
    let found = Attributes { attrs, parents: Vec::new(), is_whole };
    let budget = BLOCKS_MAX.saturating_mul(volume.geo().blocksize());
    let mut reader = Reader { volume, file, found, budget };
    if !blocks.map.is_empty() {
        reader.leaves();
    }
    reader.found
}

/// Reads the blocks of one file.
struct Reader<'r> {
    volume: &'r Volume,
    file: &'r Candidate,
    found: Attributes,
    /// Bytes of values that may be read.
    budget: usize,
}

impl Reader<'_> {
    /// Reads all leaves, in the order of their chain. Blocks that are not part of it are old.
    fn leaves(&mut self) {
        let mut leaves = BTreeMap::new();
        for fileoff in self.file.attr_blocks.numbers() {
            let dablk = u32::try_from(fileoff.0).ok();
            if let Some((dablk, block)) = dablk.zip(self.leaf(fileoff)) {
                leaves.insert(dablk, block);
            }
        }
        let geo = self.volume.geo();
        let link = |block: &[u8]| {
            let leaf = Leaf::parse(block, geo);
            leaf.map(|leaf| (leaf.info.back.get(), leaf.info.forw.get()))
        };
        let is_first = |block: &Vec<u8>| link(block).is_some_and(|(back, _)| back == 0);
        let mut firsts = leaves.iter().filter(|(_, block)| is_first(block));
        let first = firsts.next().map(|(dablk, _)| *dablk);
        let is_only = firsts.next().is_none();
        let mut next = first.filter(|_| is_only);
        let mut is_ended = false;
        while let Some(block) = next.and_then(|dablk| leaves.remove(&dablk)) {
            self.entries(&block);
            next = link(&block).map(|(_, forw)| forw);
            is_ended = next == Some(0);
            next = next.filter(|forw| *forw != 0);
        }
        if !is_ended {
            self.found.is_whole = false;
            for block in leaves.values() {
                self.entries(block);
            }
        }
    }

    fn location(&self, fileoff: FileOff, daddr: Daddr) -> Location {
        let at = Location::of("attribute block").ino(self.file.ino).fork(Fork::Attr);
        let sectors = self.volume.geo().blocksize() as u64 / 512;
        at.fileoff(fileoff).daddr(daddr, Sectors(sectors))
    }

    fn block(&self, daddr: Daddr) -> Option<Vec<u8>> {
        let mut block = vec![0; self.volume.geo().blocksize()];
        self.volume.device().read_at(daddr.byte_offset(), &mut block).ok()?;
        Some(block)
    }

    /// Returns the leaf at block `fileoff` of the fork, as it was when the file was removed; `None`
    /// for another block.
    fn leaf(&self, fileoff: FileOff) -> Option<Vec<u8>> {
        let geo = self.volume.geo();
        let daddr = self.file.attr_blocks.daddr(geo, fileoff)?;
        let ctx = self.volume.ctx(self.location(fileoff, daddr));
        let disk = self.block(daddr).filter(|block| Leaf::verify(block, &ctx).is_ok());
        let written = disk.as_ref().and_then(|block| Some(Stamp::of(block, geo)?.lsn(block)));
        let parts = self.file.attr_blocks.logged.get(&daddr).map_or(&[][..], |parts| &parts[..]);
        let is_newer = |part: &&Part| {
            let until = self.file.lsn.is_unset() || part.lsn <= self.file.lsn;
            until && written.is_none_or(|written| part.lsn >= written)
        };
        let parts: Vec<&Part> = parts.iter().filter(is_newer).collect();
        let other = parts.iter().rposition(|part| !part.is_leaf);
        let parts = &parts[other.map_or(0, |at| at.saturating_add(1))..];
        // The bytes on disk were overwritten, though not in place.
        let disk = disk.filter(|_| other.is_none());
        if let Some(disk) = disk {
            return laid_over(disk, parts, &ctx);
        }
        let [one, other] = FILLS.map(|fill| laid_over(vec![fill; geo.blocksize()], parts, &ctx));
        let (one, other) = (one?, other?);
        let says = |block: &[u8]| {
            Leaf::parse(block, geo).map(|leaf| format!("{:?}", leaf.attrs().collect::<Vec<_>>()))
        };
        (says(&one) == says(&other)).then_some(one)
    }

    /// Takes the attributes of a leaf.
    fn entries(&mut self, block: &[u8]) {
        let Some(leaf) = Leaf::parse(block, self.volume.geo()) else { return };
        for attr in leaf.attrs().filter(|attr| !attr.is_incomplete()) {
            match attr.namespace() {
                Some(Namespace::Parent) => self.found.parents.extend(self.parent(&attr)),
                Some(namespace) => match self.value(&attr.value) {
                    Some(value) => {
                        let name = attr.name.to_vec();
                        self.found.attrs.push(RemovedAttr { namespace, name, value });
                    }
                    None => self.found.is_whole = false,
                },
                None => self.found.is_whole = false,
            }
        }
    }

    fn parent(&self, attr: &Attr<'_>) -> Option<Name> {
        let AttrValue::Local(value) = attr.value else { return None };
        let parent = parent::Rec::parse(value)?.ino();
        let valid = self.volume.geo().valid_ino(parent);
        let (name, lsn) = (attr.name.to_vec(), Lsn::NONE);
        valid.then_some(Name { parent: Some(parent), name, file_type: None, lsn })
    }

    /// Returns a value; `None` if one of its blocks is not there.
    fn value(&mut self, value: &AttrValue<'_>) -> Option<Vec<u8>> {
        self.budget = self.budget.checked_sub(usize::try_from(value.len()).ok()?)?;
        match *value {
            AttrValue::Local(bytes) => Some(bytes.to_vec()),
            AttrValue::Remote { valueblk, valuelen } => self.remote(valueblk, valuelen),
        }
    }

    fn remote(&self, first: DaBlock, valuelen: u32) -> Option<Vec<u8>> {
        let geo = self.volume.geo();
        if valuelen > VALUE_MAX {
            return None;
        }
        let mut value = Vec::new();
        for n in 0..remote::blocks(geo, valuelen) {
            let fileoff = FileOff(u64::from(first.0).saturating_add(n.into()));
            let daddr = self.file.attr_blocks.daddr(geo, fileoff)?;
            let block = self.block(daddr)?;
            let ctx = self.volume.ctx(self.location(fileoff, daddr));
            let offset = u32::try_from(value.len()).ok()?;
            value.extend_from_slice(remote::verify_part(&block, &ctx, offset, valuelen).ok()?);
        }
        Some(value)
    }
}

/// Returns `block` with `parts` over it, stamped as recovery does; `None` if that is no leaf.
fn laid_over(mut block: Vec<u8>, parts: &[&Part], ctx: &Ctx<'_>) -> Option<Vec<u8>> {
    for part in parts {
        let end = part.offset.saturating_add(part.bytes.len());
        block.get_mut(part.offset..end)?.copy_from_slice(&part.bytes);
    }
    if let Some(last) = parts.last() {
        Stamp::of(&block, ctx.geo)?.write(&mut block, last.lsn);
    }
    Leaf::verify(&block, ctx).is_ok().then_some(block)
}
