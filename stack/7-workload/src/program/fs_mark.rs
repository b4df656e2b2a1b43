//! fs_mark: many small files in many directories, and the cost of a file with each way to sync.
//!
//! The procedure is that of fs_mark 3.3. There are one or more threads for each directory, each
//! with its own file names. A file is created, written, optionally synced, and closed. After the
//! files of an iteration there may be another sync; then the files are removed unless they are
//! kept. *Files/sec* is the sum over the threads of files divided by the thread's time. *App
//! Overhead* is the part of this time outside of system calls. Both definitions were found by
//! slowing down fs_mark's calls one after the other. If threads end at different times, the sum is
//! higher than the rate by wall time, so the wall time is reported too.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Driver;
use crate::driver::Space;
use crate::measure::phase::{Measured, parallel};
use crate::measure::usage::Usage;
use crate::random::Random;

/// Bytes of the time stamp in a name.
const STAMP: usize = 16;
/// Characters of the random part of names.
const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// When files are made durable: `-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// 0: never.
    Never,
    /// 1: each file before it is closed.
    InBand,
    /// 2: the filesystem once after all files, and then one file of each directory.
    Once,
    /// 3: each file is reopened and synced, in reverse order.
    PostReverse,
    /// 4: the filesystem, then as 3.
    SyncPostReverse,
    /// 5: each file is reopened and synced, in order.
    Post,
    /// 6: the filesystem, then as 5.
    SyncPost,
}

impl Sync {
    /// Returns the method with this number on the command line.
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

    /// Returns the description in the output's header.
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

/// The parameters, named after fs_mark's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-t`: threads; a multiple of the directories.
    pub threads: usize,
    /// `-D`: subdirectories of each directory; 0 for none.
    pub subdirs: usize,
    /// `-N`: files in a subdirectory before the next one is used. With 0 the subdirectory changes
    /// every 180 seconds.
    pub per_subdir: u64,
    /// `-n`: files per thread and iteration.
    pub files: u64,
    /// `-L`: iterations.
    pub loops: u64,
    /// `-F`: iterations until the filesystem is full.
    pub until_full: bool,
    /// `-s`: bytes of a file.
    pub size: u64,
    /// `-w`: bytes of a write.
    pub write_size: usize,
    /// `-p`: bytes of a name.
    pub name_len: usize,
    /// `-r`: random bytes at the end of the name.
    pub random_len: usize,
    /// `-k`: files are kept. fs_mark keeps them with `-L` and `-F`, too.
    pub keep: bool,
    /// `-S`: sync method.
    pub sync: Sync,
    /// Seed of the random bytes: the same seed gives the same names except for their time stamp.
    pub seed: u64,
    /// The time stamp in names, in seconds; `None` takes the time of each file's creation.
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

/// Seconds for which one subdirectory is used if they change with time.
const SUBDIR_SECONDS: u64 = 180;

/// The result of one iteration.
#[derive(Clone, Copy, Debug)]
pub struct Iteration {
    /// Space of the filesystem after the iteration.
    pub space: Space,
    /// Files so far, of all threads.
    pub count: u64,
    /// Bytes of each file.
    pub size: u64,
    /// Files of this iteration.
    pub files: u64,
    /// Files per second: the sum of the rates of the threads.
    pub rate: f64,
    /// Time outside of system calls, of all threads.
    pub overhead: Duration,
    /// Wall and processor time of the iteration, without the removal of its files.
    pub usage: Usage,
    /// Peak memory of this process in bytes.
    pub peak_memory: Option<u64>,
    /// The filesystem was full before all files were created.
    pub full: bool,
}

impl Iteration {
    /// Formats the line as fs_mark prints it.
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

/// Returns the column headings as fs_mark prints them.
pub fn columns() -> String {
    format!(
        "{:>6} {:>12} {:>12} {:>12} {:>16}",
        "FSUse%", "Count", "Size", "Files/sec", "App Overhead"
    )
}

/// Formats the lines above the table.
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

/// A run over some directories. The caller steps through the iterations.
#[derive(Debug)]
pub struct Run<'d, D: Driver> {
    driver: &'d D,
    options: Options,
    /// For each directory: itself, or its subdirectories.
    dirs: Vec<Vec<FileDir<D::Dir>>>,
    count: u64,
    iteration: u64,
}

/// A directory in which files are created.
#[derive(Debug)]
struct FileDir<T> {
    dir: T,
    /// The parent and the name of the directory, if it is created again before each file.
    remake: Option<(T, Vec<u8>)>,
}

impl<T> FileDir<T> {
    fn make_dir_again(&self, driver: &impl Driver<Dir = T>) -> io::Result<()> {
        let Some((parent, name)) = &self.remake else { return Ok(()) };
        unless_it_exists(driver.make_dir(parent, name))
    }
}

/// Returns the names of `count` subdirectories.
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

/// The result of one thread in an iteration.
#[derive(Debug, Default)]
struct ThreadResult {
    files: u64,
    /// From the first file until all are synced.
    took: Duration,
    in_calls: Duration,
    full: bool,
    made: Vec<(usize, Vec<u8>)>,
}

impl ThreadResult {
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn rate(&self) -> f64 {
        self.files as f64 / self.took.as_secs_f64()
    }

