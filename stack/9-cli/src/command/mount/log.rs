//! The log of the process that serves a mount: what the library reports by `tracing`, a line each.
//!
//! | process | log |
//! | --- | --- |
//! | with `--log FILE` | that file, a line added for each message |
//! | in the foreground | standard error: warnings and errors |
//! | in the background | the system's log: `/dev/log`, in the form of syslog(3) (RFC 3164) |
//!
//! Storms are cut off: of errors, and of all other messages, some lines in ten seconds are written,
//! and then the number of those that were left out. So the first cause is never missing. A log that
//! cannot be written is given up: requests do not wait for it.

use std::fmt::{Debug, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::{Timestamp, Zoned};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::exit::Failure;
use crate::grammar::mount::Mount;
use crate::show;

/// The socket of the system's log.
const SYSTEM: &str = "/dev/log";
/// Lines of a period at most, and its time.
const PERIOD: Duration = Duration::from_secs(10);
const PERIOD_LINES: u32 = 20;
/// Bytes of a message at most: a datagram of syslog(3) has 8 KiB at most.
const MESSAGE_MAX: usize = 4000;
/// The facility of daemons (RFC 3164), in the bits where it stands.
const FACILITY: u8 = 3 << 3;

/// Where the lines go.
#[derive(Debug)]
enum Sink {
    Stderr,
    File(File),
    System { socket: UnixDatagram, path: PathBuf },
}

/// The log of one process.
#[derive(Debug)]
struct Log {
    sink: Sink,
    /// The target of the mount.
    name: String,
    level: LevelFilter,
    errors: Mutex<Lines>,
    others: Mutex<Lines>,
}

/// How many lines were written lately.
#[derive(Debug)]
struct Lines {
    since: Instant,
    written: u32,
    left_out: u64,
}

/// Begins the log of this process, which serves a mount as `args` say.
pub(super) fn begin(args: &Mount) -> Result<(), Failure> {
    let sink = sink(args)?;
    let level = match sink {
        Sink::Stderr => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    };
    let log = Log::new(sink, args.name.to_string(), level);
    tracing::subscriber::set_global_default(log)
        .map_err(|error| Failure::cannot(format!("the log: {error}")))?;
    // A request that panics fails, and the process goes on.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}

/// Writes why the process ends, where standard error does not show it.
pub(super) fn failed(args: &Mount, failure: &Failure) {
    if args.detach || args.log.is_some() {
        tracing::error!("{}", failure.message);
    }
}

fn sink(args: &Mount) -> Result<Sink, Failure> {
    if let Some(path) = &args.log {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let cannot = |error| Failure::cannot(format!("--log {}: {error}", path.display()));
        return Ok(Sink::File(file.map_err(cannot)?));
    }
    if !args.detach {
        return Ok(Sink::Stderr);
    }
    system(SYSTEM.into()).map_err(|error| Failure::cannot(format!("{SYSTEM}: {error}")))
}

/// Returns the log of the system behind the socket `path`. A missing one is no error: it may come.
fn system(path: PathBuf) -> std::io::Result<Sink> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(Sink::System { socket, path })
}

impl Log {
    fn new(sink: Sink, name: String, level: LevelFilter) -> Self {
        let lines = || Mutex::new(Lines { since: Instant::now(), written: 0, left_out: 0 });
        Self { sink, name, level, errors: lines(), others: lines() }
    }

    /// Writes a message, unless there were too many.
    fn message(&self, level: Level, text: &str) {
        let lines = if level == Level::ERROR { &self.errors } else { &self.others };
        let Some(left_out) = lines.lock().take(Instant::now()) else { return };
        if left_out > 0 {
            self.write(level, &format!("{left_out} more messages were left out"));
        }
        self.write(level, text);
    }

    /// Writes one line. There is nowhere to report a failure to.
    fn write(&self, level: Level, text: &str) {
        let text = show::harmless(text).replace('\n', " ");
        let fits = (0..=MESSAGE_MAX.min(text.len())).rfind(|&end| text.is_char_boundary(end));
        let text = &text[..fits.unwrap_or(0)];
        let (word, severity) = named(level);
        let (name, id) = (&self.name, std::process::id());
        match &self.sink {
            Sink::Stderr => {
                let _ = writeln!(std::io::stderr(), "xfskit: {word}: {name}: {text}");
            }
            Sink::File(file) => {
                let line = format!("{:.3} xfskit[{id}] {word}: {name}: {text}\n", Timestamp::now());
                let _ = (&*file).write_all(line.as_bytes());
            }
            Sink::System { socket, path } => {
                let priority = FACILITY | severity;
                let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
                let line = format!("<{priority}>{time} xfskit[{id}]: {name}: {text}");
                let _ = socket.send_to(line.as_bytes(), path);
            }
        }
    }
}

impl Lines {
    /// Takes a line. Returns the number of those that were left out before it, or `None` if this
    /// one is left out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= PERIOD {
            (self.since, self.written) = (now, 0);
        }
        if self.written == PERIOD_LINES {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Returns the word for a level, and its severity in the system's log.
fn named(level: Level) -> (&'static str, u8) {
    match level {
        Level::ERROR => ("error", 3),
        Level::WARN => ("warning", 4),
        Level::INFO => ("info", 6),
        _ => ("debug", 7),
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    // The library has no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.message(*event.metadata().level(), &text.whole());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The text of an event: its message, and its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        self.message + &self.fields
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(sink: Sink, events: impl FnOnce()) {
        let log = Log::new(sink, "a.img".into(), LevelFilter::INFO);
        tracing::subscriber::with_default(log, events);
    }

    #[test]
    fn the_system_gets_a_message_in_the_form_of_syslog() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        logged(system(path).unwrap(), || {
            tracing::debug!("not for the log");
            tracing::error!(error = "no\nsuch \u{1b}disk", count = 3, "a read failed");
        });
        let mut bytes = [0; 1000];
        let len = daemon.recv(&mut bytes).unwrap();
        let line = std::str::from_utf8(&bytes[..len]).unwrap();
        // Facility 3, severity 3; then `Mmm dd hh:mm:ss`, 15 characters.
        let rest = line.strip_prefix("<27>").unwrap();
        assert_eq!(rest[6..15].matches(':').count(), 2, "{rest}");
        let (_, said) = rest.split_at(15);
        let (head, said) = said.split_once("]: ").unwrap();
        assert_eq!(head, format!(" xfskit[{}", std::process::id()));
        assert!(said.starts_with("a.img: a read failed; error: no"), "{said}");
        assert!(said.ends_with("; count: 3") && !said.contains(['\n', '\u{1b}']), "{said}");
    }

    #[test]
    fn a_log_that_is_missing_or_full_holds_nothing_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        logged(system(path.clone()).unwrap(), || tracing::error!("nobody listens"));
        let _daemon = UnixDatagram::bind(&path).unwrap();
        let log = Log::new(system(path).unwrap(), "a.img".into(), LevelFilter::INFO);
        for _ in 0..10_000 {
            log.write(Level::ERROR, "nobody reads");
        }
    }

    #[test]
    fn a_storm_is_cut_off_and_counted_and_errors_have_lines_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log::new(
            Sink::File(File::create_new(&path).unwrap()),
            "a.img".into(),
            LevelFilter::INFO,
        );
        for n in 0..1000 {
            log.message(Level::WARN, &format!("warning {n}"));
        }
        log.message(Level::ERROR, "the first cause");
        let lines = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines().lines().count(), 21);
        assert!(lines().ends_with(" error: a.img: the first cause\n"), "{}", lines());
        let later = Instant::now() + PERIOD;
        assert_eq!(log.others.lock().take(later), Some(980));
        assert_eq!(log.others.lock().take(later), Some(0));
    }
}
