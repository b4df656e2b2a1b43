//! What is fuzzed: every decoder, and opening, walking and checking a whole image.
//!
//! Each target is a plain function over bytes, so that libFuzzer (`tests/fuzz`, `cargo +nightly fuzz
//! run TARGET`) and the short run of `make test` (`tests/corpus.rs`) share it. A target must not
//! panic, hang or allocate without bound, whatever the bytes.
//!
//! The first byte of a decoder's input chooses the volume (version 4 or 5, block size) and whether
//! the CRC is made right before judging: without that only the CRC check would be tested.

pub mod decoders;
pub mod image;
pub mod volumes;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What to run.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "superblock", run: decoders::superblock },
    Target { name: "ag_headers", run: decoders::ag_headers },
    Target { name: "agbtree", run: decoders::agbtree },
    Target { name: "inode", run: decoders::inode },
    Target { name: "bmbt", run: decoders::bmbt },
    Target { name: "dir", run: decoders::dir },
    Target { name: "attr", run: decoders::attr },
    Target { name: "log", run: decoders::log },
    Target { name: "image", run: image::open_walk_check },
];

/// A small generator of reproducible bytes (splitmix64), for mutations.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.bits() % n as u64).unwrap_or(0)
    }
}

/// `seed` with a few bytes changed: flipped bits, interesting values, copied stretches.
pub fn mutate(seed: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    if bytes.is_empty() {
        return bytes;
    }
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
            2 => {
                let end = (at + 1 + rng.below(8)).min(bytes.len());
                bytes[at..end].fill([0, 0xff][rng.below(2)]);
            }
            3 => {
                let from = rng.below(bytes.len());
                let len = (1 + rng.below(16)).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            4 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] = rng.bits().to_le_bytes()[0],
        }
    }
    if rng.below(16) == 0 {
        bytes.truncate(rng.below(bytes.len()));
    }
    bytes
}
