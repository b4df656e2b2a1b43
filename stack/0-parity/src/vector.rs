//! The shared code of the vector routines: one pass over a stripe, written for any processor's
//! registers.
//!
//! Everything is generic over [`Vector`], a register of bytes, and always inlined. It becomes code
//! for a processor inside the few functions of `x86` and `arm` that enable its instructions. A
//! block of some registers' width is summed over all sources with A and B in registers. The output
//! is solved and stored before the next block begins.
//!
//! One contract holds for all functions here: the processor has the instructions of the `Vector`,
//! and the pointers are valid for the bytes that are accessed. `run`, `xor` and `update` ensure
//! this.
#![allow(unsafe_code)] // instructions that not every processor has, loads and stores through pointers
#![allow(unsafe_op_in_unsafe_fn)] // the one contract above is all there is to say
#![allow(clippy::inline_always)] // or it is no code of the processor it is for

use std::array;
use std::mem::MaybeUninit;

use crate::stripe::{Output, Stripe};

/// Bytes of every chunk that are summed before the next ones: a page.
const TILE: usize = 4096;
/// Chunks that are read side by side.
const GROUP: usize = 8;

#[repr(align(64))]
struct Page([u8; TILE]);
/// Read in place of a missing chunk.
static ZEROES: Page = Page([0; TILE]);

/// A register of bytes, each an element of the field.
pub(crate) trait Vector: Copy {
    /// Its width in bytes.
    const LEN: usize;
    /// The constant by which every byte of B is off while it is summed. Some routines double faster
    /// with it.
    const OFFSET: u8 = 0;
    /// A factor, prepared for [`Vector::times`].
    type Factor: Copy;

    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Returns a register with the same byte everywhere.
    unsafe fn all(byte: u8) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn factor(c: u8) -> Self::Factor;
    unsafe fn times(self, factor: Self::Factor) -> Self;
    /// Returns twice `self` plus `d`. `self` and the result are off by [`Vector::OFFSET`].
    unsafe fn step(self, d: Self) -> Self;

    /// Returns `self` plus all of `d`.
    #[inline(always)]
    unsafe fn plus_four(self, d: [Self; 4]) -> Self {
        self.plus(d[0]).plus(d[1]).plus(d[2]).plus(d[3])
    }

    /// Does four steps, from the last of `d` (the highest exponent) to the first.
    #[inline(always)]
    unsafe fn step_four(self, d: [Self; 4]) -> Self {
        self.step(d[3]).step(d[2]).step(d[1]).step(d[0])
    }
}

/// The source at one exponent: a chunk, or nothing.
trait Source: Copy {
    /// Returns its bytes from `at`, at least a tile; zeroes if there is no chunk.
    unsafe fn bytes(self, at: usize) -> *const u8;
}

impl Source for &[u8] {
    #[inline(always)]
    unsafe fn bytes(self, at: usize) -> *const u8 {
        self.as_ptr().add(at)
    }
}

impl Source for Option<&[u8]> {
    #[inline(always)]
    unsafe fn bytes(self, at: usize) -> *const u8 {
        match self {
            Some(chunk) => chunk.bytes(at),
            None => ZEROES.0.as_ptr(),
        }
    }
}

/// The requested output ([`Output`]), with prepared factors.
enum Solve<V: Vector> {
    P,
    /// A and B of the chunks alone, without adding Q.
    Chunks,
    Sums,
    Scaled(V::Factor),
    DataP(V::Factor),
    DataQ(V::Factor),
    DataData(V::Factor, V::Factor),
}

/// One tile: where its sources and results begin. The results hold A and B meanwhile.
struct Tile {
    start: usize,
    len: usize,
    p: *const u8,
    q: *const u8,
    one: *mut u8,
    two: *mut u8,
}

/// A and B of several registers.
type Sums<V, const W: usize> = ([V; W], [V; W]);

