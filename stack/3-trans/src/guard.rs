//! Guards of an [`LogItem`] that keep it in memory: a transaction gathers them in a vector.
//!
//! The locks' own guards borrow what they lock, or want an allocation for the lock alone. These hold the item's
//! `Arc`, and release in `drop` what they took when they were made: the reason for the `unsafe` of this file.

#![allow(unsafe_code)]

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::cil::Cil;
use crate::log_item::{ItemState, LogItem};
use crate::sync::{RwLock, RwLockReadGuard};

/// Leaves a gate held: [`again`] is who holds it next, maybe in another thread.
pub(crate) fn leave(ctx_lock: RwLockReadGuard<'_, ()>) {
    mem::forget(ctx_lock);
}

/// Takes over a gate that was left held, once for each time.
pub(crate) fn again(ctx_lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    // SAFETY: it is held: who left it forgot the guard, and said so to nobody but the caller (`park`).
    unsafe { ctx_lock.make_read_guard_unchecked() }
}

/// A log item, held alone.
pub(crate) struct Locked(Arc<LogItem>);

impl Locked {
    /// Waits for it.
    pub(crate) fn take(item: Arc<LogItem>, cil: &Cil) -> Self {
        mem::forget(item.write(Some(cil)));
        Self(item)
    }

    /// Takes it where nobody holds it, else gives it back.
    pub(crate) fn try_take(item: Arc<LogItem>) -> Result<Self, Arc<LogItem>> {
        let taken = item.lock.try_write().map(mem::forget).is_some();
        if taken { Ok(Self(item)) } else { Err(item) }
    }

    /// The item.
    pub(crate) fn item(&self) -> &Arc<LogItem> {
        &self.0
    }
}

impl Deref for Locked {
    type Target = ItemState;
    #[inline]
    fn deref(&self) -> &ItemState {
        // SAFETY: made with the lock held alone, which only `drop` releases.
        unsafe { &*self.0.lock.data_ptr() }
    }
}

impl DerefMut for Locked {
    #[inline]
    fn deref_mut(&mut self) -> &mut ItemState {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { &mut *self.0.lock.data_ptr() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: made with the lock held alone, its guard forgotten.
        unsafe { self.0.lock.force_unlock_write() }
    }
}

/// A log item that stays as it is: [`InodeCache::share`](crate::InodeCache::share).
pub struct Shared(Arc<LogItem>);

impl Shared {
    pub(crate) fn take(item: Arc<LogItem>, cil: &Cil) -> Self {
        mem::forget(item.read(Some(cil)));
        Self(item)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: made with the lock shared, its guard forgotten.
        unsafe { self.0.lock.force_unlock_read() }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
