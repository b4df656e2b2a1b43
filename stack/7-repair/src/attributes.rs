//! Attributes, made again from those that can be read.

use std::borrow::Cow;
use std::collections::BTreeSet;

use xfskit_bulk::attr::{AttrForm, AttrPlan, NewAttr};
use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::{Namespace, parent, remote, sf};
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork};
use xfskit_units::{DaBlock, Ino};

use crate::error::{Error, Result};
use crate::forks::{Content, Forks, Writer};
use crate::view::{Link, View};

/// An attribute that can be read.
pub(crate) type Attribute = NewAttr<'static>;

/// What can be read of the attributes of an inode.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    pub attributes: Vec<Attribute>,
    /// Names whose values are lost.
    pub without_value: Vec<Vec<u8>>,
    /// Names that a change which was not finished has left: readers ignore them.
    pub unfinished: Vec<Vec<u8>>,
    /// Blocks or entries that are damaged.
    pub damaged: usize,
}

/// Returns the content of the attribute fork as it is, if its map is whole.
pub(crate) fn content(view: View<'_>, bytes: &[u8], ino: Ino) -> Content {
    let Some(inode) = Dinode::parse(bytes, view.geo) else { return Content::None };
    let Some(fork) = inode.attr_fork() else { return Content::None };
    match inode.aformat() {
        Some(Format::Local) => match sf::Sf::parse(fork) {
            Some(list) => {
                let len = usize::from(list.totsize);
                Content::Local(fork.get(..len).unwrap_or(fork).to_vec())
            }
            None => Content::None,
        },
        Some(Format::Extents | Format::Btree) => {
            // Linux leaves forks without attributes.
            Content::Mapped(view.map(&inode, ino, Fork::Attr).extents)
        }
        _ => Content::None,
    }
}

/// Reads what can be read of the attributes of inode `ino`.
pub(crate) fn salvage(view: View<'_>, inode: &Dinode<'_>, ino: Ino) -> Result<Salvage> {
    let mut found = Salvage::default();
    let Some(fork) = inode.attr_fork() else { return Ok(found) };
    if inode.aformat() == Some(Format::Local) {
        found.damaged += usize::from(sf::Sf::verify(fork, &view.ctx(ino)).is_err());
        for entry in sf::Sf::parse(fork).into_iter().flat_map(|list| list.entries()) {
            match entry.namespace().filter(|_| is_name(entry.name)) {
                Some(namespace) => found.add(namespace, entry.name, entry.value.to_vec()),
                None => found.damaged += 1,
            }
        }
    } else {
        let map = view.map(inode, ino, Fork::Attr).extents;
        salvage_leaves(view, &map, ino, &mut found)?;
    }
    found.drop_doubles();
    Ok(found)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0)
}

impl Salvage {
    fn add(&mut self, namespace: Namespace, name: &[u8], value: Vec<u8>) {
        let (name, value) = (Cow::Owned(name.to_vec()), Cow::Owned(value));
        self.attributes.push(NewAttr { namespace, name, value });
    }

    /// Keeps the first of several attributes of one name; parent pointers differ by their values.
    fn drop_doubles(&mut self) {
        let mut seen = BTreeSet::new();
        self.attributes.retain(|attr| {
            let value = (attr.namespace == Namespace::Parent).then(|| attr.value.to_vec());
            seen.insert((attr.namespace.flags(), attr.name.to_vec(), value))
        });
    }
}

/// Reads all leaves of a fork, in the order of their blocks.
fn salvage_leaves(view: View<'_>, map: &[Extent], ino: Ino, found: &mut Salvage) -> Result<()> {
    for extent in map {
        for fileoff in extent.startoff.0..extent.end().0 {
            let Some(block) = view.read_mapped(map, fileoff, view.geo.blocksize())? else {
                continue;
            };
            let ctx = Ctx::new(view.geo, view.block(map, ino, Fork::Attr, fileoff));
            if let Ok(leaf) = Leaf::verify(&block, &ctx) {
                salvage_leaf(view, map, ino, &leaf, found)?;
            } else if is_leaf(&block, ino) {
                found.damaged += 1;
                if let Some(leaf) = Leaf::parse(&block, view.geo) {
                    salvage_leaf(view, map, ino, &leaf, found)?;
                }
            }
        }
    }
    Ok(())
}

/// Bytes of the magic and of the owner in a leaf.
const MAGIC_AT: std::ops::Range<usize> = 8..10;
const OWNER_AT: std::ops::Range<usize> = 48..56;

/// Returns true if a block that failed verification is a leaf of inode `ino`.
fn is_leaf(block: &[u8], ino: Ino) -> bool {
    let owner = block.get(OWNER_AT).and_then(|bytes| bytes.try_into().ok());
    block.get(MAGIC_AT) == Some(&[0x3b, 0xee]) && owner.map(u64::from_be_bytes) == Some(ino.0)
}