    fn overhead(&self) -> Duration {
        self.took.saturating_sub(self.in_calls)
    }
}

impl<'d, D: Driver> Run<'d, D> {
    /// Prepares a run over `dirs` and creates their subdirectories.
    ///
    /// # Errors
    /// If the options do not fit together, or directories cannot be created.
    pub fn new(driver: &'d D, dirs: Vec<D::Dir>, mut options: Options) -> io::Result<Self> {
        options.threads = options.threads.max(dirs.len());
        options.loops = if options.until_full { u64::MAX } else { options.loops };
        validate(&options, dirs.len())?;
        let below = |dir: D::Dir| {
            if options.subdirs == 0 {
                return Ok(vec![FileDir { dir, remake: None }]);
            }
            subdir_names(options.subdirs)
                .map(|name| {
                    unless_it_exists(driver.make_dir(&dir, &name))?;
                    Ok(FileDir { dir: driver.open_dir(&dir, &name)?, remake: None })
                })
                .collect()
        };
        let dirs = dirs.into_iter().map(below).collect::<io::Result<_>>()?;
        Ok(Self { driver, options, dirs, count: 0, iteration: 0 })
    }

    /// Calls mkdir on the directory before each file, as fs_mark 3.3 does. `names` are the names of
    /// the directories that were passed to [`Run::new`].
    ///
    /// # Errors
    /// If their parents cannot be opened.
    pub fn with_mkdir_per_file(mut self, names: &[Vec<u8>]) -> io::Result<Self> {
        for (file_dirs, name) in self.dirs.iter_mut().zip(names) {
            let below = subdir_names(self.options.subdirs);
            let own = std::iter::once(name.clone()).filter(|_| self.options.subdirs == 0);
            for (file_dir, name) in file_dirs.iter_mut().zip(own.chain(below)) {
                file_dir.remake = Some((self.driver.open_dir(&file_dir.dir, b"..")?, name));
            }
        }
        Ok(self)
    }

    /// Returns the subdirectory of file `n` of a thread.
    fn subdir(&self, n: u64) -> usize {
        let Options { subdirs, per_subdir, .. } = self.options;
        let turn = match (subdirs, per_subdir) {
            (0, _) => return 0,
            (_, 0) => seconds() / SUBDIR_SECONDS,
            (_, each) => n / each,
        };
        usize::try_from(turn % subdirs as u64).unwrap_or(0)
    }

    /// Performs the work of thread `thread` in this iteration.
    fn work(&self, thread: usize) -> io::Result<ThreadResult> {
        let Options { files, seed, .. } = self.options;
        let dirs = &self.dirs[thread % self.dirs.len()];
        let mut random = Random::stream(seed, (thread as u64) << 40 | self.iteration);
        let data = vec![b'x'; self.options.write_size];
        let mut result = ThreadResult::default();
        let begun = Instant::now();
        for n in 0..files {
            let at = self.subdir(self.iteration * files + n);
            let name = self.name(&mut random);
            dirs[at].make_dir_again(self.driver)?;
            let call = Instant::now();
            let made = self.file(&dirs[at].dir, &name, &data);
            result.in_calls += call.elapsed();
            match made {
                Err(err) if err.kind() == io::ErrorKind::StorageFull => {
                    result.full = true;
                    // The incomplete file is removed with the others.
                    result.made.push((at, name));
                    break;
                }
                made => made?,
            }
            result.files += 1;
            result.made.push((at, name));
        }
        result.in_calls += self.sync_after(dirs, &result.made)?;
        result.took = begun.elapsed();
        Ok(result)
    }

    fn name(&self, random: &mut Random) -> Vec<u8> {
        let Options { name_len, random_len, stamp, .. } = self.options;
        let mut name = format!("{:x}", stamp.unwrap_or_else(seconds)).into_bytes();
        name.resize(name_len - random_len, b'~');
        name.extend((0..random_len).map(|_| ALPHABET[random.index(ALPHABET.len())]));
        name
    }

