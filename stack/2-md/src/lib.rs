//! Floor 2: Linux md arrays as one device. This room is laid out and still empty.
//!
//! An array will be a `BlockDevice` of `1-block` like any other: made from members (files, devices,
//! other arrays), some of which may be missing. Filesystem floors see the trait and never this crate;
//! `3-target` will turn `md:MEMBER,MEMBER,…` into one.
//!
//! What is to stand here, from the members upwards:
//!
//! | room | what |
//! | --- | --- |
//! | superblocks | 0.90 and 1.0 to 1.2, write-intent bitmap, bad-block log; which members are fresh |
//! | personalities | linear, 0, 1, 4, 5, 6, 10: from an array sector to members' sectors |
//! | parity | xor and the P+Q syndromes, for each processor, tested against portable code |
//! | stripe cache | degraded reads and partial writes: each stripe fetched once, on all cores |
//! | resync | rebuild, scrub, replacement, with a rate and a place to resume from |
//!
//! `BlockDevice::alternatives` is where an array tells the buffer cache that there are other ways to
//! obtain bytes whose checksum is wrong.
