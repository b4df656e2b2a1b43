//! Extended attributes: listing them, and reading their values.
//!
//! There are two views. [`Attr`] is an attribute as XFS stores it: a namespace and a name, parent
//! pointers among them. An *xattr* is an attribute as programs see it: `user.x`, and ACLs as
//! `system.posix_acl_access` in the kernel's own form.

mod blocks;
pub mod change;
pub(crate) mod debris;
mod finish;
mod leaves;
mod tree;

use std::borrow::Cow;
use std::ops::ControlFlow;

use xfskit_format::attr::leaf::{self, Leaf};
use xfskit_format::attr::{Namespace, acl, remote, sf::Sf};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork, hash, inode};
use xfskit_units::{DaBlock, FileOff, Geometry, Ino};

use crate::bmap::{ExtentList, Mapping};
use crate::da::{DaBuf, DaFork};
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

/// An attribute as XFS stores it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attr {
    /// The namespace of the name.
    pub namespace: Namespace,
    /// 1 to 255 bytes, without the namespace's prefix.
    pub name: Vec<u8>,
    /// Length of the value, in bytes, at most 65536.
    pub value_len: u32,
}

/// An attribute with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrValue<'a> {
    /// The namespace of the name.
    pub namespace: Namespace,
    /// 1 to 255 bytes, without the namespace's prefix.
    pub name: &'a [u8],
    /// The value.
    pub value: Cow<'a, [u8]>,
}

/// The callback of a listing. It is called for each attribute, and for each part that cannot be
/// read.
pub type EachAttr<'e> = dyn FnMut(Result<AttrValue<'_>>) -> ControlFlow<()> + 'e;

/// An attribute as programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// The name with its prefix: `user.x`, `system.posix_acl_access`.
    pub name: Vec<u8>,
    /// The value, in the form that the kernel returns to programs.
    pub value: Cow<'a, [u8]>,
}

/// The callback of a listing of xattrs. It is called for each xattr, and for each part that cannot
/// be read.
pub type EachXattr<'e> = dyn FnMut(Result<Xattr<'_>>) -> ControlFlow<()> + 'e;

/// The callback of a listing of names. It gets namespace, name and the location of the value of
/// each attribute.
type EachPlace<'e> =
    dyn FnMut(Result<(Namespace, &[u8], leaf::AttrValue<'_>)>) -> ControlFlow<()> + 'e;

/// The attributes of one inode.
#[derive(Debug)]
pub struct Attrs<'a, M = ExtentList> {
    core: Dinode<'a>,
    da: DaFork<'a, M>,
}

impl Volume {
    /// Opens the attributes of `inode`.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn open_attrs<'a>(&'a self, inode: &'a Inode) -> Result<Attrs<'a>> {
        Ok(Attrs { core: inode.core(), da: DaFork::open(self, inode, Fork::Attr)? })
    }

    /// Returns all attributes of `inode`, parent pointers too, in no particular order.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt): the
    /// first there is.
    pub fn attr_list(&self, inode: &Inode) -> Result<Vec<Attr>> {
        let mut list = Vec::new();
        let mut failed = None;
        self.open_attrs(inode)?.each_place(&mut |attr| match attr {
            Ok((namespace, name, place)) => {
                let value_len = place.len();
                list.push(Attr { namespace, name: name.to_vec(), value_len });
                ControlFlow::Continue(())
            }
            Err(err) => {
                failed = Some(err);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(list), Err)
    }

    /// Returns the value of one attribute of `inode`, or `None` if there is none of this name.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn attr_get(
        &self,
        inode: &Inode,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let da = DaFork::on_demand(self, inode, Fork::Attr, false)?;
        Attrs { core: inode.core(), da }.get(namespace, name)
    }

    /// Lists all attributes of `inode` with their values. Parts that cannot be read are passed to
    /// `each` as errors, and the listing continues.
    ///
    /// # Errors
    /// If the attribute fork as a whole cannot be read.
    pub fn attrs_with_values(&self, inode: &Inode, each: &mut EachAttr<'_>) -> Result<()> {
        self.open_attrs(inode)?.each(each);
        Ok(())
    }

    /// Lists the xattrs of `inode` as programs see them: names with their prefix, values in the
    /// kernel's form. Parts that cannot be read are passed to `each` as errors, and the listing
    /// continues.
    ///
    /// # Errors
    /// If the attribute fork as a whole cannot be read.
    pub fn xattrs(&self, inode: &Inode, each: &mut EachXattr<'_>) -> Result<()> {
        self.attrs_with_values(inode, &mut |attr| match attr {
            Ok(attr) => match xattr_name(attr.namespace, attr.name) {
                Some(name) if is_acl(attr.namespace, attr.name) => {
                    let acl = acl_value(self, inode.ino(), &attr.value);
                    each(acl.map(|acl| Xattr { name, value: Cow::Owned(acl) }))
                }
                Some(name) => each(Ok(Xattr { name, value: attr.value })),
                None => ControlFlow::Continue(()),
            },
            Err(err) => each(Err(err)),
        })
    }

    /// Returns the value of the xattr `name` (`user.x`, `system.posix_acl_access`, …) of `inode`,
    /// in the kernel's form.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn xattr_get(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((namespace, stored)) = stored_name(name) else { return Ok(None) };
        let Some(value) = self.attr_get(inode, namespace, stored)? else { return Ok(None) };
        if is_acl(namespace, stored) && name.starts_with(b"system.") {
            return acl_value(self, inode.ino(), &value).map(Some);
        }
        Ok(Some(value))
    }
}

