//! Shrinks a failing sequence: leaves out stretches of operations as long as the rest still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::drawn::DrawnOp;
use crate::ours::Difference;

/// Runs `ops` and panics if that ends in a difference. If `XFSKIT_SHRINK` is set, the message holds
/// a shrunk sequence that fails, too.
///
/// # Panics
/// If there is a difference.
pub fn agree(seed: u64, ops: &[DrawnOp], run: impl Fn(&[DrawnOp]) -> Result<(), Difference>) {
    let differs = |ops: &[DrawnOp]| {
        let result = catch_unwind(AssertUnwindSafe(|| run(ops)));
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("panic: {}", text.unwrap_or_default()))
        };
        result.unwrap_or_else(panicked).err()
    };
    let Some(first) = differs(ops) else { return };
    let shrinks = std::env::var_os("XFSKIT_SHRINK").is_some();
    assert!(shrinks, "seed {seed}: {first}; XFSKIT_SHRINK=1 shrinks the sequence");
    let short = shrink(ops, |ops| differs(ops).is_some());
    panic!("seed {seed}: {first}\nshrunk: {short:#?}\n{:?}", differs(&short));
}

/// Shrinks `ops`, for which `fails` returns true.
pub fn shrink<T: Clone>(ops: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut ops = ops.to_vec();
    let mut len = ops.len() / 2;
    while len > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + len).min(ops.len()));
            if fails(&fewer) {
                ops = fewer;
            } else {
                at += len;
            }
        }
        len /= 2;
    }
    ops
}

#[cfg(test)]
mod tests {
    #[test]
    fn shrinking_leaves_only_the_operations_that_fail() {
        let ops: Vec<u32> = (0..1000).collect();
        let fails = |ops: &[u32]| ops.contains(&17) && ops.contains(&900);
        assert_eq!(super::shrink(&ops, fails), [17, 900]);
    }
}
