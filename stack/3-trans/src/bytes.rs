//! The bytes of an object: shared with whoever took a snapshot, changed in place where nobody did.
//!
//! A transaction edits an object a dozen times. That its bytes are nobody else's is asked of the `Arc` once, which costs
//! two atomic operations, and known from then on, for there is one way only to share them: the reason for the `unsafe`
//! of this file.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::object::Buf;

/// The bytes, if they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    buf: Option<Arc<Buf>>,
    /// True only where no other `Arc` and no `Weak` refers to `buf`.
    alone: AtomicBool,
}

impl From<Arc<Buf>> for Bytes {
    fn from(buf: Arc<Buf>) -> Self {
        Self { buf: Some(buf), alone: AtomicBool::new(false) }
    }
}

impl Bytes {
    /// As they are now.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Buf> {
        self.buf.as_deref()
    }

    /// A snapshot, which stays as it is.
    pub(crate) fn share(&self) -> Option<Arc<Buf>> {
        // Who edits has `&mut self`, and the lock of the object between this and that.
        self.alone.store(false, Ordering::Relaxed);
        self.buf.clone()
    }

    /// The bytes, to be changed: copied first where a snapshot of them is still held.
    #[inline]
    pub(crate) fn edit(&mut self) -> Option<&mut Buf> {
        let buf = self.buf.as_mut()?;
        if !*self.alone.get_mut() {
            Arc::make_mut(buf);
            *self.alone.get_mut() = true;
        }
        // SAFETY: `make_mut` left this as the only reference, and `share`, which makes others, says so in `alone`.
        Some(unsafe { &mut *Arc::as_ptr(buf).cast_mut() })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_stays_as_it_is() {
        let first: Arc<Buf> = Arc::from(*b"one");
        let mut bytes = Bytes::from(Arc::clone(&first));
        bytes.edit().unwrap().copy_from_slice(b"two");
        assert_eq!(&first[..], b"one");
        let at = bytes.get().unwrap().as_ptr();
        bytes.edit().unwrap()[0] = b'T';
        assert_eq!(bytes.get().unwrap().as_ptr(), at, "nobody else has it");
        let second = bytes.share().unwrap();
        bytes.edit().unwrap().copy_from_slice(b"six");
        assert_eq!((&second[..], bytes.get().unwrap()), (&b"Two"[..], &b"six"[..]));
        assert!(Bytes::default().share().is_none() && Bytes::default().edit().is_none());
    }
}
