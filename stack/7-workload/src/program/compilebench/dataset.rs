//! Source trees of kernel developers: clean, compiled, patched. They are generated from a seed
//! after the figures of the trees that compilebench ships: sizes, names and directories follow
//! their quantiles.

use crate::random::Random;

/// Files of a clean tree, as published.
pub const FILES: usize = 21_280;
/// Files that compiling adds for each [`FILES`].
const COMPILED: usize = 3_263;
/// Files that compiling adds to a patched tree.
const PATCHED_COMPILED: usize = 3_340;
/// Files that a patch creates.
const NEW: usize = 610;
/// Files that a patch changes.
const CHANGED: usize = 5_526;

/// Pairs of a fraction and the size that it does not exceed. Between two pairs the logarithm is
/// interpolated linearly.
type Quantiles = &'static [(f64, f64)];

/// Bytes of a source file; the mean is 10.9 kB.
const SOURCE: Quantiles = &[
    (0.0, 20.0),
    (0.1, 390.0),
    (0.5, 4_055.0),
    (0.9, 26_112.0),
    (0.99, 65_000.0),
    (0.999, 250_000.0),
    (1.0, 873_603.0),
];
/// Bytes of a non-empty object file; the mean of all object files is 217 kB.
const OBJECT: Quantiles = &[
    (0.3, 1_000.0),
    (0.5, 14_800.0),
    (0.9, 198_000.0),
    (0.99, 2_800_000.0),
    (0.999, 15_000_000.0),
    (1.0, 64_000_000.0),
];
/// Fraction of empty object files.
const EMPTY: f64 = 0.3;
/// Files of a directory.
const PER_DIR: Quantiles = &[(0.0, 1.0), (0.5, 8.0), (0.9, 38.0), (0.99, 90.0), (1.0, 745.0)];
/// Bytes of a name.
const NAME: Quantiles = &[(0.0, 2.0), (0.5, 9.0), (0.9, 15.0), (1.0, 35.0)];
/// Cumulative fraction of directories by depth: one to seven.
const DEPTHS: [f64; 7] = [0.02, 0.13, 0.52, 0.87, 0.96, 0.99, 1.0];

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^53, and not negative
fn quantile_at(quantiles: Quantiles, share: f64) -> u64 {
    let above =
        quantiles.iter().position(|(q, _)| *q >= share).unwrap_or(quantiles.len() - 1).max(1);
    let ((q0, x0), (q1, x1)) = (quantiles[above - 1], quantiles[above]);
    let within = ((share - q0) / (q1 - q0)).clamp(0.0, 1.0);
    (x0.ln() + (x1 / x0).ln() * within).exp().round() as u64
}

fn draw(quantiles: Quantiles, random: &mut Random) -> u64 {
    quantile_at(quantiles, random.fraction())
}

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Index of its directory in [`Dataset::dirs`].
    pub dir: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// Bytes.
    pub size: u64,
}

/// A directory of a tree; the first is the tree itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    /// Index of its parent directory.
    pub parent: usize,
    /// Its name.
    pub name: Vec<u8>,
    depth: usize,
}

/// Lists of files for the states of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Directories, each after its parent.
    pub dirs: Vec<Dir>,
    /// Files of a clean tree.
    pub clean: Vec<File>,
    /// Files that compiling adds.
    pub compiled: Vec<File>,
    /// Files that a patch creates or changes, with the new sizes.
    pub patched: Vec<File>,
    /// Files that compiling a patched tree adds.
    pub patched_compiled: Vec<File>,
}

/// Returns the sum of the file sizes.
pub fn bytes(files: &[File]) -> u64 {
    files.iter().map(|file| file.size).sum()
}

impl Dataset {
    /// Generates the dataset of `seed` with `files` files in a clean tree, and the other lists in
    /// proportion.
    pub fn new(files: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let share = |of: usize| (files * of).div_ceil(FILES);
        let mut dirs = vec![Dir { parent: 0, name: Vec::new(), depth: 0 }];
        let mut clean = Vec::with_capacity(files);
        while clean.len() < files {
            let dir = grow(&mut dirs, &mut random);
            let here = draw(PER_DIR, &mut random).min((files - clean.len()) as u64);
            for n in 0..here {
                let size = draw(SOURCE, &mut random);
                clean.push(File { dir, name: name(n, b".c", &mut random), size });
            }
        }
        let objects = |count, suffix: &[u8], random: &mut Random| -> Vec<File> {
            #[allow(clippy::cast_precision_loss)] // of a share
            let object = |n| {
                // A few large objects hold most of the bytes. Each object is therefore drawn from
                // its own part of the distribution.
                let full = (n as f64 + random.fraction()) / count as f64;
                let size = if full < EMPTY { 0 } else { quantile_at(OBJECT, full) };
                let dir = clean[random.index(clean.len())].dir;
                File { dir, name: name(n as u64, suffix, random), size }
            };
            (0..count).map(object).collect()
        };
        let compiled = objects(share(COMPILED), b".o", &mut random);
        let patched_compiled = objects(share(PATCHED_COMPILED), b".ko", &mut random);
        let patched = patch(&clean, share(CHANGED), share(NEW), &mut random);
        let mut all = Self { dirs, clean, compiled, patched, patched_compiled };
        random.shuffle(&mut all.compiled);
        all
    }
}

