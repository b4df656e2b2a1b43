//! The bytes of a log item: shared with snapshots, and changed in place if there are none.
//!
//! A transaction edits a log item a dozen times. The first edit asks the `Arc` whether the bytes
//! are shared, which costs two atomic operations. Later edits know the answer, because only one
//! function shares them. That is the reason for the `unsafe` in this file.
//!
//! A new inode has a core, and zeroes behind it. It is image as a [`CompactInode`], a third of its
//! bytes, until a thread reads or edits it. The journal and the AIL push, mostly the only readers,
//! need no more.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use xfskit_format::inode::CoreV3;

/// The bytes of a log item as they were at one moment. Snapshots are `Arc<Buf>`s.
pub type Buf = [u8];

/// Returns `len` zeroes with no other reference to them.
pub(crate) fn zeroed(len: usize) -> Arc<Buf> {
    std::iter::repeat_n(0, len).collect()
}

/// Bytes of an inode's core.
const CORE: usize = size_of::<CoreV3>();

/// An inode whose forks are all zeroes.
#[derive(Debug)]
pub(crate) struct CompactInode {
    core: [u8; CORE],
    /// Bytes of the whole inode.
    len: usize,
    /// The whole inode, once it has been asked for.
    whole: OnceLock<Arc<Buf>>,
}

impl CompactInode {
    /// Returns an inode of `len` bytes that begins with `core`.
    pub(crate) fn new(core: [u8; CORE], len: usize) -> Self {
        Self { core, len, whole: OnceLock::new() }
    }

    fn whole(&self) -> &Arc<Buf> {
        self.whole.get_or_init(|| self.expanded())
    }

    fn expanded(&self) -> Arc<Buf> {
        let mut whole = zeroed(self.len);
        self.put(Arc::get_mut(&mut whole).expect("no other reference exists yet"));
        whole
    }

    /// Fills `image`, which is as long as the inode.
    fn put(&self, image: &mut [u8]) {
        let (core, forks) = image.split_at_mut(CORE);
        core.copy_from_slice(&self.core);
        forks.fill(0);
    }
}

/// A snapshot of the bytes of a log item, compact where possible.
#[derive(Clone, Debug)]
pub(crate) enum Frozen {
    Whole(Arc<Buf>),
    Compact(Arc<CompactInode>),
}

impl Frozen {
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(buf) => buf.len(),
            Self::Compact(compact) => compact.len,
        }
    }

    /// Returns true if everything behind an inode's core is known to be zero.
    pub(crate) fn is_compact(&self) -> bool {
        matches!(self, Self::Compact(_))
    }

    /// Copies the bytes to `image`, which is as long.
    pub(crate) fn put(&self, image: &mut [u8]) {
        match self {
            Self::Whole(buf) => image.copy_from_slice(buf),
            Self::Compact(compact) => compact.put(image),
        }
    }

    /// Returns all bytes; those of a compact inode are put together in `scratch`.
    pub(crate) fn whole<'s>(&'s self, scratch: &'s mut Scratch) -> &'s [u8] {
        match self {
            Self::Whole(buf) => buf,
            Self::Compact(compact) => {
                scratch.0.resize(compact.len, 0);
                scratch.0[..CORE].copy_from_slice(&compact.core);
                &scratch.0
            }
        }
    }
}

/// Space for one whole inode, all zeroes behind the core.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<u8>);

/// The bytes of a log item, if they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    image: Option<Frozen>,
    /// True only if `image` is whole, and no other `Arc` and no `Weak` refers to it.
    unshared: AtomicBool,
}

impl From<Arc<Buf>> for Bytes {
    fn from(buf: Arc<Buf>) -> Self {
        Self { image: Some(Frozen::Whole(buf)), unshared: AtomicBool::new(false) }
    }
}

impl From<CompactInode> for Bytes {
    fn from(compact: CompactInode) -> Self {
        Self { image: Some(Frozen::Compact(Arc::new(compact))), unshared: AtomicBool::new(false) }
    }
}

impl Bytes {
    /// Returns true if the bytes are in memory.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.image.is_some()
    }

    /// Returns the number of bytes in memory.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.image.as_ref().map_or(0, Frozen::len)
    }

    /// Returns the current bytes.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Buf> {
        Some(match self.image.as_ref()? {
            Frozen::Whole(buf) => buf,
            Frozen::Compact(compact) => compact.whole(),
        })
    }

    /// Returns a snapshot of the bytes.
    pub(crate) fn share(&self) -> Option<Arc<Buf>> {
        Some(match self.freeze()? {
            Frozen::Whole(buf) => buf,
            Frozen::Compact(compact) => Arc::clone(compact.whole()),
        })
    }

    /// Returns a snapshot without expanding a compact inode.
    pub(crate) fn freeze(&self) -> Option<Frozen> {
        // An editor has `&mut self`, and the lock of the item orders its access after this one.
        self.unshared.store(false, Ordering::Relaxed);
        self.image.clone()
    }

    /// Expands a compact inode.
    pub(crate) fn expand(&mut self) {
        if let Some(Frozen::Compact(compact)) = &self.image {
            *self = compact.whole.get().cloned().unwrap_or_else(|| compact.expanded()).into();
        }
    }

    /// Returns the bytes for change. Copies them first if a snapshot of them exists.
    #[inline]
    pub(crate) fn edit(&mut self) -> Option<&mut Buf> {
        if !*self.unshared.get_mut() {
            self.expand();
        }
        let Some(Frozen::Whole(buf)) = &mut self.image else { return None };
        if !*self.unshared.get_mut() {
            Arc::make_mut(buf);
            *self.unshared.get_mut() = true;
        }
        // SAFETY: `make_mut` left this as the only reference, and `freeze`, which makes others,
        // clears `unshared`.
        Some(unsafe { &mut *Arc::as_ptr(buf).cast_mut() })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_edit_does_not_change_a_snapshot() {
        let first: Arc<Buf> = Arc::from(*b"one");
        let mut bytes = Bytes::from(Arc::clone(&first));
        bytes.edit().unwrap().copy_from_slice(b"two");
        assert_eq!(&first[..], b"one");
        let at = bytes.get().unwrap().as_ptr();
        bytes.edit().unwrap()[0] = b'T';
        assert_eq!(bytes.get().unwrap().as_ptr(), at, "edited in place");
        let second = bytes.share().unwrap();
        bytes.edit().unwrap().copy_from_slice(b"six");
        assert_eq!((&second[..], bytes.get().unwrap()), (&b"Two"[..], &b"six"[..]));
        assert!(Bytes::default().share().is_none() && Bytes::default().edit().is_none());
    }

    #[test]
    fn a_compact_inode_has_the_bytes_of_a_whole_one() {
        let whole: Vec<u8> = [[7; CORE].as_slice(), &[0; 512 - CORE]].concat();
        let mut bytes = Bytes::from(CompactInode::new([7; CORE], 512));
        let before = bytes.freeze().unwrap();
        let mut copy = vec![1; 512];
        before.put(&mut copy);
        assert_eq!((&copy, before.len(), bytes.len()), (&whole, 512, 512));
        assert_eq!(before.whole(&mut Scratch::default()), whole);
        assert_eq!(bytes.get().unwrap(), whole);
        let shared = bytes.share().unwrap();
        bytes.edit().unwrap()[300] = 9;
        assert_eq!((&shared[..], before.whole(&mut Scratch::default())), (&whole[..], &whole[..]));
        assert_eq!((bytes.get().unwrap()[300], bytes.freeze().unwrap().is_compact()), (9, false));
    }
}
