//! Guards of an [`Object`] that keep it in memory: a transaction gathers them in a vector.
//!
//! The locks' own guards borrow what they lock, or want an allocation for the lock alone. These hold the object's
//! `Arc`, and release in `drop` what they took when they were made: the reason for the `unsafe` of this file.

#![allow(unsafe_code)]

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::list::Lists;
use crate::object::{Content, Object};
use crate::sync::{RwLock, RwLockReadGuard};

/// Leaves a gate held: [`again`] is who holds it next, maybe in another thread.
pub(crate) fn leave(gate: RwLockReadGuard<'_, ()>) {
    mem::forget(gate);
}

/// Takes over a gate that was left held, once for each time.
pub(crate) fn again(gate: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    // SAFETY: it is held: who left it forgot the guard, and said so to nobody but the caller (`rest`).
    unsafe { gate.make_read_guard_unchecked() }
}

/// An object, held alone.
pub(crate) struct Locked(Arc<Object>);

impl Locked {
    /// Waits for it.
    pub(crate) fn take(object: Arc<Object>, lists: &Lists) -> Self {
        mem::forget(object.write(Some(lists)));
        Self(object)
    }

    /// Takes it where nobody holds it, else gives it back.
    pub(crate) fn try_take(object: Arc<Object>) -> Result<Self, Arc<Object>> {
        let taken = object.lock.try_write().map(mem::forget).is_some();
        if taken { Ok(Self(object)) } else { Err(object) }
    }

    /// The object.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.0
    }
}

impl Deref for Locked {
    type Target = Content;
    #[inline]
    fn deref(&self) -> &Content {
        // SAFETY: made with the lock held alone, which only `drop` releases.
        unsafe { &*self.0.lock.data_ptr() }
    }
}

impl DerefMut for Locked {
    #[inline]
    fn deref_mut(&mut self) -> &mut Content {
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

/// An object that stays as it is: [`InodeCache::share`](crate::InodeCache::share).
pub struct Shared(Arc<Object>);

impl Shared {
    pub(crate) fn take(object: Arc<Object>, lists: &Lists) -> Self {
        mem::forget(object.read(Some(lists)));
        Self(object)
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
