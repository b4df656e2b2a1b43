//! Changes of extended attributes, in a transaction.
//!
//! | form | becomes the next | becomes the one before |
//! | --- | --- | --- |
//! | none | with the first attribute | |
//! | short form, in the inode | when the inode has no more space, or a value is too long for it | when the last one is removed |
//! | leaf and node | | when all attributes fit into the inode again |
//!
//! The boundary between the forks ([`forkoff`]) moves with what the attributes need.
//!
//! An entry and its value are added and removed in one transaction, so no entry is ever INCOMPLETE.
//! Linux leaves such entries behind after a crash. The next change removes them (`debris`).

use std::mem::offset_of;

use xfskit_format::attr::forkoff::{self, DataNeed};
use xfskit_format::attr::sf::{Entry, Sf};
use xfskit_format::attr::{Namespace, VALUE_MAX, parent, sf_edit};
use xfskit_format::inode::{Core, FileType, Format};
use xfskit_format::{Fork, Image, Layout, inode};
use xfskit_units::{Ino, index};
use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Whether the attribute to be set must exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// It may exist or not.
    #[default]
    Any,
    /// It must not exist: [`Error::Exists`].
    Create,
    /// It must exist: [`Error::NoEntry`].
    Replace,
}

impl SetMode {
    /// Fails if the attribute must not exist and does, or must and does not.
    pub(super) fn verify(self, exists: bool) -> Result<()> {
        match self {
            Self::Create if exists => Err(Error::Exists),
            Self::Replace if !exists => Err(Error::NoEntry),
            _ => Ok(()),
        }
    }
}

/// The identity of one attribute of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'k> {
    pub(super) namespace: Namespace,
    pub(super) name: &'k [u8],
    /// The value, for a parent pointer: a name may have several parents.
    pub(super) value: Option<&'k [u8]>,
}

impl<'k> Key<'k> {
    pub(super) fn new(namespace: Namespace, name: &'k [u8], value: Option<&'k [u8]>) -> Self {
        Self { namespace, name, value }
    }

    /// Returns true for an attribute with these `flags`, this `name`, and this `value` if it is
    /// given.
    pub(super) fn matches(&self, flags: u8, name: &[u8], value: Option<&[u8]>) -> bool {
        let same_value = self.value.is_none() || value == self.value;
        Namespace::from_flags(flags) == Some(self.namespace) && name == self.name && same_value
    }
}

/// One entry of a directory, as recorded in the inode that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentName<'n> {
    /// The directory.
    pub ino: Ino,
    /// Its generation.
    pub generation: u32,
    /// The name.
    pub name: &'n [u8],
}

impl ParentName<'_> {
    fn value(&self) -> [u8; size_of::<parent::Rec>()] {
        let rec = parent::Rec { p_ino: self.ino.0.into(), p_gen: self.generation.into() };
        let mut value = [0; size_of::<parent::Rec>()];
        value.copy_from_slice(rec.as_bytes());
        value
    }
}

/// Fails if no attribute can have this name or this value.
pub(super) fn verify_name(namespace: Namespace, name: &[u8], value: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Error::AttrName);
    }
    if name.contains(&0) || (namespace == Namespace::Parent && name.contains(&b'/')) {
        return Err(Error::Limit("the name of an attribute holds no NUL"));
    }
    if value.len() > index(VALUE_MAX.into()) {
        return Err(Error::AttrValue);
    }
    Ok(())
}

