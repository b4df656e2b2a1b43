//! Runs of blocks that must not be split where they could be one, and how a few records become others.
//!
//! The rmapbt and the refcountbt have the same law: records that can be one are one. Whatever happens to
//! a range of blocks, the records there afterwards follow from those before by pushing the pieces one
//! after the other onto a list that [joins](Run::joins) neighbours. [`Edits`] is the difference of
//! the two lists, and all that the tree must go through.

/// A record about consecutive blocks.
pub(crate) trait Run: Copy + PartialEq {
    /// What the tree is ordered by; different for any two records of a tree.
    type Key: Ord;

    /// The record's place in the tree.
    fn key(&self) -> Self::Key;

    /// True where `next` follows immediately, and the tree must hold both as one record.
    fn joins(&self, next: &Self) -> bool;

    /// Takes in `next`, which it joins.
    fn take_in(&mut self, next: &Self);
}

/// A list of records in order, with those joined that can be one.
#[derive(Debug)]
pub(crate) struct Joined<R>(Vec<R>);

impl<R: Run> Joined<R> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a record behind the others.
    pub(crate) fn push(&mut self, rec: R) {
        match self.0.last_mut() {
            Some(last) if last.joins(&rec) => last.take_in(&rec),
            _ => self.0.push(rec),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<R> {
        self.0
    }
}

impl<R: Run> Extend<R> for Joined<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, recs: I) {
        recs.into_iter().for_each(|rec| self.push(rec));
    }
}

/// One step of a tree from what it holds to what it shall hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit<R> {
    /// This record goes.
    Delete(R),
    /// The first record becomes the second, which has the same key.
    Update(R, R),
    /// This record comes.
    Insert(R),
}

/// What a tree must go through, in an order in which no two of its records ever have the same key.
pub(crate) type Edits<R> = Vec<Edit<R>>;

/// The difference between the records `old` and `new`, both in order.
pub(crate) fn difference<R: Run>(old: &[R], new: &[R]) -> Edits<R> {
    let mut edits = Vec::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut inserts = Vec::new();
    loop {
        match (old.peek(), new.peek()) {
            (Some(&&was), Some(&&is)) if was.key() == is.key() => {
                if was != is {
                    edits.push(Edit::Update(was, is));
                }
                (old.next(), new.next());
            }
            (Some(&&was), is) if is.is_none_or(|is| was.key() < is.key()) => {
                edits.push(Edit::Delete(was));
                old.next();
            }
            (_, Some(&&is)) => {
                inserts.push(Edit::Insert(is));
                new.next();
            }
            (_, None) => break,
        }
    }
    edits.extend(inserts);
    edits
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Edit, Run};

    /// A tree as plain records.
    #[derive(Debug)]
    pub(crate) struct PlainTree<R>(pub(crate) Vec<R>);

    impl<R: Run + std::fmt::Debug> PlainTree<R> {
        /// Makes the edits one after the other; each must find what it says, and keep keys apart.
        pub(crate) fn apply(&mut self, edits: &[Edit<R>]) {
            for &edit in edits {
                match edit {
                    Edit::Delete(rec) => {
                        let at = self.place(&rec).unwrap();
                        assert_eq!(self.0.remove(at), rec);
                    }
                    Edit::Update(was, is) => {
                        let at = self.place(&is).unwrap();
                        assert_eq!(self.0[at], was);
                        self.0[at] = is;
                    }
                    Edit::Insert(rec) => {
                        let at = self.place(&rec).unwrap_err();
                        self.0.insert(at, rec);
                    }
                }
            }
        }

        fn place(&self, rec: &R) -> Result<usize, usize> {
            self.0.binary_search_by_key(&rec.key(), Run::key)
        }
    }

    /// Numbers for tests, the same for the same seed.
    pub(crate) struct Dice(u64);

    impl Dice {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
        }

        /// A number below `sides`.
        pub(crate) fn roll(&mut self, sides: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            u32::try_from((self.0 >> 32) % u64::from(sides)).unwrap()
        }
    }
}
