//! fs_mark: many small files in many directories, and what a file costs with each way to sync.
//!
//! As fs_mark 3.3 does it: one thread for each directory (or several), each with its own names; a file is
//! created, written, perhaps synced, closed; after the files of an iteration they may be synced again, and are
//! removed unless they are kept. *Files/sec* is what each thread made in the time it took, added up, and *App
//! Overhead* is what of this time was not in calls (seen by making fs_mark's own calls slow, one after the
//! other). When threads end at different times the sum says more than the wall does, so that is reported too.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Driver;
use crate::driver::Space;
use crate::measure::phase::{Measured, parallel};
use crate::measure::usage::Usage;
use crate::random::Random;

/// Bytes of a name that tell the time.
const STAMP: usize = 16;
/// What random bytes of names are.
const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// When files are made durable: `-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// 0: never.
    Never,
    /// 1: each before it is closed.
    InBand,
    /// 2: the filesystem once after all files, and one file of each directory.
    Once,
    /// 3: each opened again and synced, the last first.
    PostReverse,
    /// 4: the filesystem, then as 3.
    SyncPostReverse,
    /// 5: each opened again and synced, in order.
    Post,
    /// 6: the filesystem, then as 5.
    SyncPost,
}

impl Sync {
    /// By its number on the command line.
    pub fn from_number(number: u8) -> Option<Self> {
        [
            Self::Never,
            Self::InBand,
            Self::Once,
            Self::PostReverse,
            Self::SyncPostReverse,
            Self::Post,
            Self::SyncPost,
        ]
        .get(usize::from(number))
        .copied()
    }

    /// As the head of the output names it.
    fn title(self) -> &'static str {
        match self {
            Self::Never => "NO SYNC: no sync() or fsync() is called.",
            Self::InBand => "INBAND FSYNC: fsync() per file before it is closed.",
            Self::Once => {
                "SYSTEM SYNC/SINGLE FSYNC: sync() after all files, then fsync() of one per directory."
            }
            Self::PostReverse => {
                "POST REVERSE: all files opened again and fsync()ed, the last first."
            }
            Self::SyncPostReverse => "SYNC POST REVERSE: sync(), then as POST REVERSE.",
            Self::Post => "POST: all files opened again and fsync()ed, in order.",
            Self::SyncPost => "SYNC POST: sync(), then as POST.",
        }
    }

    fn syncs_all(self) -> bool {
        matches!(self, Self::Once | Self::SyncPostReverse | Self::SyncPost)
    }
}

/// What is to be done, in the words of fs_mark's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-t`: threads; a multiple of the directories.
    pub threads: usize,
    /// `-D`: directories below each; 0 is none.
    pub subdirs: usize,
    /// `-N`: files in one of these before the next is taken; 0: they change with time, every 180 seconds.
    pub per_subdir: u64,
    /// `-n`: files of a thread in an iteration.
    pub files: u64,
    /// `-L`: iterations.
    pub loops: u64,
    /// `-F`: iterations until nothing more fits.
    pub until_full: bool,
    /// `-s`: bytes in a file.
    pub size: u64,
    /// `-w`: bytes in a write.
    pub write_size: usize,
    /// `-p`: bytes in a name.
    pub name_len: usize,
    /// `-r`: random ones among them, at its end.
    pub random_len: usize,
    /// `-k`: files stay. fs_mark keeps them with `-L` and `-F`, too.
    pub keep: bool,
    /// `-S`.
    pub sync: Sync,
    /// Where the random bytes begin: the same seed makes the same names but for their time stamp.
    pub seed: u64,
    /// The time stamp in names, in seconds; `None` is that of each file.
    pub stamp: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            subdirs: 0,
            per_subdir: 0,
            files: 1000,
            loops: 1,
            until_full: false,
            size: 51_200,
            write_size: 16_384,
            name_len: 40,
            random_len: 24,
            keep: false,
            sync: Sync::InBand,
            seed: 0,
            stamp: None,
        }
    }
}

/// Seconds for which one subdirectory is used when they change with time.
const SUBDIR_SECONDS: u64 = 180;

/// What one iteration did.
#[derive(Clone, Copy, Debug)]
pub struct Iteration {
    /// The filesystem afterwards.
    pub space: Space,
    /// Files so far, of all threads.
    pub count: u64,
    /// Bytes in each.
    pub size: u64,
    /// Files of this iteration.
    pub files: u64,
    /// Files in a second: of each thread in the time that it took, added up.
    pub rate: f64,
    /// Time outside of calls, of all threads.
    pub overhead: Duration,
    /// Wall and processor time of the iteration, without the removal of its files.
    pub usage: Usage,
    /// Memory of this process at most, in bytes.
    pub peak_memory: Option<u64>,
    /// The filesystem was full before all files were there.
    pub full: bool,
}

