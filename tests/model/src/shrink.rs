//! The shortest sequence that still fails: whole stretches are left out as long as that helps.

/// Shrinks `ops`, for which `fails` is true.
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
    fn what_is_not_needed_goes() {
        let ops: Vec<u32> = (0..1000).collect();
        let fails = |ops: &[u32]| ops.contains(&17) && ops.contains(&900);
        assert_eq!(super::shrink(&ops, fails), [17, 900]);
    }
}