fn is_acl(namespace: Namespace, name: &[u8]) -> bool {
    namespace == Namespace::Trusted && (name == acl::ACCESS || name == acl::DEFAULT)
}

fn acl_value(vol: &Volume, ino: Ino, stored: &[u8]) -> Result<Vec<u8>> {
    let at = inode::location(vol.geo(), ino).fork(Fork::Attr);
    let ctx = vol.ctx(at);
    Ok(acl::to_xattr(stored).ok_or_else(|| ctx.short("attr.acl", stored.len()))?)
}

/// Returns the name by which programs know an attribute, or `None` if it is invisible to them.
pub fn xattr_name(namespace: Namespace, name: &[u8]) -> Option<Vec<u8>> {
    match (namespace, name) {
        (Namespace::Parent, _) => None,
        (Namespace::Trusted, acl::ACCESS) => Some(acl::ACCESS_XATTR.into()),
        (Namespace::Trusted, acl::DEFAULT) => Some(acl::DEFAULT_XATTR.into()),
        _ => Some([namespace.prefix().as_bytes(), name].concat()),
    }
}

/// Returns the namespace and the name under which XFS stores the xattr `name`.
pub fn stored_name(name: &[u8]) -> Option<(Namespace, &[u8])> {
    if name == acl::ACCESS_XATTR.as_bytes() {
        return Some((Namespace::Trusted, acl::ACCESS));
    }
    if name == acl::DEFAULT_XATTR.as_bytes() {
        return Some((Namespace::Trusted, acl::DEFAULT));
    }
    [Namespace::User, Namespace::Trusted, Namespace::Secure].into_iter().find_map(|namespace| {
        let stored = name.strip_prefix(namespace.prefix().as_bytes())?;
        (!stored.is_empty()).then_some((namespace, stored))
    })
}

