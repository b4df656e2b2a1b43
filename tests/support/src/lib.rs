//! What tests of all crates share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`random`] | random numbers from a seed, and the replay of a failure |

pub mod random;

pub use random::{Random, seed, seeds};

/// Returns whether the long runs were requested (`XFSKIT_LONG=1`): more seeds, bigger trees, the
/// whole matrix of volumes.
pub fn long() -> bool {
    std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1")
}
