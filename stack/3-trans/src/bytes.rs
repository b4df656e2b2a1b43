//! The bytes of a log item: shared with whoever took a snapshot, changed in place where nobody did.
//!
//! A transaction edits a log item a dozen times. That its bytes are nobody else's is asked of the `Arc` once, which costs
//! two atomic operations, and known from then on, for there is one way only to share them: the reason for the `unsafe`
//! of this file.
//!
//! Of a new inode there is its core, and all the rest is zeroes: it is kept as a [`CompactInode`] one, a third of its bytes, until
//! somebody reads or edits it. The journal and write-back, which mostly are all that ever look at it, need no more.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use xfskit_format::inode::CoreV3;

use crate::log_item::{Buf, zeroed};

/// Bytes of an inode's core.
const CORE: usize = size_of::<CoreV3>();

/// An inode whose forks are all zeroes.
#[derive(Debug)]
pub(crate) struct CompactInode {
    core: [u8; CORE],
    /// Bytes of the whole inode.
    len: usize,
    /// All of it, once somebody wanted to see that.
    whole: OnceLock<Arc<Buf>>,
}

impl CompactInode {
    /// `len` bytes, of which a core is the first.
    pub(crate) fn new(core: [u8; CORE], len: usize) -> Self {
        Self { core, len, whole: OnceLock::new() }
    }

    fn whole(&self) -> &Arc<Buf> {
        self.whole.get_or_init(|| self.expanded())
    }

    fn expanded(&self) -> Arc<Buf> {
        let mut whole = zeroed(self.len);
        self.put(Arc::get_mut(&mut whole).expect("nobody else has it yet"));
        whole
    }

    /// Makes `image`, as long as the inode, this one.
    fn put(&self, image: &mut [u8]) {
        let (core, forks) = image.split_at_mut(CORE);
        core.copy_from_slice(&self.core);
        forks.fill(0);
    }
}

/// The bytes of a log item as they were at one moment, the short way.
#[derive(Clone, Debug)]
pub(crate) enum Frozen {
    Whole(Arc<Buf>),
    Compact(Arc<CompactInode>),
}

impl Frozen {
    /// How many bytes they are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(buf) => buf.len(),
            Self::Compact(compact) => compact.len,
        }
    }

    /// True where all behind an inode's core is zeroes, for sure.
    pub(crate) fn is_compact(&self) -> bool {
        matches!(self, Self::Compact(_))
    }

    /// Copies them to `image`, which is as long.
    pub(crate) fn put(&self, image: &mut [u8]) {
        match self {
            Self::Whole(buf) => image.copy_from_slice(buf),
            Self::Compact(compact) => compact.put(image),
        }
    }

    /// All of them, in `scratch` where they stand nowhere as a whole.
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

/// Room for one inode as a whole, all zeroes behind the core.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<u8>);

/// The bytes, if they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    kept: Option<Frozen>,
    /// True only where `kept` is whole, and no other `Arc` and no `Weak` refers to it.
    unshared: AtomicBool,
}

impl From<Arc<Buf>> for Bytes {
    fn from(buf: Arc<Buf>) -> Self {
        Self { kept: Some(Frozen::Whole(buf)), unshared: AtomicBool::new(false) }
    }
}

impl From<CompactInode> for Bytes {
    fn from(compact: CompactInode) -> Self {
        Self { kept: Some(Frozen::Compact(Arc::new(compact))), unshared: AtomicBool::new(false) }
    }
}

impl Bytes {
    /// True where they are in memory.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.kept.is_some()
    }

    /// How many there are in memory.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.kept.as_ref().map_or(0, Frozen::len)
    }

    /// As they are now.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Buf> {
        Some(match self.kept.as_ref()? {
            Frozen::Whole(buf) => buf,
            Frozen::Compact(compact) => compact.whole(),
        })
    }

    /// A snapshot, which stays as it is.
    pub(crate) fn share(&self) -> Option<Arc<Buf>> {
        Some(match self.freeze()? {
            Frozen::Whole(buf) => buf,
            Frozen::Compact(compact) => Arc::clone(compact.whole()),
        })
    }

    /// The same as it is kept.
    pub(crate) fn freeze(&self) -> Option<Frozen> {
        // Who edits has `&mut self`, and the lock of the item between this and that.
        self.unshared.store(false, Ordering::Relaxed);
        self.kept.clone()
    }

    /// Keeps an inode that is no longer new as a whole.
    pub(crate) fn expand(&mut self) {
        if let Some(Frozen::Compact(compact)) = &self.kept {
            *self = compact.whole.get().cloned().unwrap_or_else(|| compact.expanded()).into();
        }
    }

    /// The bytes, to be changed: copied first where a snapshot of them is still held.
    #[inline]
    pub(crate) fn edit(&mut self) -> Option<&mut Buf> {
        if !*self.unshared.get_mut() {
            self.expand();
        }
        let Some(Frozen::Whole(buf)) = &mut self.kept else { return None };
        if !*self.unshared.get_mut() {
            Arc::make_mut(buf);
            *self.unshared.get_mut() = true;
        }
        // SAFETY: `make_mut` left this as the only reference, and `freeze`, which makes others, says so in `unshared`.
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

    #[test]
    fn a_bare_inode_is_like_any_other() {
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