#[expect(private_bounds, reason = "how blocks are found is this crate's business")]
impl<'a, M: Mapping> Attrs<'a, M> {
    fn geo(&self) -> &'a Geometry {
        self.da.geo()
    }

    fn short_form(&self) -> Option<(&'a [u8], Ctx<'a>)> {
        if self.core.fork_format(Fork::Attr) != Some(Format::Local) {
            return None;
        }
        let at = inode::location(self.geo(), self.da.ino).fork(Fork::Attr);
        Some((self.core.fork(Fork::Attr).unwrap_or(&[]), self.da.vol.ctx(at)))
    }

    /// Passes all attributes with their values to `each`, until it breaks.
    pub fn each(&self, each: &mut EachAttr<'_>) {
        self.each_place(&mut |attr| match attr {
            Ok((namespace, name, place)) => {
                let value = self.value(place);
                each(value.map(|value| AttrValue { namespace, name, value }))
            }
            Err(err) => each(Err(err)),
        });
    }

    /// Passes all complete attributes with the locations of their values to `each`, until it
    /// breaks.
    fn each_place(&self, each: &mut EachPlace<'_>) {
        let _stopped = match self.short_form() {
            Some((fork, ctx)) => each_short(fork, &ctx, each),
            None if self.da.extents.is_empty() => ControlFlow::Continue(()),
            None => self.each_in_tree(each),
        };
    }

    /// Passes the complete attributes of the tree to `each`. Linux lists them along the right
    /// siblings, so a leaf that names another one than the tree is passed as a fault.
    fn each_in_tree(&self, each: &mut EachPlace<'_>) -> ControlFlow<()> {
        // The leaf before and its right sibling, if that leaf could be read.
        let mut before = None;
        self.da.each_leaf_with_hash(&mut |leaf| match leaf {
            Ok((block, due)) => {
                self.check_sibling(before.take(), block.dablk, each)?;
                let leaf = Leaf::parse(&block.buf, self.geo());
                before = leaf.map(|leaf| (block.dablk, leaf.info.forw.get()));
                self.each_in_leaf(block, due, each)
            }
            Err(err) => {
                before = None;
                each(Err(err))
            }
        })?;
        self.check_sibling(before, DaBlock(0), each)
    }

    /// Passes a fault to `each` if the right sibling of a leaf is not `next`, 0 for none.
    fn check_sibling(
        &self,
        leaf: Option<(DaBlock, u32)>,
        next: DaBlock,
        each: &mut EachPlace<'_>,
    ) -> ControlFlow<()> {
        let Some((dablk, forw)) = leaf else { return ControlFlow::Continue(()) };
        let ctx = self.da.vol.ctx(self.da.at("attribute tree", FileOff(dablk.0.into())));
        match ctx.eq("attr.leaf.forw", next.0, forw) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => each(Err(fault.into())),
        }
    }

    /// Passes the complete attributes of a leaf to `each`; `due` is its last hash by its parent. An
    /// attribute that its hash does not lead to is passed with a fault before it: Linux lists such
    /// a name and does not find it.
    fn each_in_leaf(
        &self,
        block: &DaBuf,
        due: Option<u32>,
        each: &mut EachPlace<'_>,
    ) -> ControlFlow<()> {
        let Some(leaf) = Leaf::parse(&block.buf, self.geo()) else {
            return ControlFlow::Continue(());
        };
        let at = self.da.at("attribute tree", FileOff(block.dablk.0.into()));
        let ctx = self.da.vol.ctx(at);
        if let (Some(due), Some(last)) = (due, leaf.last_hash())
            && let Err(fault) = ctx.eq_hex("da.node.hashval", last, due)
        {
            each(Err(fault.into()))?;
        }
        let attrs = leaf.entries.iter().enumerate();
        for (index, entry, attr) in attrs.filter_map(|(i, e)| Some((i, e, leaf.attr(e)?))) {
            let found = entry.hashval.get();
            let result = ctx.entry(index).eq_hex("attr.leaf.hashval", attr.hash(self.geo()), found);
            if let Err(fault) = result
                && !attr.is_incomplete()
            {
                each(Err(fault.into()))?;
            }
            tell(&attr, each)?;
        }
        ControlFlow::Continue(())
    }

    /// Passes the leaves in the order of their hashes to `each`, until it breaks. Tests use this to
    /// see how full leaves are. There are no leaves if the attributes are in the inode.
    pub fn each_leaf(&self, each: &mut dyn FnMut(Result<Leaf<'_>>) -> ControlFlow<()>) {
        if self.short_form().is_some() || self.da.extents.is_empty() {
            return;
        }
        let _stopped = self.da.each_leaf(&mut |block| match block {
            Ok(block) => {
                let leaf = Leaf::parse(&block.buf, self.geo());
                leaf.map_or(ControlFlow::Continue(()), |leaf| each(Ok(leaf)))
            }
            Err(err) => each(Err(err)),
        });
    }

    /// Returns the value of one attribute.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn get(&self, namespace: Namespace, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let is_it = |ns: Option<Namespace>, n: &[u8]| ns == Some(namespace) && n == name;
        if let Some((fork, ctx)) = self.short_form() {
            let sf = Sf::verify(fork, &ctx)?;
            let found = sf.entries().find(|e| is_it(e.namespace(), e.name));
            return Ok(found.map(|e| e.value.to_vec()));
        }
        if self.da.extents.is_empty() {
            return Ok(None);
        }
        let hash = hash::name_hash(name);
        let mut next = self.da.leaf_for(hash)?;
        let mut budget = self.da.budget();
        while let Some(block) = next.take() {
            let Some(leaf) = Leaf::parse(&block.buf, self.geo()) else { break };
            let mut run = leaf.run(hash).filter(|a| !a.is_incomplete());
            if let Some(attr) = run.find(|a| is_it(a.namespace(), a.name)) {
                return Ok(Some(self.value(attr.value)?.into_owned()));
            }
            budget = budget.saturating_sub(1);
            if leaf.last_hash() == Some(hash) && budget > 0 {
                next = self.da.next_leaf(leaf.info.forw.get())?;
            }
        }
        Ok(None)
    }

    /// Returns the value at `place`.
    fn value<'v>(&self, place: leaf::AttrValue<'v>) -> Result<Cow<'v, [u8]>> {
        match place {
            leaf::AttrValue::Local(value) => Ok(Cow::Borrowed(value)),
            leaf::AttrValue::Remote { valueblk, valuelen } => {
                self.remote_value(valueblk, valuelen).map(Cow::Owned)
            }
        }
    }

    /// Reads a value in blocks of its own. Its length is that of a verified entry, at most 64 KiB.
    fn remote_value(&self, valueblk: DaBlock, valuelen: u32) -> Result<Vec<u8>> {
        let blocks = remote::blocks(self.geo(), valuelen);
        let fileoff = |i: u32| FileOff(u64::from(valueblk.0).saturating_add(i.into()));
        self.da.read_ahead((0..blocks).map(fileoff));
        let mut value = Vec::new();
        for i in 0..blocks {
            let offset = u32::try_from(value.len()).unwrap_or(u32::MAX);
            let verify = |bytes: &[u8], ctx: &Ctx<'_>| {
                remote::verify(bytes, ctx, offset, valuelen).map(drop)
            };
            let buf = self.da.read("attribute value", fileoff(i), &verify)?;
            let ctx = self.da.vol.ctx(self.da.at("attribute value", fileoff(i))).crc_known();
            value.extend(remote::verify(&buf, &ctx, offset, valuelen)?);
        }
        Ok(value)
    }
}

/// Passes the attributes of a short form to `each`, as far as they can be read.
fn each_short(fork: &[u8], ctx: &Ctx<'_>, each: &mut EachPlace<'_>) -> ControlFlow<()> {
    if let Err(fault) = Sf::verify(fork, ctx) {
        each(Err(fault.into()))?;
    }
    let entries = Sf::parse(fork).into_iter().flat_map(|sf| sf.entries());
    for entry in entries {
        if let Some(namespace) = entry.namespace() {
            each(Ok((namespace, entry.name, leaf::AttrValue::Local(entry.value))))?;
        }
    }
    ControlFlow::Continue(())
}

/// Passes a complete attribute to `each`.
fn tell(attr: &leaf::Attr<'_>, each: &mut EachPlace<'_>) -> ControlFlow<()> {
    match attr.namespace() {
        Some(namespace) if !attr.is_incomplete() => each(Ok((namespace, attr.name, attr.value))),
        _ => ControlFlow::Continue(()),
    }
}