/// Takes the entries of a leaf whose hash is that of their name.
fn salvage_leaf(
    view: View<'_>,
    map: &[Extent],
    ino: Ino,
    leaf: &Leaf<'_>,
    found: &mut Salvage,
) -> Result<()> {
    for entry in leaf.entries {
        let attr = leaf.attr(entry).filter(|attr| is_name(attr.name));
        if let Some(attr) = attr.filter(Attr::is_incomplete) {
            found.unfinished.push(attr.name.to_vec());
            continue;
        }
        let attr = attr.filter(|attr| attr.hash(view.geo) == entry.hashval.get());
        let Some((attr, namespace)) = attr.and_then(|attr| Some((attr, attr.namespace()?))) else {
            found.damaged += 1;
            continue;
        };
        match attr.value {
            AttrValue::Local(value) => found.add(namespace, attr.name, value.to_vec()),
            AttrValue::Remote { valueblk, valuelen } => {
                match value(view, map, ino, valueblk, valuelen)? {
                    Some(value) => found.add(namespace, attr.name, value),
                    None => found.without_value.push(attr.name.to_vec()),
                }
            }
        }
    }
    Ok(())
}

/// Reads a value that has blocks of its own; `None` if one of them is damaged.
fn value(
    view: View<'_>,
    map: &[Extent],
    ino: Ino,
    valueblk: DaBlock,
    valuelen: u32,
) -> Result<Option<Vec<u8>>> {
    if valuelen > xfskit_format::attr::VALUE_MAX {
        return Ok(None);
    }
    let mut value = Vec::new();
    for n in 0..remote::blocks(view.geo, valuelen) {
        let fileoff = u64::from(valueblk.0) + u64::from(n);
        let Some(block) = view.read_mapped(map, fileoff, view.geo.blocksize())? else {
            return Ok(None);
        };
        let ctx = Ctx::new(view.geo, view.block(map, ino, Fork::Attr, fileoff));
        let offset = u32::try_from(value.len()).unwrap_or(u32::MAX);
        match remote::verify_part(&block, &ctx, offset, valuelen) {
            Ok(part) => value.extend_from_slice(part),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Returns the names that the parent pointers of inode `ino` have.
pub(crate) fn parents_of(view: View<'_>, ino: Ino) -> Result<Vec<Link>> {
    let bytes = if view.geo.features.parent() { view.inode(ino)? } else { None };
    let inode = bytes.as_ref().and_then(|bytes| Dinode::parse(bytes, view.geo));
    let Some(inode) = inode else { return Ok(Vec::new()) };
    let attrs = salvage(view, &inode, ino)?.attributes;
    let pointers = attrs.iter().filter(|attr| attr.namespace == Namespace::Parent);
    let link = |attr: &Attribute| {
        let rec = parent::Rec::parse(&attr.value)?;
        let (dir, generation) = (rec.ino(), rec.p_gen.get());
        Some(Link { dir, generation, name: attr.name.to_vec(), kind: None })
    };
    Ok(pointers.filter_map(link).collect())
}

/// Replaces the parent pointers by those of `links`.
pub(crate) fn set_parents(attributes: &mut Vec<Attribute>, links: &[Link]) {
    attributes.retain(|attr| attr.namespace != Namespace::Parent);
    let pointers = links.iter().map(|n| NewAttr::parent(n.dir, n.generation, n.name.clone()));
    attributes.extend(pointers);
}

/// Returns what the attributes are made again of, in words.
pub(crate) fn evidence(found: &Salvage) -> Vec<String> {
    let mut evidence = vec![format!("{} attributes that can be read", found.attributes.len())];
    for name in &found.unfinished {
        let name = String::from_utf8_lossy(name);
        evidence
            .push(format!("{name:?} is INCOMPLETE: its change was not finished, and is undone"));
    }
    evidence
}

/// Returns what is lost of the attributes of inode `ino`.
pub(crate) fn losses(ino: Ino, found: &Salvage) -> Vec<String> {
    let shown = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    let values = found.without_value.iter().map(shown);
    let mut lost: Vec<_> =
        values.map(|name| format!("attribute {name:?} of inode {ino}")).collect();
    if found.damaged > 0 && found.attributes.is_empty() {
        lost.push(format!("the attributes of inode {ino}"));
    }
    lost
}

/// Makes the attribute fork of inode `ino`, whose core is in `bytes`, again; the data fork stays as
/// it is.
///
/// # Errors
/// Those of [`Writer::write`].
pub(crate) fn make(
    writer: &mut Writer<'_, '_>,
    view: View<'_>,
    (ino, bytes): (Ino, &mut [u8]),
    data: Content,
    attributes: Vec<Attribute>,
) -> Result<()> {
    let plan = AttrPlan::new(view.geo, ino, attributes, data.need(view.geo));
    let plan = plan.map_err(|_| Error::NoFit { ino: ino.0 })?;
    let attr = match plan.form {
        AttrForm::None => Content::None,
        AttrForm::Short(list) => Content::Local(list),
        AttrForm::Blocks(blocks) => {
            let near = writer.near(ino);
            let map = writer.room.map(near, &[(0, blocks.blocks().into())])?;
            for dablk in 0..blocks.blocks() {
                let Some(at) = view.daddr(&map, dablk.into()) else { continue };
                writer.put_mapped(&map, dablk.into(), &blocks.fill(DaBlock(dablk), at))?;
            }
            Content::Mapped(map)
        }
    };
    writer.write(ino, bytes, &Forks { data, attr, forkoff: Some(plan.forkoff) })
}