impl Iteration {
    /// As fs_mark prints it.
    pub fn line(&self) -> String {
        format!(
            "{:>6} {:>12} {:>12} {:>12.1} {:>16}",
            self.space.used_percent(),
            self.count,
            self.size,
            self.rate,
            self.overhead.as_micros()
        )
    }
}

/// The names of the columns, as fs_mark prints them.
pub fn columns() -> String {
    format!(
        "{:>6} {:>12} {:>12} {:>12} {:>16}",
        "FSUse%", "Count", "Size", "Files/sec", "App Overhead"
    )
}

/// The lines above the table.
pub fn head(options: &Options, command: &str, time: &str) -> String {
    let Options {
        threads, subdirs, per_subdir, name_len, random_len, size, write_size, sync, ..
    } = options;
    let directories = match (subdirs, per_subdir) {
        (0, _) => "no subdirectories used".to_owned(),
        (n, 0) => {
            format!("by time among {n} subdirectories, {SUBDIR_SECONDS} seconds per subdirectory.")
        }
        (n, each) => {
            format!("Round Robin between {n} subdirectories, {each} files per subdirectory.")
        }
    };
    let mut head = format!("\n#  {command}\n");
    let _ = writeln!(
        head,
        "#\txfskit {}, {threads} thread(s) starting at {time}\n\
         #\tSync method: {}\n\
         #\tDirectories:  {directories}\n\
         #\tFile names: {name_len} bytes long, ({} initial bytes of time stamp with {random_len} random bytes \
         at end of name)\n\
         #\tFiles info: size {size} bytes, written with an IO size of {write_size} bytes per write\n\
         #\tApp overhead is time in microseconds spent outside of file system calls.\n",
        env!("CARGO_PKG_VERSION"),
        sync.title(),
        name_len - random_len,
    );
    head
}

/// A run over some directories. Iterations are told one at a time.
#[derive(Debug)]
pub struct Run<'d, D: Driver> {
    driver: &'d D,
    options: Options,
    /// For each directory: itself, or those below it.
    dirs: Vec<Vec<Place<D::Dir>>>,
    count: u64,
    iteration: u64,
}

/// A directory that files go to.
#[derive(Debug)]
struct Place<T> {
    dir: T,
    /// What is made before each file, though it is there: its parent, and its name in it.
    again: Option<(T, Vec<u8>)>,
}

impl<T> Place<T> {
    fn make_again(&self, driver: &impl Driver<Dir = T>) -> io::Result<()> {
        let Some((parent, name)) = &self.again else { return Ok(()) };
        unless_it_exists(driver.make_dir(parent, name))
    }
}

/// What so many directories below another are called.
fn subdir_names(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let digits = count.saturating_sub(1).to_string().len().max(2);
    (0..count).map(move |n| format!("{n:0digits$}").into_bytes())
}

