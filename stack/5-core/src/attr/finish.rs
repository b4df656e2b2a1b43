//! Completion of attribute changes of Linux that a crash interrupted.
//!
//! Linux changes attributes in steps. It may have done all steps but the last, or none. In between,
//! entries to be added or removed are INCOMPLETE. Every change here removes those first (`debris`).
//! Then the change itself is made, unless it is already in place.

use xfskit_format::attr::Namespace;

use crate::attr::change::{Key, SetMode, verify_name};
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// Sets the attribute to this value, if it is not yet.
    pub(crate) fn attr_finish_set(
        &mut self,
        inode: TxInode,
        namespace: Namespace,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        verify_name(namespace, name, value)?;
        let key = Key::new(namespace, name, None);
        self.attr_put(inode, key, value, SetMode::Any)
    }

    /// Removes the attribute, if it exists.
    pub(crate) fn attr_finish_remove(
        &mut self,
        inode: TxInode,
        namespace: Namespace,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let key = Key::new(namespace, name, value);
        match self.attr_take(inode, key) {
            Err(Error::NoEntry) => Ok(()),
            result => result,
        }
    }

    /// Adds the parent pointer in `value`, if it is missing.
    pub(crate) fn parent_finish_set(
        &mut self,
        inode: TxInode,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        verify_name(Namespace::Parent, name, value)?;
        let key = Key::new(Namespace::Parent, name, Some(value));
        self.attr_put(inode, key, value, SetMode::Any)
    }
}