/// Returns A and B over a group and the previous groups, for W registers `at` bytes into the tile.
#[inline(always)]
unsafe fn sums<V: Vector, const W: usize, const G: usize, const B: bool>(
    chunks: &[*const u8; G],
    (mut a, mut b): Sums<V, W>,
    at: usize,
) -> Sums<V, W> {
    // A single register takes four chunks at a time, which needs fewer instructions on some
    // processors.
    let (fours, top) = if W == 1 { chunks.as_chunks::<4>() } else { (&[][..], &chunks[..]) };
    for chunk in top.iter().rev() {
        let d = load::<V, W>(chunk.add(at));
        for w in 0..W {
            a[w] = a[w].plus(d[w]);
            if B {
                b[w] = b[w].step(d[w]);
            }
        }
    }
    for four in fours.iter().rev() {
        let d = four.map(|chunk| V::load(chunk.add(at)));
        a[0] = a[0].plus_four(d);
        if B {
            b[0] = b[0].step_four(d);
        }
    }
    (a, b)
}

#[inline(always)]
unsafe fn load<V: Vector, const W: usize>(from: *const u8) -> [V; W] {
    let mut registers = [V::load(from); W];
    for (w, register) in registers.iter_mut().enumerate().skip(1) {
        *register = V::load(from.add(w * V::LEN));
    }
    registers
}

#[inline(always)]
unsafe fn store<V: Vector, const W: usize>(registers: [V; W], to: *mut u8) {
    for (w, register) in registers.into_iter().enumerate() {
        register.store(to.add(w * V::LEN));
    }
}

impl Tile {
    /// Returns the sums before the first chunk. `P`: there is a P to add to A. No zeroes are loaded
    /// in its place, because eight chunks of a page already fill the first cache.
    #[inline(always)]
    unsafe fn none<V: Vector, const W: usize, const P: bool>(&self, at: usize) -> Sums<V, W> {
        let a = if P { load(self.p.add(at)) } else { [V::all(0); W] };
        (a, [V::all(V::OFFSET); W])
    }

    /// Returns the sums so far.
    #[inline(always)]
    unsafe fn so_far<V: Vector, const W: usize, const B: bool>(&self, at: usize) -> Sums<V, W> {
        let b = if B { load(self.two.add(at)) } else { [V::all(0); W] };
        (load(self.one.add(at)), b)
    }

    /// Starts the sums with the first chunks. Without `B`, B is neither summed nor stored.
    #[inline(always)]
    unsafe fn begin<V: Vector, const W: usize, const G: usize, const B: bool, const P: bool>(
        &self,
        chunks: &[impl Source],
    ) {
        let chunks = array::from_fn::<_, G, _>(|i| chunks.get_unchecked(i).bytes(self.start));
        for at in (0..self.len).step_by(W * V::LEN) {
            let (a, b) = sums::<V, W, G, B>(&chunks, self.none::<V, W, P>(at), at);
            store(a, self.one.add(at));
            if B {
                store(b, self.two.add(at));
            }
        }
    }

    /// Does [`Tile::begin`] with any number of chunks up to a group.
    #[inline(always)]
    unsafe fn begin_any<V: Vector, const W: usize, const B: bool, const P: bool>(
        &self,
        chunks: &[impl Source],
    ) {
        match chunks.len() {
            0 => self.begin::<V, W, 0, B, P>(chunks),
            1 => self.begin::<V, W, 1, B, P>(chunks),
            2 => self.begin::<V, W, 2, B, P>(chunks),
            3 => self.begin::<V, W, 3, B, P>(chunks),
            4 => self.begin::<V, W, 4, B, P>(chunks),
            5 => self.begin::<V, W, 5, B, P>(chunks),
            6 => self.begin::<V, W, 6, B, P>(chunks),
            7 => self.begin::<V, W, 7, B, P>(chunks),
            _ => self.begin::<V, W, GROUP, B, P>(chunks),
        }
    }

    /// Adds a further group to the sums.
    #[inline(always)]
    unsafe fn grow<V: Vector, const W: usize, const B: bool>(&self, chunks: &[impl Source; GROUP]) {
        let chunks = chunks.map(|chunk| chunk.bytes(self.start));
        for at in (0..self.len).step_by(W * V::LEN) {
            let so_far = self.so_far::<V, W, B>(at);
            let (a, b) = sums::<V, W, GROUP, B>(&chunks, so_far, at);
            store(a, self.one.add(at));
            if B {
                store(b, self.two.add(at));
            }
        }
    }