    fn file(&self, dir: &D::Dir, name: &[u8], data: &[u8]) -> io::Result<()> {
        let Options { size, sync, .. } = self.options;
        if size == 0 && sync != Sync::InBand {
            return self.driver.create_empty(dir, name);
        }
        let file = self.driver.create(dir, name)?;
        let mut offset = 0;
        while offset < size {
            let length = usize::try_from(size - offset).map_or(data.len(), |n| n.min(data.len()));
            self.driver.write(&file, offset, &data[..length])?;
            offset += length as u64;
        }
        if sync == Sync::InBand {
            self.driver.fsync(&file)?;
        }
        self.driver.close(file)
    }

    /// Performs the sync after all files, and returns the time it took.
    fn sync_after(
        &self,
        dirs: &[FileDir<D::Dir>],
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

    /// Runs one iteration; returns `None` after the last.
    ///
    /// # Errors
    /// The errors of the filesystem, except "no space left" with `until_full`.
    pub fn next_iteration(&mut self) -> io::Result<Option<Iteration>> {
        if self.iteration == self.options.loops {
            return Ok(None);
        }
        let Measured { usage, peak_memory, outputs, .. } =
            parallel(self.options.threads, |thread| self.work(thread), || Ok(()))?;
        let full = outputs.iter().any(|result| result.full);
        if full && !self.options.until_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let files = outputs.iter().map(|result| result.files).sum();
        self.count += files;
        self.iteration = if full { self.options.loops } else { self.iteration + 1 };
        let space = self.driver.space()?;
        if !self.options.keep {
            self.remove(&outputs)?;
        }
        Ok(Some(Iteration {
            space,
            count: self.count,
            size: self.options.size,
            files,
            rate: outputs.iter().map(ThreadResult::rate).sum(),
            overhead: outputs.iter().map(ThreadResult::overhead).sum(),
            usage,
            peak_memory,
            full,
        }))
    }

    fn remove(&self, results: &[ThreadResult]) -> io::Result<()> {
        for (thread, result) in results.iter().enumerate() {
            let dirs = &self.dirs[thread % self.dirs.len()];
            for (at, name) in &result.made {
                match self.driver.unlink(&dirs[*at].dir, name) {
                    // The file that did not fit.
                    Err(err) if err.kind() == io::ErrorKind::NotFound && result.full => {}
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

/// Rejects options that do not fit together.
fn validate(options: &Options, dirs: usize) -> io::Result<()> {
    let Options { threads, subdirs, per_subdir, name_len, random_len, write_size, .. } = *options;
    let invalid = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if dirs == 0 {
        return invalid("no directory: set one with -d DIR".into());
    }
    if threads % dirs != 0 {
        return invalid(format!("{threads} threads are not a multiple of {dirs} directories"));
    }
    if per_subdir > 0 && subdirs < 2 {
        return invalid("-N needs at least two subdirectories: set their number with -D".into());
    }
    if write_size == 0 {
        return invalid("the size of a write (-w) must be at least one byte".into());
    }
    if random_len > name_len || name_len - random_len > 255 || name_len > 255 || name_len == 0 {
        return invalid(format!(
            "names of {name_len} bytes with {random_len} random bytes: the limit is 255, and the random bytes must fit"
        ));
    }
    if name_len - random_len > 0 && name_len - random_len < STAMP / 2 {
        return invalid(format!(
            "{} bytes are too few for a time stamp: it needs at least {}, or 0 for none",
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
    fn files_are_counted_and_kept_if_requested() {
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
    fn only_the_same_seed_gives_the_same_names() {
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
    fn every_sync_method_runs_and_files_are_removed_unless_kept() {
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
    fn invalid_options_are_refused_with_a_message() {
        let refused = |options| run(&Null, options).expect_err("refused").to_string();
        let odd = Options { per_subdir: 3, ..Options::default() };
        assert!(refused(odd).contains("-D"));
        let odd = Options { name_len: 20, random_len: 24, ..Options::default() };
        assert!(refused(odd).contains("20 bytes"));
    }

    #[test]
    fn the_null_driver_measures_the_overhead_of_the_harness() {
        let options = Options { files: 20_000, size: 0, sync: Sync::Never, ..Options::default() };
        let iteration = run(&Null, options).expect("a run")[0];
        assert_eq!(iteration.count, 20_000);
        assert!(iteration.overhead > Duration::ZERO);
    }
}