fn unless_it_exists(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// What a thread did in an iteration.
#[derive(Debug, Default)]
struct Share {
    files: u64,
    /// From the first file until all are synced.
    took: Duration,
    in_calls: Duration,
    full: bool,
    made: Vec<(usize, Vec<u8>)>,
}

impl Share {
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn rate(&self) -> f64 {
        self.files as f64 / self.took.as_secs_f64()
    }

    fn overhead(&self) -> Duration {
        self.took.saturating_sub(self.in_calls)
    }
}

impl<'d, D: Driver> Run<'d, D> {
    /// Prepares a run over `dirs`: the directories below them are made.
    ///
    /// # Errors
    /// Where options do not fit together, or directories cannot be made.
    pub fn new(driver: &'d D, dirs: Vec<D::Dir>, mut options: Options) -> io::Result<Self> {
        options.threads = options.threads.max(dirs.len());
        options.loops = if options.until_full { u64::MAX } else { options.loops };
        judge(&options, dirs.len())?;
        let below = |dir: D::Dir| {
            if options.subdirs == 0 {
                return Ok(vec![Place { dir, again: None }]);
            }
            subdir_names(options.subdirs)
                .map(|name| {
                    unless_it_exists(driver.make_dir(&dir, &name))?;
                    Ok(Place { dir: driver.open_dir(&dir, &name)?, again: None })
                })
                .collect()
        };
        let dirs = dirs.into_iter().map(below).collect::<io::Result<_>>()?;
        Ok(Self { driver, options, dirs, count: 0, iteration: 0 })
    }

    /// Before each file its directory is made once more, as fs_mark 3.3 does it. The directories that the run was given
    /// are called `names`.
    ///
    /// # Errors
    /// Where their parents cannot be opened.
    pub fn making_directories(mut self, names: &[Vec<u8>]) -> io::Result<Self> {
        for (places, name) in self.dirs.iter_mut().zip(names) {
            let below = subdir_names(self.options.subdirs);
            let own = std::iter::once(name.clone()).filter(|_| self.options.subdirs == 0);
            for (place, name) in places.iter_mut().zip(own.chain(below)) {
                place.again = Some((self.driver.open_dir(&place.dir, b"..")?, name));
            }
        }
        Ok(self)
    }

    /// The directory of file `n` of a thread.
    fn subdir(&self, n: u64) -> usize {
        let Options { subdirs, per_subdir, .. } = self.options;
        let turn = match (subdirs, per_subdir) {
            (0, _) => return 0,
            (_, 0) => seconds() / SUBDIR_SECONDS,
            (_, each) => n / each,
        };
        usize::try_from(turn % subdirs as u64).unwrap_or(0)
    }

    /// The work of thread `thread` in this iteration.
    fn work(&self, thread: usize) -> io::Result<Share> {
        let Options { files, seed, .. } = self.options;
        let dirs = &self.dirs[thread % self.dirs.len()];
        let mut random = Random::of(seed, (thread as u64) << 40 | self.iteration);
        let content = vec![b'x'; self.options.write_size];
        let mut share = Share::default();
        let begun = Instant::now();
        for n in 0..files {
            let at = self.subdir(self.iteration * files + n);
            let name = self.name(&mut random);
            dirs[at].make_again(self.driver)?;
            let call = Instant::now();
            let made = self.file(&dirs[at].dir, &name, &content);
            share.in_calls += call.elapsed();
            match made {
                Err(err) if err.kind() == io::ErrorKind::StorageFull => {
                    share.full = true;
                    // What there is of the file goes with the others.
                    share.made.push((at, name));
                    break;
                }
                made => made?,
            }
            share.files += 1;
            share.made.push((at, name));
        }
        share.in_calls += self.sync_after(dirs, &share.made)?;
        share.took = begun.elapsed();
        Ok(share)
    }

    fn name(&self, random: &mut Random) -> Vec<u8> {
        let Options { name_len, random_len, stamp, .. } = self.options;
        let mut name = format!("{:x}", stamp.unwrap_or_else(seconds)).into_bytes();
        name.resize(name_len - random_len, b'~');
        name.extend((0..random_len).map(|_| ALPHABET[random.index(ALPHABET.len())]));
        name
    }

    fn file(&self, dir: &D::Dir, name: &[u8], content: &[u8]) -> io::Result<()> {
        let Options { size, sync, .. } = self.options;
        if size == 0 && sync != Sync::InBand {
            return self.driver.create_empty(dir, name);
        }
        let file = self.driver.create(dir, name)?;
        let mut offset = 0;
        while offset < size {
            let length =
                usize::try_from(size - offset).map_or(content.len(), |n| n.min(content.len()));
            self.driver.write(&file, offset, &content[..length])?;
            offset += length as u64;
        }
        if sync == Sync::InBand {
            self.driver.fsync(&file)?;
        }
        self.driver.close(file)
    }

    /// What is synced when all files are there; answers the time it took.
    fn sync_after(
        &self,
        dirs: &[Place<D::Dir>],
        made: &[(usize, Vec<u8>)],
    ) -> io::Result<Duration> {
        let start = Instant::now();
        if self.options.sync.syncs_all() {
            self.driver.sync()?;
        }
        let fsync = |(at, name): &(usize, Vec<u8>)| {
            let file = self.driver.open(&dirs[*at].dir, name)?;
            self.driver.fsync(&file)?;
            self.driver.close(file)
        };
        match self.options.sync {
            Sync::Never | Sync::InBand => {}
            Sync::Once => {
                for at in 0..dirs.len() {
                    made.iter().rfind(|(dir, _)| *dir == at).map_or(Ok(()), fsync)?;
                }
            }
            Sync::Post | Sync::SyncPost => made.iter().try_for_each(fsync)?,
            Sync::PostReverse | Sync::SyncPostReverse => made.iter().rev().try_for_each(fsync)?,
        }
        Ok(start.elapsed())
    }

    /// One iteration; `None` after the last.
    ///
    /// # Errors
    /// Those of the filesystem, but for "no space left" with `until_full`.
    pub fn next_iteration(&mut self) -> io::Result<Option<Iteration>> {
        if self.iteration == self.options.loops {
            return Ok(None);
        }
        let Measured { usage, peak_memory, answers } =
            parallel(self.options.threads, |thread| self.work(thread), || Ok(()))?;
        let full = answers.iter().any(|share| share.full);
        if full && !self.options.until_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let files = answers.iter().map(|share| share.files).sum();
        self.count += files;
        self.iteration = if full { self.options.loops } else { self.iteration + 1 };
        let space = self.driver.space()?;
        if !self.options.keep {
            self.remove(&answers)?;
        }
        Ok(Some(Iteration {
            space,
            count: self.count,
            size: self.options.size,
            files,
            rate: answers.iter().map(Share::rate).sum(),
            overhead: answers.iter().map(Share::overhead).sum(),
            usage,
            peak_memory,
            full,
        }))
    }

    fn remove(&self, shares: &[Share]) -> io::Result<()> {
        for (thread, share) in shares.iter().enumerate() {
            let dirs = &self.dirs[thread % self.dirs.len()];
            for (at, name) in &share.made {
                match self.driver.unlink(&dirs[*at].dir, name) {
                    // The one that did not fit any more.
                    Err(err) if err.kind() == io::ErrorKind::NotFound && share.full => {}
                    removed => removed?,
                }
            }
        }
        Ok(())
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Refuses what makes no sense, in words.
fn judge(options: &Options, dirs: usize) -> io::Result<()> {
    let Options { threads, subdirs, per_subdir, name_len, random_len, write_size, .. } = *options;
    let no = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if dirs == 0 {
        return no("say with -d DIR where the files go".into());
    }
    if threads % dirs != 0 {
        return no(format!("{threads} threads over {dirs} directories: take a multiple"));
    }
    if per_subdir > 0 && subdirs < 2 {
        return no("-N divides files among subdirectories: say with -D how many there are".into());
    }
    if write_size == 0 {
        return no("a write (-w) has at least one byte".into());
    }
    if random_len > name_len || name_len - random_len > 255 || name_len > 255 || name_len == 0 {
        return no(format!(
            "names of {name_len} bytes with {random_len} random ones: at most 255, and so many"
        ));
    }
    if name_len - random_len > 0 && name_len - random_len < STAMP / 2 {
        return no(format!(
            "{} bytes are too few for a time stamp: at least {}, or none",
            name_len - random_len,
            STAMP / 2
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::mounted::Mounted;
    use crate::driver::null::Null;

    fn run(driver: &impl Driver, options: Options) -> io::Result<Vec<Iteration>> {
        let mut run = Run::new(driver, vec![driver.root()?], options)?;
        let mut iterations = Vec::new();
        while let Some(iteration) = run.next_iteration()? {
            iterations.push(iteration);
        }
        Ok(iterations)
    }

    fn names(dir: &std::path::Path) -> Vec<String> {
        let names = std::fs::read_dir(dir).expect("a directory");
        let mut names: Vec<_> = names
            .map(|name| name.expect("a name").file_name().into_string().expect("ASCII"))
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn files_are_counted_and_kept_when_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        let options = Options { files: 10, loops: 2, size: 5000, keep: true, ..Options::default() };
        let iterations = run(&driver, options).expect("a run");
        assert_eq!(iterations.iter().map(|i| i.count).collect::<Vec<_>>(), [10, 20]);
        let names = names(dir.path());
        assert_eq!(names.len(), 20);
        assert!(
            names.iter().all(|name| name.len() == 40 && name[8..16] == *"~~~~~~~~"),
            "{names:?}"
        );
        assert_eq!(std::fs::metadata(dir.path().join(&names[0])).expect("a file").len(), 5000);
    }

    #[test]
    fn the_same_seed_makes_the_same_names_and_another_other_ones() {
        let made = |seed| {
            let dir = tempfile::tempdir().expect("a directory");
            let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
            let (stamp, sync) = (Some(1), Sync::Never);
            let options = Options {
                files: 5,
                size: 0,
                keep: true,
                threads: 2,
                seed,
                stamp,
                sync,
                ..Options::default()
            };
            run(&driver, options).expect("a run");
            names(dir.path())
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn every_sync_method_runs_and_files_go_unless_kept() {
        for number in 0..=6 {
            let dir = tempfile::tempdir().expect("a directory");
            let driver = Mounted::new(dir.path(), "here", "a file").expect("open");
            let sync = Sync::from_number(number).expect("a method");
            let options = Options {
                files: 6,
                size: 10,
                sync,
                subdirs: 3,
                per_subdir: 2,
                ..Options::default()
            };
            run(&driver, options).expect("a run");
            assert_eq!(names(dir.path()), ["00", "01", "02"]);
            assert!(names(&dir.path().join("01")).is_empty());
        }
        assert_eq!(Sync::from_number(7), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let refused = |options| run(&Null, options).expect_err("refused").to_string();
        let odd = Options { per_subdir: 3, ..Options::default() };
        assert!(refused(odd).contains("-D"));
        let odd = Options { name_len: 20, random_len: 24, ..Options::default() };
        assert!(refused(odd).contains("20 bytes"));
    }

    #[test]
    fn the_harness_alone_costs_little_and_says_how_much() {
        let options = Options { files: 20_000, size: 0, sync: Sync::Never, ..Options::default() };
        let iteration = run(&Null, options).expect("a run")[0];
        assert_eq!(iteration.count, 20_000);
        assert!(iteration.overhead > Duration::ZERO);
    }
}