    /// Adds the last chunks and stores what `solve` computes from A and B. `ONLY`: they are the
    /// first chunks as well. `P`, `Q`: P is added to A, Q to B.
    #[inline(always)]
    unsafe fn end<
        V: Vector,
        const W: usize,
        const G: usize,
        const ONLY: bool,
        const P: bool,
        const Q: bool,
    >(
        &self,
        chunks: &[impl Source; G],
        solve: impl Fn(V, V) -> (V, V),
    ) {
        let chunks = chunks.map(|chunk| chunk.bytes(self.start));
        for at in (0..self.len).step_by(W * V::LEN) {
            let before =
                if ONLY { self.none::<V, W, P>(at) } else { self.so_far::<V, W, true>(at) };
            let (mut a, mut b) = sums::<V, W, G, true>(&chunks, before, at);
            for w in 0..W {
                let mut sum = b[w].plus(V::all(V::OFFSET));
                if Q {
                    sum = sum.plus(V::load(self.q.add(at + w * V::LEN)));
                }
                (a[w], b[w]) = solve(a[w], sum);
            }
            store(a, self.one.add(at));
            store(b, self.two.add(at));
        }
    }

    /// Does [`Tile::end`] for the requested output.
    #[inline(always)]
    unsafe fn solve<V: Vector, const W: usize, const G: usize, const ONLY: bool, const P: bool>(
        &self,
        chunks: &[impl Source; G],
        solve: &Solve<V>,
    ) {
        match *solve {
            Solve::P | Solve::Chunks => self.end::<V, W, G, ONLY, P, false>(chunks, |a, b| (a, b)),
            Solve::Sums => self.end::<V, W, G, ONLY, P, true>(chunks, |a, b| (a, b)),
            Solve::Scaled(factor) => {
                self.end::<V, W, G, ONLY, P, true>(chunks, |a, b| (a, b.times(factor)));
            }
            Solve::DataP(factor) => self.end::<V, W, G, ONLY, P, true>(chunks, |a, b| {
                let data = b.times(factor);
                (data, a.plus(data))
            }),
            Solve::DataQ(factor) => {
                self.end::<V, W, G, ONLY, P, true>(chunks, |a, b| (a, b.plus(a.times(factor))));
            }
            Solve::DataData(factor_a, factor_b) => {
                self.end::<V, W, G, ONLY, P, true>(chunks, |a, b| {
                    let data = a.times(factor_a).plus(b.times(factor_b));
                    (data, a.plus(data))
                });
            }
        }
    }
}

/// Processes whole registers of a stripe, tile by tile, from the highest exponents down. Returns
/// where it ended. `P`: there is a P.
#[inline(always)]
unsafe fn sweep<V: Vector, const W: usize, const P: bool>(
    chunks: &[impl Source],
    (p, q): (Option<&[u8]>, Option<&[u8]>),
    solve: &Solve<V>,
    (mut one, mut two): (Option<&mut [u8]>, Option<&mut [u8]>),
    len: usize,
) -> usize {
    // An output that is not needed reuses the same tile of memory.
    let mut unwanted = MaybeUninit::<Page>::uninit();
    let mut result = |out: &mut Option<&mut [u8]>, start| match out {
        Some(out) => out.as_mut_ptr().add(start),
        None => unwanted.as_mut_ptr().cast(),
    };
    let (groups, top) = match chunks.as_chunks::<GROUP>() {
        ([groups @ .., last], []) => (groups, &last[..]),
        groups => groups,
    };
    let end = len / (W * V::LEN) * (W * V::LEN);
    for start in (0..end).step_by(TILE) {
        let tile = Tile {
            start,
            len: TILE.min(end - start),
            p: p.bytes(start),
            q: q.bytes(start),
            one: result(&mut one, start),
            two: result(&mut two, start),
        };
        match (solve, groups, <&[_; GROUP]>::try_from(top).ok()) {
            (Solve::P, _, _) => {
                tile.begin_any::<V, W, false, P>(top);
                groups.iter().rev().for_each(|group| tile.grow::<V, W, false>(group));
            }
            (_, [], Some(only)) => tile.solve::<V, W, GROUP, true, P>(only, solve),
            (_, [], None) => {
                tile.begin_any::<V, W, true, P>(top);
                tile.solve::<V, W, 0, false, P>(&[None; 0], solve);
            }
            (_, [last, groups @ ..], _) => {
                tile.begin_any::<V, W, true, P>(top);
                groups.iter().rev().for_each(|group| tile.grow::<V, W, true>(group));
                tile.solve::<V, W, GROUP, false, P>(last, solve);
            }
        }
    }
    end
}

