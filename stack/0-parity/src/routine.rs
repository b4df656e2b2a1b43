//! The routines, and the choice among them.

#[cfg(target_arch = "aarch64")]
use crate::arm;
use crate::portable;
use crate::stripe::{Output, Stripe, checked_len};
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// A routine that [`crate::vector::routine`] defined as a module.
macro_rules! routine {
    ($name:literal, $detect:expr, $($module:ident)::+) => {
        Routine {
            name: $name,
            detect: $detect,
            run: $($module)::+::run,
            xor: $($module)::+::xor,
            update: $($module)::+::update,
        }
    };
}

/// One implementation of the parity operations.
///
/// The functions process as many bytes from the beginning as fill their registers, and return how
/// many. The portable routine does the rest. They rely on all lengths being equal.
#[derive(Debug)]
pub struct Routine {
    /// Its name: `portable`, `avx2`, …
    pub name: &'static str,
    /// Returns true if the processor supports the functions. They are called only then.
    detect: fn() -> bool,
    /// Sums over the stripe, and computes the output.
    run: fn(&Stripe, &mut Output, usize) -> usize,
    /// The sum of the sources.
    xor: fn(&[&[u8]], &mut [u8]) -> usize,
    /// Adds the difference to P, and the difference times a factor to Q.
    update: fn(u8, &[u8], &mut [u8], &mut [u8]) -> usize,
}

/// All routines, the best first. The portable one is last and always available.
static ROUTINES: &[Routine] = &[
    #[cfg(target_arch = "x86_64")]
    routine!("avx512-gfni", x86::has_avx512, x86::avx512),
    #[cfg(target_arch = "x86_64")]
    routine!("avx2-gfni", x86::has_avx2_gfni, x86::avx2_gfni),
    #[cfg(target_arch = "x86_64")]
    routine!("avx2", x86::has_avx2, x86::avx2),
    #[cfg(target_arch = "x86_64")]
    routine!("ssse3", x86::has_ssse3, x86::ssse3),
    #[cfg(target_arch = "aarch64")]
    routine!("neon", || true, arm::neon),
    Routine {
        name: "portable",
        detect: || true,
        run: |_, _, _| 0,
        xor: |_, _| 0,
        update: |_, _, _, _| 0,
    },
];

impl Routine {
    /// Returns true if this processor supports the routine.
    pub fn available(&self) -> bool {
        (self.detect)()
    }

    pub(crate) fn run(&self, stripe: &Stripe, mut output: Output) {
        let len = checked_len(stripe, &output);
        let done = (self.run)(stripe, &mut output, len);
        portable::run(stripe, &mut output, done, len);
    }

    pub(crate) fn xor(&self, sources: &[&[u8]], out: &mut [u8]) {
        assert!(sources.iter().all(|s| s.len() == out.len()), "sources differ in length");
        let done = (self.xor)(sources, out);
        portable::xor(sources, out, done);
    }

    pub(crate) fn update(&self, c: u8, difference: &[u8], p: &mut [u8], q: &mut [u8]) {
        let len = difference.len();
        assert!(p.len() == len && q.len() == len, "P, Q and the difference differ in length");
        let done = (self.update)(c, difference, p, q);
        portable::update(c, difference, p, q, done);
    }
}

/// Returns the portable routine.
pub(crate) fn portable() -> &'static Routine {
    &ROUTINES[ROUTINES.len() - 1]
}

/// Returns all routines of this architecture, the best first, the portable one last.
#[inline]
pub fn routines() -> &'static [Routine] {
    ROUTINES
}
