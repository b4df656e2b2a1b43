//! Delegation to the device below, for the methods of [`BlockDevice`](crate::BlockDevice) that a
//! wrapper does not change. Each method is written once.

/// Implements methods by calling `$base`: `forward!(this => this.base; size, will_need);`.
macro_rules! forward {
    ($this:ident => $base:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward::method!($method $this $base);)+
    };
}

/// Implements one method.
macro_rules! method {
    (size $this:ident $base:expr) => {
        fn size(&self) -> xfskit_units::ByteLen {
            let $this = self;
            $base.size()
        }
    };
    (logical_block_size $this:ident $base:expr) => {
        fn logical_block_size(&self) -> u32 {
            let $this = self;
            $base.logical_block_size()
        }
    };
    (physical_block_size $this:ident $base:expr) => {
        fn physical_block_size(&self) -> u32 {
            let $this = self;
            $base.physical_block_size()
        }
    };
    (topology $this:ident $base:expr) => {
        fn topology(&self) -> $crate::Topology {
            let $this = self;
            $base.topology()
        }
    };
    (is_read_only $this:ident $base:expr) => {
        fn is_read_only(&self) -> bool {
            let $this = self;
            $base.is_read_only()
        }
    };
    (read_at $this:ident $base:expr) => {
        fn read_at(&self, offset: xfskit_units::ByteOffset, buf: &mut [u8]) -> $crate::Result<()> {
            let $this = self;
            $base.read_at(offset, buf)
        }
    };
    (read_batch $this:ident $base:expr) => {
        fn read_batch(&self, batch: &mut [$crate::IoRead<'_>]) -> Vec<$crate::Result<()>> {
            let $this = self;
            $base.read_batch(batch)
        }
    };
    (write_at $this:ident $base:expr) => {
        fn write_at(&self, offset: xfskit_units::ByteOffset, buf: &[u8]) -> $crate::Result<()> {
            let $this = self;
            $base.write_at(offset, buf)
        }
    };
    (write_batch $this:ident $base:expr) => {
        fn write_batch(
            &self,
            batch: &[(xfskit_units::ByteOffset, &[u8])],
        ) -> Vec<$crate::Result<()>> {
            let $this = self;
            $base.write_batch(batch)
        }
    };
    (flush $this:ident $base:expr) => {
        fn flush(&self) -> $crate::Result<()> {
            let $this = self;
            $base.flush()
        }
    };
    (write_fua $this:ident $base:expr) => {
        fn write_fua(&self, offset: xfskit_units::ByteOffset, buf: &[u8]) -> $crate::Result<()> {
            let $this = self;
            $base.write_fua(offset, buf)
        }
    };
    (discard $this:ident $base:expr) => {
        fn discard(
            &self,
            offset: xfskit_units::ByteOffset,
            len: xfskit_units::ByteLen,
        ) -> $crate::Result<()> {
            let $this = self;
            $base.discard(offset, len)
        }
    };
    (write_zeroes $this:ident $base:expr) => {
        fn write_zeroes(
            &self,
            offset: xfskit_units::ByteOffset,
            len: xfskit_units::ByteLen,
        ) -> $crate::Result<()> {
            let $this = self;
            $base.write_zeroes(offset, len)
        }
    };
    (will_need $this:ident $base:expr) => {
        fn will_need(&self, offset: xfskit_units::ByteOffset, len: xfskit_units::ByteLen) {
            let $this = self;
            $base.will_need(offset, len);
        }
    };
    (skip_hole $this:ident $base:expr) => {
        fn skip_hole(&self, offset: xfskit_units::ByteOffset) -> xfskit_units::ByteOffset {
            let $this = self;
            $base.skip_hole(offset)
        }
    };
    (alternatives $this:ident $base:expr) => {
        fn alternatives(
            &self,
            offset: xfskit_units::ByteOffset,
            len: xfskit_units::ByteLen,
        ) -> usize {
            let $this = self;
            $base.alternatives(offset, len)
        }
    };
    (read_alternative $this:ident $base:expr) => {
        fn read_alternative(
            &self,
            offset: xfskit_units::ByteOffset,
            buf: &mut [u8],
            k: usize,
        ) -> $crate::Result<()> {
            let $this = self;
            $base.read_alternative(offset, buf, k)
        }
    };
    (heal $this:ident $base:expr) => {
        fn heal(
            &self,
            offset: xfskit_units::ByteOffset,
            good: &[u8],
            k: usize,
        ) -> $crate::Result<bool> {
            let $this = self;
            $base.heal(offset, good, k)
        }
    };
}

pub(crate) use {forward, method};