/// Implements `run` of [`crate::routine::Routine`].
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, const W: usize>(
    stripe: &Stripe,
    output: &mut Output,
    len: usize,
) -> usize {
    let (solve, one, two): (Solve<V>, _, _) = match output {
        Output::P { p } => (Solve::P, Some(p), None),
        Output::Sums { p, q } if stripe.q.is_none() => (Solve::Chunks, Some(p), Some(q)),
        Output::Sums { p, q } => (Solve::Sums, Some(p), Some(q)),
        Output::Scaled { b, d } => (Solve::Scaled(V::factor(*b)), None, Some(d)),
        Output::DataP { b, d, p } => (Solve::DataP(V::factor(*b)), Some(d), Some(p)),
        Output::DataQ { c, d, q } => (Solve::DataQ(V::factor(*c)), Some(d), Some(q)),
        Output::DataData { a, b, x, y } => {
            (Solve::DataData(V::factor(*a), V::factor(*b)), Some(x), Some(y))
        }
    };
    let results = (one.map(|one| &mut **one), two.map(|two| &mut **two));
    if stripe.p.is_some() {
        sweep::<V, W, true>(stripe.data, (stripe.p, stripe.q), &solve, results, len)
    } else {
        sweep::<V, W, false>(stripe.data, (None, stripe.q), &solve, results, len)
    }
}

/// Implements `xor` of [`crate::routine::Routine`].
#[inline(always)]
pub(crate) unsafe fn xor<V: Vector, const W: usize>(sources: &[&[u8]], out: &mut [u8]) -> usize {
    let len = out.len();
    sweep::<V, W, false>(sources, (None, None), &Solve::<V>::P, (Some(out), None), len)
}

/// Implements `update` of [`crate::routine::Routine`].
#[inline(always)]
pub(crate) unsafe fn update<V: Vector>(
    c: u8,
    difference: &[u8],
    p: &mut [u8],
    q: &mut [u8],
) -> usize {
    let c = V::factor(c);
    let (from, p, q) = (difference.as_ptr(), p.as_mut_ptr(), q.as_mut_ptr());
    let end = difference.len() / V::LEN * V::LEN;
    let mut at = 0;
    while at < end {
        let d = V::load(from.add(at));
        V::load(p.add(at)).plus(d).store(p.add(at));
        V::load(q.add(at)).plus(d.times(c)).store(q.add(at));
        at += V::LEN;
    }
    end
}

/// Defines the routine `$name` of [`Vector`] `$vector`, with `$width` registers of A and as many of
/// B at a time. Its `run`, `xor` and `update` are in a module; each is a function that enables the
/// instructions.
macro_rules! routine {
    ($name:ident, $vector:ty, $width:literal, $features:literal) => {
        pub(crate) mod $name {
            use super::*;
            use $crate::stripe::{Output, Stripe};
            use $crate::vector;

            pub(crate) fn run(stripe: &Stripe, output: &mut Output, len: usize) -> usize {
                #[target_feature(enable = $features)]
                fn enabled(stripe: &Stripe, output: &mut Output, len: usize) -> usize {
                    // SAFETY: the instructions are enabled; `len` is the length of everything.
                    unsafe { vector::run::<$vector, $width>(stripe, output, len) }
                }
                // SAFETY: routine.rs runs a routine only after its detection confirmed that the
                // processor has the instructions.
                unsafe { enabled(stripe, output, len) }
            }

            pub(crate) fn xor(sources: &[&[u8]], out: &mut [u8]) -> usize {
                #[target_feature(enable = $features)]
                fn enabled(sources: &[&[u8]], out: &mut [u8]) -> usize {
                    // SAFETY: as in `run`.
                    unsafe { vector::xor::<$vector, $width>(sources, out) }
                }
                // SAFETY: as in `run`.
                unsafe { enabled(sources, out) }
            }

            pub(crate) fn update(c: u8, difference: &[u8], p: &mut [u8], q: &mut [u8]) -> usize {
                #[target_feature(enable = $features)]
                fn enabled(c: u8, difference: &[u8], p: &mut [u8], q: &mut [u8]) -> usize {
                    // SAFETY: as in `run`.
                    unsafe { vector::update::<$vector>(c, difference, p, q) }
                }
                // SAFETY: as in `run`.
                unsafe { enabled(c, difference, p, q) }
            }
        }
    };
}
pub(crate) use routine;
