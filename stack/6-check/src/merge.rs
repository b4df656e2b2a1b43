//! A walk over two sorted lists in step.

use std::cmp::Ordering;

/// Walks two sorted lists in step. Passes items that only one list has to `left` or `right`, and
/// pairs with the same key to `both`.
pub(crate) fn merge<A, B, K: Ord>(
    a: impl IntoIterator<Item = A>,
    b: impl IntoIterator<Item = B>,
    key_a: impl Fn(&A) -> K,
    key_b: impl Fn(&B) -> K,
    mut each: impl FnMut(Option<A>, Option<B>),
) {
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(x), Some(y)) => key_a(x).cmp(&key_b(y)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        match order {
            Ordering::Less => each(a.next(), None),
            Ordering::Greater => each(None, b.next()),
            Ordering::Equal => each(a.next(), b.next()),
        }
    }
}
