//! Extended attributes: listing them, and reading their values.
//!
//! Two views: [`Attr`]s as XFS stores them (a namespace and a name, parent pointers among them),
//! and *xattrs* as programs see them: `user.x`, and ACLs as `system.posix_acl_access` in the
//! kernel's own form.

mod blocks;
pub mod change;
pub(crate) mod debris;
mod finish;
pub mod forkoff;
mod leaves;
mod tree;
#[cfg(test)]
mod tree_tests;

use std::borrow::Cow;
use std::ops::ControlFlow;

use xfskit_format::attr::leaf::{self, Leaf};
use xfskit_format::attr::{Namespace, acl, remote, sf::Sf};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork, hash, inode};
use xfskit_units::{DaBlock, FileOff, Geometry, Ino};

use crate::bmap::{ExtentList, Mapping};
use crate::da::DaFork;
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

/// An attribute as XFS stores it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attr {
    /// Where the name belongs.
    pub namespace: Namespace,
    /// 1 to 255 bytes, without the namespace's prefix.
    pub name: Vec<u8>,
    /// Length of its value, in bytes, at most 65536.
    pub value_len: u32,
}

/// An attribute with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrValue<'a> {
    /// Where the name belongs.
    pub namespace: Namespace,
    /// 1 to 255 bytes, without the namespace's prefix.
    pub name: &'a [u8],
    /// Its value.
    pub value: Cow<'a, [u8]>,
}

/// What a listing calls for each attribute, and for each part that it cannot read.
pub type EachAttr<'e> = dyn FnMut(Result<AttrValue<'_>>) -> ControlFlow<()> + 'e;

/// An attribute as programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// With its prefix: `user.x`, `system.posix_acl_access`.
    pub name: Vec<u8>,
    /// In the form that the kernel hands out.
    pub value: Cow<'a, [u8]>,
}

/// What a listing of xattrs calls for each, and for each part that it cannot read.
pub type EachXattr<'e> = dyn FnMut(Result<Xattr<'_>>) -> ControlFlow<()> + 'e;

/// What a listing of names calls for each attribute: namespace, name, and the value's place.
type EachPlace<'e> = dyn FnMut(Result<(Namespace, &[u8], leaf::AttrValue<'_>)>) -> ControlFlow<()> + 'e;

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

    /// All attributes of `inode`, parent pointers too, in no particular order.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt): the first there is.
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

    /// The value of one attribute of `inode`; `None` where it has none of this name.
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

    /// All attributes of `inode` with their values. What cannot be read is told to `each` in its
    /// place, and the listing goes on.
    ///
    /// # Errors
    /// Where the attribute fork as a whole cannot be read.
    pub fn attrs_with_values(&self, inode: &Inode, each: &mut EachAttr<'_>) -> Result<()> {
        self.open_attrs(inode)?.each(each);
        Ok(())
    }

    /// The xattrs of `inode` as programs see them, names with their prefix, values in the
    /// kernel's form. What cannot be read is told to `each`, and the listing goes on.
    ///
    /// # Errors
    /// Where the attribute fork as a whole cannot be read.
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

    /// The value of the xattr `name` (`user.x`, `system.posix_acl_access`, …) of `inode`, in the
    /// kernel's form.
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

/// What programs call an attribute; `None` for what they do not see.
pub fn xattr_name(namespace: Namespace, name: &[u8]) -> Option<Vec<u8>> {
    match (namespace, name) {
        (Namespace::Parent, _) => None,
        (Namespace::Trusted, acl::ACCESS) => Some(acl::ACCESS_XATTR.into()),
        (Namespace::Trusted, acl::DEFAULT) => Some(acl::DEFAULT_XATTR.into()),
        _ => Some([namespace.prefix().as_bytes(), name].concat()),
    }
}

/// Under which name, and where, XFS stores what programs call `name`.
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

    /// All attributes with their values, until `each` breaks.
    pub fn each(&self, each: &mut EachAttr<'_>) {
        self.each_place(&mut |attr| match attr {
            Ok((namespace, name, place)) => {
                let value = self.value(place);
                each(value.map(|value| AttrValue { namespace, name, value }))
            }
            Err(err) => each(Err(err)),
        });
    }

    /// All attributes that exist, with the places of their values, until `each` breaks.
    fn each_place(&self, each: &mut EachPlace<'_>) {
        let _stopped = match self.short_form() {
            Some((fork, ctx)) => each_short(fork, &ctx, each),
            None if self.da.extents.is_empty() => ControlFlow::Continue(()),
            None => self.da.each_leaf(&mut |block| match block {
                Ok(block) => Leaf::parse(&block.buf, self.geo())
                    .into_iter()
                    .flat_map(|leaf| leaf.attrs())
                    .try_for_each(|attr| tell(&attr, each)),
                Err(err) => each(Err(err)),
            }),
        };
    }

    /// The leaves in the order of their hashes, until `each` breaks: how full they are is seen here. None
    /// where the attributes stand in the inode.
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

    /// The value of one attribute.
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

    /// The value at `place`.
    fn value<'v>(&self, place: leaf::AttrValue<'v>) -> Result<Cow<'v, [u8]>> {
        match place {
            leaf::AttrValue::Local(value) => Ok(Cow::Borrowed(value)),
            leaf::AttrValue::Remote { valueblk, valuelen } => {
                self.remote_value(valueblk, valuelen).map(Cow::Owned)
            }
        }
    }

    /// A value in blocks of its own. Its length is that of a verified entry, at most 64 KiB.
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

/// The attributes of a short form, as far as they can be read.
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

/// Passes on an attribute that exists.
fn tell(attr: &leaf::Attr<'_>, each: &mut EachPlace<'_>) -> ControlFlow<()> {
    match attr.namespace() {
        Some(namespace) if !attr.is_incomplete() => each(Ok((namespace, attr.name, attr.value))),
        _ => ControlFlow::Continue(()),
    }
}
