//! Encodes intents and done items.

use zerocopy::{Immutable, IntoBytes};

use crate::log::item::Regions;
use crate::log::item::attri::AttriFormat;
use crate::log::item::intent::{Done, Exchange, Head, Intent, Work};

/// Encodes `intent` with its id.
pub fn intent(out: &mut impl Regions, intent: &Intent) {
    let (kind, id) = (intent.family.intent_kind(), intent.id);
    match &intent.work {
        Work::Free(extents) => list(out, kind, id, extents),
        Work::Rmap(extents) | Work::Bmap(extents) => list(out, kind, id, extents),
        Work::Refcount(extents) => list(out, kind, id, extents),
        Work::Exchange(exchange) => {
            let exchange = Exchange { id: id.into(), ..(**exchange).clone() };
            out.region(&[exchange.as_bytes()]);
        }
        Work::Attr(attri) => {
            let format = AttriFormat { id: id.into(), ..attri.format.clone() };
            out.region(&[format.as_bytes()]);
            let parts = [&attri.name, &attri.new_name, &attri.value, &attri.new_value];
            parts.iter().filter(|part| !part.is_empty()).for_each(|part| out.region(&[part]));
        }
    }
}

/// Encodes the done item of an intent.
pub fn done(out: &mut impl Regions, done: &Done) {
    list(out, done.family.done_kind(), done.id, &done.freed);
}

/// Encodes a header and its extents, in one region.
fn list<T: IntoBytes + Immutable>(out: &mut impl Regions, kind: u16, id: u64, extents: &[T]) {
    let head = Head {
        r#type: kind.into(),
        size: 1.into(),
        nextents: u32::try_from(extents.len()).unwrap_or(u32::MAX).into(),
        id: id.into(),
    };
    out.region(&[head.as_bytes(), extents.as_bytes()]);
}
