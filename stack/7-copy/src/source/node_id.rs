//! The number of a node.

/// The number of a node in its [`Tree`](super::Tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    /// Returns the number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
