//! XMI: continues an interrupted exchange of the mappings of two files.

use xfskit_format::log::item::Intent;
use xfskit_format::log::item::intent::{Exchange, Work};

use super::ctx;
use crate::error::Result;
use crate::tx::{Tx, TxInode};

impl Tx<'_> {
    /// Exchanges as much as fits into one transaction, and returns the remaining work.
    pub(super) fn keep_exchange(
        &mut self,
        intent: &Intent,
        work: &Exchange,
    ) -> Result<Option<Work>> {
        let first = self.exchanged_inode(intent, work.inode1.get(), work.igen1.get())?;
        let second = self.exchanged_inode(intent, work.inode2.get(), work.igen2.get())?;
        let left = self.exchange_some([first, second], work)?;
        Ok(left.map(|left| Work::Exchange(Box::new(left))))
    }

    fn exchanged_inode(&mut self, intent: &Intent, ino: u64, generation: u32) -> Result<TxInode> {
        let inode = self.intent_inode(intent, ino)?;
        let found = self.core(inode).generation();
        ctx(self.volume(), intent).eq("log.xmi.igen", found, generation)?;
        Ok(inode)
    }
}