/// Adds a directory.
fn grow(dirs: &mut Vec<Dir>, random: &mut Random) -> usize {
    let share = random.fraction();
    let depth = DEPTHS.iter().position(|below| share <= *below).unwrap_or(0);
    // Pick a directory of that depth, or the deepest one above it.
    let above = (0..=depth).rev().find_map(|depth| {
        let there: Vec<usize> = (0..dirs.len()).filter(|&n| dirs[n].depth == depth).collect();
        (!there.is_empty()).then(|| there[random.index(there.len())])
    });
    let parent = above.unwrap_or(0);
    let name = name(dirs.len() as u64, b"", random);
    dirs.push(Dir { parent, name, depth: dirs[parent].depth + 1 });
    dirs.len() - 1
}

/// Selects the source files that a patch changes, larger ones more often, and adds the files that
/// it creates.
fn patch(clean: &[File], changed: usize, new: usize, random: &mut Random) -> Vec<File> {
    let mut order: Vec<usize> = (0..clean.len()).collect();
    random.shuffle(&mut order);
    let picked = |n: &usize| {
        let chance = if clean[*n].size > 4_055 { 0.45 } else { 0.07 };
        Random::stream(n.wrapping_mul(31) as u64, clean[*n].size).fraction() < chance
    };
    let (first, rest): (Vec<usize>, Vec<usize>) = order.into_iter().partition(picked);
    let mut patched: Vec<File> = first
        .into_iter()
        .chain(rest)
        .take(changed)
        .map(|n| {
            let by = 0.8 + random.fraction() * 0.5;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss
            )]
            let size = (clean[n].size as f64 * by) as u64 + 1; // less than 2^53, not negative
            File { size, ..clean[n].clone() }
        })
        .collect();
    patched.extend((0..new).map(|n| {
        let dir = clean[random.index(clean.len())].dir;
        File { dir, name: name(n as u64, b".new.c", random), size: draw(SOURCE, random) }
    }));
    random.shuffle(&mut patched);
    patched
}

/// Generates a name that contains `n` and is therefore unique among names with this suffix in the
/// directory.
fn name(mut n: u64, suffix: &[u8], random: &mut Random) -> Vec<u8> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let wanted = usize::try_from(draw(NAME, random)).unwrap_or(0);
    let mut number = Vec::new();
    while n > 0 || number.is_empty() {
        number.push(DIGITS[usize::try_from(n % 36).unwrap_or(0)]);
        n /= 36;
    }
    let letters = wanted.saturating_sub(number.len() + suffix.len() + 1);
    let mut name: Vec<u8> = (0..letters).map(|_| DIGITS[10 + random.index(26)]).collect();
    // The separator ends the letters before the number.
    if !name.is_empty() {
        name.push(b'_');
    }
    name.extend(number);
    name.extend(suffix);
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn trees_have_the_published_size_and_shape() {
        let set = Dataset::new(FILES, 555);
        let near = |bytes: u64, published: u64| bytes.abs_diff(published) * 100 / published < 15;
        assert_eq!((set.clean.len(), set.compiled.len()), (21_280, 3_263));
        assert_eq!(set.patched.len(), 6_136);
        assert!(near(bytes(&set.clean), 233_000_000), "{}", bytes(&set.clean));
        assert!(near(bytes(&set.compiled), 714_000_000), "{}", bytes(&set.compiled));
        assert!(near(bytes(&set.patched), 115_000_000), "{}", bytes(&set.patched));
        assert!((1_000..1_500).contains(&set.dirs.len()), "{}", set.dirs.len());
        let mut sizes: Vec<u64> = set.clean.iter().map(|file| file.size).collect();
        sizes.sort_unstable();
        assert!(sizes[FILES / 2].abs_diff(4_055) < 200, "{}", sizes[FILES / 2]);
        assert!(set.dirs.iter().all(|dir| dir.depth <= 7));
    }

    #[test]
    fn file_names_are_unique() {
        let set = Dataset::new(3_000, 1);
        let lists = [&set.clean, &set.compiled, &set.patched_compiled];
        let all: BTreeSet<_> = lists
            .iter()
            .flat_map(|files| files.iter())
            .map(|file| (file.dir, &file.name))
            .collect();
        assert_eq!(all.len(), lists.iter().map(|files| files.len()).sum::<usize>());
    }

    #[test]
    fn a_seed_gives_one_dataset() {
        assert_eq!(Dataset::new(500, 3), Dataset::new(500, 3));
        assert_ne!(Dataset::new(500, 3), Dataset::new(500, 4));
    }
}
