//! Guards of a [`LogItem`] that keep it in memory, so that a transaction can store them in a
//! vector.
//!
//! The guards of the lock crate borrow the lock, or need an allocation for each lock. These guards
//! hold the item's `Arc`, and release in `drop` what was locked when they were made. That is the
//! reason for the `unsafe` in this file.

#![allow(unsafe_code)]

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::log_item::{ItemState, LogItem};
use crate::sync::{RwLock, RwLockReadGuard};

/// Leaves a context lock held. [`reclaim`] takes it over, maybe in another thread.
pub(crate) fn forget(ctx_lock: RwLockReadGuard<'_, ()>) {
    mem::forget(ctx_lock);
}

/// Takes over a context lock that was left held, once for each time.
pub(crate) fn reclaim(ctx_lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    // SAFETY: the lock is held: [`forget`] forgot its guard, and only the caller (`park`) takes it
    // over.
    unsafe { ctx_lock.make_read_guard_unchecked() }
}

/// A log item, locked exclusively.
pub(crate) struct Locked(Arc<LogItem>);

impl Locked {
    /// Locks the item, and waits for it. A parked transaction does not hold it.
    pub(crate) fn wait(item: Arc<LogItem>) -> Self {
        mem::forget(item.lock.write());
        Self(item)
    }

    /// Locks the item if it is free, else returns it.
    pub(crate) fn try_take(item: Arc<LogItem>) -> Result<Self, Arc<LogItem>> {
        let taken = item.lock.try_write().map(mem::forget).is_some();
        if taken { Ok(Self(item)) } else { Err(item) }
    }

    /// Returns the item.
    pub(crate) fn item(&self) -> &Arc<LogItem> {
        &self.0
    }
}

impl Deref for Locked {
    type Target = ItemState;
    #[inline]
    fn deref(&self) -> &ItemState {
        // SAFETY: this was made with the lock held exclusively, which only `drop` releases.
        unsafe { &*self.0.lock.data_ptr() }
    }
}

impl DerefMut for Locked {
    #[inline]
    fn deref_mut(&mut self) -> &mut ItemState {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { &mut *self.0.lock.data_ptr() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: this was made with the lock held exclusively and its guard forgotten.
        unsafe { self.0.lock.force_unlock_write() }
    }
}

/// A log item, locked shared, so that it does not change:
/// [`InodeCache::share`](crate::InodeCache::share).
pub struct Shared(Arc<LogItem>);

impl Shared {
    /// Locks the item, and waits for it. A parked transaction does not hold it.
    pub(crate) fn wait(item: Arc<LogItem>) -> Self {
        mem::forget(item.lock.read_recursive());
        Self(item)
    }

    /// Locks the item if no thread holds it exclusively, else returns it.
    pub(crate) fn try_take(item: Arc<LogItem>) -> Result<Self, Arc<LogItem>> {
        let taken = item.lock.try_read_recursive().map(mem::forget).is_some();
        if taken { Ok(Self(item)) } else { Err(item) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this was made with the lock held shared and its guard forgotten.
        unsafe { self.0.lock.force_unlock_read() }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
