//! Implementations of single methods of [`BlockDevice`](crate::BlockDevice). The trait has no
//! default methods, because a wrapper that forgets one would change the device silently: reads
//! would no longer heal, holes would be read. So an implementation names each method, and writes
//! it, [`forward!`](crate::forward)s it to the device below, or takes it as a
//! [`plain!`](macro@crate::plain) disk has it. Crates for delegation serve worse: `ambassador`
//! forwards a trait as a whole, and `delegate` takes the signatures again at each wrapper.

use std::sync::Arc;

use crate::device::BlockDevice;

/// Implements methods of [`BlockDevice`](crate::BlockDevice) by those of the device below:
/// `forward!(this => this.base; size, will_need);`.
#[macro_export]
macro_rules! forward {
    ($this:ident => $base:expr; $($method:ident),+ $(,)?) => {
        $($crate::device_method!($method ($crate::BlockDevice) $this (&$base));)+
    };
}

/// Implements methods of [`BlockDevice`](crate::BlockDevice) as a plain disk has them
/// ([`plain`](mod@crate::plain)): `plain!(topology, heal);`. Without names, all but `size`,
/// `read_at`, `write_at` and `flush`.
#[macro_export]
macro_rules! plain {
    () => {
        $crate::plain!(
            logical_block_size, physical_block_size, topology, is_read_only, read_batch, lend,
            write_batch, write_fua, discard, write_zeroes, will_need, skip_hole, alternatives,
            read_alternative, heal
        );
    };
    ($($method:ident),+ $(,)?) => {
        $($crate::device_method!($method ($crate::plain) this (this));)+
    };
}

/// Implements one method by a function with the same name and arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! device_method {
    (size ($($via:tt)+) $this:ident $base:tt) => {
        fn size(&self) -> $crate::units::ByteLen {
            let $this = self;
            $($via)+::size($base)
        }
    };
    (logical_block_size ($($via:tt)+) $this:ident $base:tt) => {
        fn logical_block_size(&self) -> u32 {
            let $this = self;
            $($via)+::logical_block_size($base)
        }
    };
    (physical_block_size ($($via:tt)+) $this:ident $base:tt) => {
        fn physical_block_size(&self) -> u32 {
            let $this = self;
            $($via)+::physical_block_size($base)
        }
    };
    (topology ($($via:tt)+) $this:ident $base:tt) => {
        fn topology(&self) -> $crate::Topology {
            let $this = self;
            $($via)+::topology($base)
        }
    };
    (is_read_only ($($via:tt)+) $this:ident $base:tt) => {
        fn is_read_only(&self) -> bool {
            let $this = self;
            $($via)+::is_read_only($base)
        }
    };
    (read_at ($($via:tt)+) $this:ident $base:tt) => {
        fn read_at(&self, offset: $crate::units::ByteOffset, buf: &mut [u8]) -> $crate::Result<()> {
            let $this = self;
            $($via)+::read_at($base, offset, buf)
        }
    };
    (read_batch ($($via:tt)+) $this:ident $base:tt) => {
        fn read_batch(&self, batch: &mut [$crate::IoRead<'_>]) -> Vec<$crate::Result<()>> {
            let $this = self;
            $($via)+::read_batch($base, batch)
        }
    };
    (lend ($($via:tt)+) $this:ident $base:tt) => {
        fn lend(
            &self,
            offset: $crate::units::ByteOffset,
            len: $crate::units::ByteLen,
            ahead: $crate::units::ByteLen,
            take: &mut dyn FnMut(&[&[u8]]),
        ) -> bool {
            let $this = self;
            $($via)+::lend($base, offset, len, ahead, take)
        }
    };
    (write_at ($($via:tt)+) $this:ident $base:tt) => {
        fn write_at(&self, offset: $crate::units::ByteOffset, buf: &[u8]) -> $crate::Result<()> {
            let $this = self;
            $($via)+::write_at($base, offset, buf)
        }
    };
    (write_batch ($($via:tt)+) $this:ident $base:tt) => {
        fn write_batch(
            &self,
            batch: &[($crate::units::ByteOffset, &[u8])],
        ) -> Vec<$crate::Result<()>> {
            let $this = self;
            $($via)+::write_batch($base, batch)
        }
    };
    (flush ($($via:tt)+) $this:ident $base:tt) => {
        fn flush(&self) -> $crate::Result<()> {
            let $this = self;
            $($via)+::flush($base)
        }
    };
    (write_fua ($($via:tt)+) $this:ident $base:tt) => {
        fn write_fua(&self, offset: $crate::units::ByteOffset, buf: &[u8]) -> $crate::Result<()> {
            let $this = self;
            $($via)+::write_fua($base, offset, buf)
        }
    };
    (discard ($($via:tt)+) $this:ident $base:tt) => {
        fn discard(
            &self,
            offset: $crate::units::ByteOffset,
            len: $crate::units::ByteLen,
        ) -> $crate::Result<()> {
            let $this = self;
            $($via)+::discard($base, offset, len)
        }
    };
    (write_zeroes ($($via:tt)+) $this:ident $base:tt) => {
        fn write_zeroes(
            &self,
            offset: $crate::units::ByteOffset,
            len: $crate::units::ByteLen,
        ) -> $crate::Result<()> {
            let $this = self;
            $($via)+::write_zeroes($base, offset, len)
        }
    };
    (will_need ($($via:tt)+) $this:ident $base:tt) => {
        fn will_need(&self, offset: $crate::units::ByteOffset, len: $crate::units::ByteLen) {
            let $this = self;
            $($via)+::will_need($base, offset, len)
        }
    };
    (skip_hole ($($via:tt)+) $this:ident $base:tt) => {
        fn skip_hole(&self, offset: $crate::units::ByteOffset) -> $crate::units::ByteOffset {
            let $this = self;
            $($via)+::skip_hole($base, offset)
        }
    };
    (alternatives ($($via:tt)+) $this:ident $base:tt) => {
        fn alternatives(
            &self,
            offset: $crate::units::ByteOffset,
            len: $crate::units::ByteLen,
        ) -> usize {
            let $this = self;
            $($via)+::alternatives($base, offset, len)
        }
    };
    (read_alternative ($($via:tt)+) $this:ident $base:tt) => {
        fn read_alternative(
            &self,
            offset: $crate::units::ByteOffset,
            buf: &mut [u8],
            k: usize,
        ) -> $crate::Result<()> {
            let $this = self;
            $($via)+::read_alternative($base, offset, buf, k)
        }
    };
    (heal ($($via:tt)+) $this:ident $base:tt) => {
        fn heal(
            &self,
            offset: $crate::units::ByteOffset,
            good: &[u8],
            k: usize,
        ) -> $crate::Result<bool> {
            let $this = self;
            $($via)+::heal($base, offset, good, k)
        }
    };
}

impl<D: BlockDevice + ?Sized> BlockDevice for Arc<D> {
    forward!(this => **this;
        size, logical_block_size, physical_block_size, topology, is_read_only, read_at, read_batch,
        lend, write_at, write_batch, flush, write_fua, discard, write_zeroes, will_need, skip_hole,
        alternatives, read_alternative, heal
    );
}