impl Tx<'_> {
    /// Sets an attribute of `inode`. The caller updates the inode's times.
    ///
    /// # Errors
    /// [`Error::Exists`] and [`Error::NoEntry`] according to `mode`; [`Error::AttrName`],
    /// [`Error::AttrValue`] and [`Error::Limit`] for a name or value that no attribute can have;
    /// [`Error::FileTooLarge`] if the attribute fork of a volume without NREXT64 has its maximum
    /// number of extents; [`Error::Full`], [`Error::NoSpace`], [`Error::Device`],
    /// [`Error::Corrupt`].
    pub fn attr_set(
        &mut self,
        inode: TxInode,
        namespace: Namespace,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        verify_name(namespace, name, value)?;
        self.attr_put(inode, Key::new(namespace, name, None), value, mode)
    }

    /// Removes an attribute of `inode`.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::Device`], [`Error::Corrupt`].
    pub fn attr_remove(&mut self, inode: TxInode, namespace: Namespace, name: &[u8]) -> Result<()> {
        self.attr_take(inode, Key::new(namespace, name, None))
    }

    /// Returns the value of an attribute, with this transaction's changes; `None` if there is none
    /// of the name.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn attr_get(
        &mut self,
        inode: TxInode,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let key = Key::new(namespace, name, None);
        match self.attr_form(inode) {
            Form::None => Ok(None),
            Form::Short => {
                let list = self.short_form(inode)?;
                Ok(list.find(key).map(|entry| entry.value.to_vec()))
            }
            Form::Tree => self.tree_get(inode, key),
        }
    }

    /// Frees a part of the blocks of the attributes of `inode`; returns true if nothing is left.
    /// Only for an inode that is deleted. Between two transactions it has no attributes, but
    /// perhaps blocks of its attribute fork. If Linux has to finish the work, it finds an empty
    /// leaf.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`], [`Error::NoSpace`] if the map of the fork must grow.
    pub fn attr_drop(&mut self, inode: TxInode) -> Result<bool> {
        let done = match self.attr_form(inode) {
            Form::Tree => self.tree_drop_part(inode)?,
            Form::Short | Form::None => true,
        };
        if done {
            self.clear_attr_fork(inode);
        }
        Ok(done)
    }

    // ---- parent pointers ---------------------------------------------------------------------

    /// Adds a parent pointer for a new name of `inode`. For volumes with parent pointers.
    ///
    /// # Errors
    /// As [`attr_set`](Self::attr_set).
    pub fn parent_set(&mut self, inode: TxInode, parent: ParentName<'_>) -> Result<()> {
        let value = parent.value();
        verify_name(Namespace::Parent, parent.name, &value)?;
        let name = parent.name;
        let key = Key::new(Namespace::Parent, name, Some(&value));
        self.attr_put(inode, key, &value, SetMode::Create)
    }

    /// Removes the parent pointer of a removed name of `inode`.
    ///
    /// # Errors
    /// As [`attr_remove`](Self::attr_remove).
    pub fn parent_remove(&mut self, inode: TxInode, parent: ParentName<'_>) -> Result<()> {
        let value = parent.value();
        let name = parent.name;
        self.attr_take(inode, Key::new(Namespace::Parent, name, Some(&value)))
    }

    /// Replaces the parent pointer `old` of `inode` by `new`.
    ///
    /// # Errors
    /// As [`parent_set`](Self::parent_set) and [`parent_remove`](Self::parent_remove).
    pub fn parent_replace(
        &mut self,
        inode: TxInode,
        old: ParentName<'_>,
        new: ParentName<'_>,
    ) -> Result<()> {
        if old == new {
            return Ok(());
        }
        // The new one first, so that the attribute fork is not removed and made again.
        self.parent_set(inode, new)?;
        self.parent_remove(inode, old)
    }

    // ---- forms -------------------------------------------------------------------------------

    pub(super) fn attr_form(&self, inode: TxInode) -> Form {
        let core = self.core(inode);
        match core.aformat() {
            _ if core.forkoff() == 0 => Form::None,
            Some(Format::Local) => Form::Short,
            _ if core.anextents() == 0 => Form::None,
            _ => Form::Tree,
        }
    }

    pub(super) fn attr_put(
        &mut self,
        inode: TxInode,
        key: Key<'_>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let list = match self.attr_form(inode) {
            Form::Tree => {
                self.attr_clear_debris(inode)?;
                return self.tree_put(inode, key, value, mode);
            }
            Form::Short => self.short_form(inode)?,
            Form::None => ShortForm::default(),
        };
        mode.verify(list.find(key).is_some())?;
        self.move_content_out(inode)?;
        let new = Entry { flags: key.namespace.flags(), name: key.name, value };
        let entries = list.others(key).chain([new]);
        if let Some(bytes) = sf_edit::build(entries)
            && let Some(forkoff) = self.forkoff_for(inode, bytes.len())
        {
            return self.put_short_form(inode, forkoff, &bytes);
        }
        self.short_form_to_tree(inode)?;
        for entry in list.others(key) {
            let namespace = Namespace::from_flags(entry.flags).unwrap_or(Namespace::User);
            let value = (namespace == Namespace::Parent).then_some(entry.value);
            let key = Key::new(namespace, entry.name, value);
            self.tree_put(inode, key, entry.value, SetMode::Any)?;
        }
        self.tree_put(inode, key, value, SetMode::Any)
    }

    pub(super) fn attr_take(&mut self, inode: TxInode, key: Key<'_>) -> Result<()> {
        match self.attr_form(inode) {
            Form::None => Err(Error::NoEntry),
            Form::Short => {
                let list = self.short_form(inode)?;
                list.find(key).ok_or(Error::NoEntry)?;
                let left = sf_edit::build(list.others(key));
                self.shrink_short_form(inode, &left.unwrap_or_default())
            }
            Form::Tree => {
                self.attr_clear_debris(inode)?;
                let one_leaf = self.tree_take(inode, key)?;
                if one_leaf { self.tree_to_short_form(inode) } else { Ok(()) }
            }
        }
    }

    /// Returns the verified short form of `inode`.
    fn short_form(&self, inode: TxInode) -> Result<ShortForm> {
        let geo = self.volume().geo();
        let ctx = self.volume().ctx(inode::location(geo, inode.ino).fork(Fork::Attr));
        let core = self.core(inode);
        let fork = core.attr_fork().unwrap_or(&[]);
        let sf = Sf::verify(fork, &ctx)?;
        Ok(ShortForm(fork.get(..sf.totsize.into()).unwrap_or(fork).to_vec()))
    }

    /// Returns the data fork's present need of space in the inode.
    fn data_need(&self, inode: TxInode) -> DataNeed {
        let core = self.core(inode);
        match core.format() {
            Some(Format::Dev) => DataNeed::Device,
            Some(Format::Local) => DataNeed::Inline(index(core.size().0)),
            Some(Format::Extents) => {
                DataNeed::Inline(index(core.nextents()).saturating_mul(EXTENT_LEN))
            }
            _ => DataNeed::Btree,
        }
    }

    /// Returns the fork offset for a short form of `len` bytes; the present one, if that leaves
    /// enough space. Returns `None` if the data fork leaves too little.
    fn forkoff_for(&self, inode: TxInode, len: usize) -> Option<u8> {
        let core = self.core(inode);
        if core.attr_fork().is_some_and(|fork| fork.len() >= len) {
            return Some(core.forkoff());
        }
        let need = self.data_need(inode);
        if need == DataNeed::Btree && core.forkoff() != 0 {
            return None;
        }
        forkoff::choose(self.volume().geo(), need, len)
    }

    /// Moves the data fork's contents into blocks, if they leave no space for attributes in the
    /// inode.
    fn move_content_out(&mut self, inode: TxInode) -> Result<()> {
        let geo = self.volume().geo();
        let need = self.data_need(inode);
        if forkoff::for_blocks(geo, need).is_some() {
            return Ok(());
        }
        let core = self.core(inode);
        if core.is_dir() && core.format() == Some(Format::Local) {
            self.dir_leave_inode(inode)?;
        }
        self.set_forkoff(inode, forkoff::usual(need))
    }

    fn set_aformat(&mut self, inode: TxInode, format: Format) {
        let offset = offset_of!(Core, aformat);
        self.image(inode.handle).put(offset, &(format as u8));
    }

    /// Writes `list` as the attribute fork, beginning at `forkoff`.
    fn put_short_form(&mut self, inode: TxInode, forkoff: u8, list: &[u8]) -> Result<()> {
        if self.core(inode).forkoff() != forkoff {
            self.set_forkoff(inode, forkoff)?;
        }
        self.set_aformat(inode, Format::Local);
        let start = Layout::V5.inode_core + 8 * usize::from(forkoff);
        let mut image = self.image(inode.handle);
        let end = image.bytes().len();
        image.put(start, list);
        image.zero(start + list.len()..end);
        Ok(())
    }

    /// Stores the remaining attributes `left`. Without any the fork is removed, except in two cases
    /// that `xfs_repair` 6.1 takes for damage: a data fork with a btree whose root would have to
    /// move, and that of a symlink which was moved out and would fit then.
    fn shrink_short_form(&mut self, inode: TxInode, left: &[u8]) -> Result<()> {
        let none = Sf::parse(left).is_none_or(|sf| sf.count == 0);
        let core = self.core(inode);
        let fits = core.size().0 <= core.literal().len() as u64;
        let moved_out = core.file_type() == Some(FileType::Symlink)
            && core.format() == Some(Format::Extents)
            && fits;
        if none && core.format() != Some(Format::Btree) && !moved_out {
            self.clear_attr_fork(inode);
            return self.set_forkoff(inode, 0);
        }
        let forkoff = self.core(inode).forkoff();
        self.put_short_form(inode, forkoff, left)
    }

    /// Makes the attribute fork empty, in extents form.
    fn clear_attr_fork(&mut self, inode: TxInode) {
        self.set_aformat(inode, Format::Extents);
        let Some(len) = self.core(inode).attr_fork().map(<[u8]>::len) else { return };
        let mut image = self.image(inode.handle);
        let end = image.bytes().len();
        image.zero(end - len..end);
    }

    /// Converts the attribute fork to an empty leaf in a block. The caller inserts the former
    /// attributes.
    fn short_form_to_tree(&mut self, inode: TxInode) -> Result<()> {
        self.clear_attr_fork(inode);
        let (geo, need) = (self.volume().geo(), self.data_need(inode));
        let old = self.core(inode).forkoff();
        let usual = forkoff::for_blocks(geo, need).unwrap_or(old);
        let new = match need {
            // The root of a tree does not move again, nor does the fork beside a device number.
            DataNeed::Btree | DataNeed::Device if old != 0 => old,
            _ => usual.max(old),
        };
        if new != old {
            self.set_forkoff(inode, new)?;
        }
        self.tree_init(inode)
    }

    /// Moves the attributes into the inode, if all of them fit.
    fn tree_to_short_form(&mut self, inode: TxInode) -> Result<()> {
        let Some(list) = self.tree_as_short_form(inode)? else { return Ok(()) };
        let none = Sf::parse(&list).is_none_or(|sf| sf.count == 0);
        let Some(forkoff) = self.forkoff_for(inode, list.len()) else { return Ok(()) };
        self.tree_drop(inode)?;
        self.clear_attr_fork(inode);
        if none {
            return self.shrink_short_form(inode, &list);
        }
        self.put_short_form(inode, forkoff, &list)
    }
}

/// Bytes of an extent record.
const EXTENT_LEN: usize = 16;

/// The form in which an inode stores its attributes.
pub(super) enum Form {
    None,
    Short,
    Tree,
}

/// A verified short form, copied from its inode; empty for none.
#[derive(Default)]
struct ShortForm(Vec<u8>);

impl ShortForm {
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        Sf::parse(&self.0).into_iter().flat_map(|sf| sf.entries())
    }

    fn find(&self, key: Key<'_>) -> Option<Entry<'_>> {
        self.entries().find(|entry| key.matches(entry.flags, entry.name, Some(entry.value)))
    }

    /// Returns all attributes but `key`.
    fn others(&self, key: Key<'_>) -> impl Iterator<Item = Entry<'_>> {
        self.entries().filter(move |entry| !key.matches(entry.flags, entry.name, Some(entry.value)))
    }
}
