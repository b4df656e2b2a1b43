//! What goes to standard output and standard error.
//!
//! Results go to standard output: text, or with `--json` one object per line. Faults (a damaged
//! file while the rest still comes out) and errors go to standard error, or with `--json` into the
//! same stream of objects as `{"fault": …}` and `{"error": …}`. Notes go to standard error always.

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::json;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::copy::SkippedCount;
use xfskit::raw::core::{Healed, Heals};
use xfskit::raw::format::Corruption;
use xfskit::raw::vfs;

use crate::exit::{Answer, Failure};
use crate::grammar::Voice;
use crate::quote::Style;
use crate::show::{self, Named};
use crate::standard::Stdout;

/// Exit code of a program that SIGPIPE ends, as shells show it.
const PIPE: i32 = 128 + 13;
/// Blocks that healed that are told one by one, of a volume.
const HEALED_SHOWN: usize = 100;

/// Something that is damaged or cannot be done, for JSON.
#[derive(Serialize)]
struct Fault<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    message: String,
    corruption: Option<&'a Corruption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// The two streams of one run. Many threads may speak; a line is never torn. The lock is a leaf.
pub(crate) struct Out {
    voice: Voice,
    /// Standard output is one.
    terminal: bool,
    /// How names are written there.
    style: Style,
    /// The line of a file of commands that is being carried out.
    line: Option<u64>,
    inner: Mutex<Inner>,
    /// Where blocks that healed are counted, of all volumes that were open.
    heals: Mutex<Vec<Arc<Heals>>>,
}

struct Inner {
    stdout: BufWriter<Stdout>,
    faults: u64,
}

impl Out {
    /// Speaks as `voice` says.
    pub(crate) fn new(voice: Voice) -> Self {
        let stdout = BufWriter::with_capacity(64 * 1024, Stdout);
        let terminal = io::stdout().is_terminal();
        let usual = if terminal { Style::ShellEscape } else { Style::Literal };
        let asked = if voice.quote_name { Some(Style::C) } else { voice.quoting_style };
        let style = asked.or_else(Style::of_environment).unwrap_or(usual);
        let inner = Mutex::new(Inner { stdout, faults: 0 });
        Self { voice, terminal, style, line: None, inner, heals: Mutex::default() }
    }

    /// The same, for line `line` of a file of commands: errors name it.
    pub(crate) fn of_line(self, line: Option<u64>) -> Self {
        Self { line, ..self }
    }

    /// The line of a file of commands that is being carried out.
    pub(crate) fn at_line(&self) -> Option<u64> {
        self.line
    }

    /// How it speaks.
    pub(crate) fn voice(&self) -> Voice {
        self.voice
    }

    /// True where standard output carries JSON.
    pub(crate) fn json(&self) -> bool {
        self.voice.json
    }

    /// True where standard output is a terminal.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    /// True where only answers and errors are wanted.
    pub(crate) fn quiet(&self) -> bool {
        self.voice.quiet
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.lock().stdout.write_all(bytes).map_err(stdout_failed)
    }

    /// A name for a line of text, in the style that was asked for.
    pub(crate) fn name(&self, name: &[u8]) -> Vec<u8> {
        self.style.quote(name, self.terminal)
    }

    /// Text and a newline.
    pub(crate) fn line(&self, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        let mut line = self.harmless(text.as_ref()).into_owned();
        line.push(b'\n');
        self.raw(&line)
    }

    /// Text as it may go where standard output goes: nothing of it moves a terminal's cursor.
    fn harmless<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if !self.terminal {
            return text.into();
        }
        show::harmless(&String::from_utf8_lossy(text)).into_bytes().into()
    }

    /// One JSON object on a line of its own.
    pub(crate) fn object(&self, object: &impl Serialize) -> Result<(), Failure> {
        let mut line =
            serde_json::to_vec(object).map_err(|e| Failure::cannot(format!("JSON: {e}")))?;
        line.push(b'\n');
        self.raw(&line)
    }

    /// The answer in the form that was asked for.
    pub(crate) fn answer<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        if self.json() {
            return self.object(answer);
        }
        self.raw(&self.harmless(text(answer).as_bytes()))
    }

    /// Something is damaged or cannot be read; the rest goes on, and the answer becomes no.
    pub(crate) fn fault(&self, path: &[u8], error: &vfs::Error) {
        self.fault_in(path, error, error.corruption(), None);
    }

    /// The same, with what to do next.
    pub(crate) fn fault_with_hint(&self, path: &[u8], error: &vfs::Error, hint: &str) {
        self.fault_in(path, error, error.corruption(), Some(hint));
    }

    /// The same for what has no path; `corruption` is the failed check, where it is one.
    pub(crate) fn fault_at(
        &self,
        at: &str,
        error: &dyn std::error::Error,
        corruption: Option<&Corruption>,
    ) {
        self.fault_in(at.as_bytes(), error, corruption, None);
    }

    /// Something is wrong at `path`.
    pub(crate) fn fault_in(
        &self,
        path: &[u8],
        error: &dyn std::error::Error,
        corruption: Option<&Corruption>,
        hint: Option<&str>,
    ) {
        self.lock().faults += 1;
        let (at, message) = (show::name(path), chain(error));
        let message = without_path(&message, &at);
        let message = without_path(message, &String::from_utf8_lossy(path)).to_owned();
        if self.json() {
            let path = Named("path", path);
            let fault = Fault { path, message, corruption, hint, line: self.line };
            // A reader that has gone away is noticed at the next answer.
            let _ = self.object(&json!({ "fault": fault }));
        } else {
            let hint = hint.map(|hint| format!("\n  {hint}")).unwrap_or_default();
            self.complain(&format!("{at}: {message}{hint}"));
        }
    }

    /// What a copy left out: beyond what every such copy leaves out, the answer becomes no.
    pub(crate) fn skipped(&self, skipped: &[SkippedCount]) {
        for SkippedCount { what, count, usual } in skipped {
            let times = if *count == 1 { "time" } else { "times" };
            self.note(&format!("not copied: {what}, {count} {times}"));
            self.lock().faults += u64::from(!usual);
        }
    }

    /// Something worth knowing that does not change the answer.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet() {
            self.complain(&format!("note: {text}"));
        }
    }

    /// What heals on this volume is told at the end.
    pub(crate) fn watch(&self, volume: &Volume) {
        let heals = Arc::clone(volume.fs().volume().cache().heals());
        self.heals.lock().unwrap_or_else(PoisonError::into_inner).push(heals);
    }

    /// Tells what healed: it does not change the answer.
    pub(crate) fn tell_healed(&self) -> Result<(), Failure> {
        let heals = std::mem::take(&mut *self.heals.lock().unwrap_or_else(PoisonError::into_inner));
        for heals in heals {
            for healed in heals.list().iter().take(HEALED_SHOWN) {
                if self.json() {
                    let Healed { corruption, rewritten } = healed;
                    self.object(&json!({ "healed": corruption, "rewritten": rewritten }))?;
                } else {
                    self.note(&healed.to_string());
                }
            }
            if let Some(more @ 1..) = heals.count().checked_sub(HEALED_SHOWN as u64) {
                self.note(&format!("and {more} more blocks that healed"));
            }
        }
        Ok(())
    }

    /// How many faults there were.
    pub(crate) fn faults(&self) -> u64 {
        self.lock().faults
    }

    /// Yes, unless there were faults.
    pub(crate) fn verdict(&self) -> Answer {
        Answer::of(self.faults() == 0)
    }

    /// The run failed: the last words.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json() {
            let mut error =
                json!({ "message": failure.message, "hint": failure.hint, "exit": failure.exit });
            if let Some(line) = self.line {
                error["line"] = line.into();
            }
            let _ = self.object(&json!({ "error": error }));
        } else {
            self.complain(&failure.to_string());
        }
    }

    /// Everything said so far is out, where there is still a reader for it.
    pub(crate) fn flush_quietly(&self) {
        let _ = self.lock().stdout.flush();
    }

    /// Everything said so far is out.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.lock().stdout.flush().map_err(stdout_failed)
    }

    /// A line on standard error, after what was answered before it.
    fn complain(&self, text: &str) {
        let mut inner = self.lock();
        let _ = inner.stdout.flush();
        let line = self.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let _ = writeln!(io::stderr().lock(), "xfskit: {line}{}", show::harmless(text));
    }

    /// Standard output, for those who print by themselves.
    pub(crate) fn writer(&self) -> impl Write + '_ {
        struct Writer<'a>(&'a Out);
        impl Write for Writer<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.raw(bytes).map_err(|failure| io::Error::other(failure.message))?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        Writer(self)
    }

    /// Standard output itself, for a stream that is not lines.
    pub(crate) fn stream(&self) -> Result<Stdout, Failure> {
        self.flush()?;
        Ok(Stdout)
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// What a message about `path` says of it: the path itself is said by others.
pub(crate) fn without_path<'m>(message: &'m str, path: &str) -> &'m str {
    message.strip_prefix(path).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
}

/// Standard output cannot be written. Where its reader had enough (`| head`) nothing is left to
/// say, but the answer was not complete: the program ends as those do that SIGPIPE ends.
pub(crate) fn stdout_failed(error: io::Error) -> Failure {
    let failure = Failure::cannot(format!("standard output: {error}"));
    match error.kind() {
        ErrorKind::BrokenPipe => std::process::exit(PIPE),
        ErrorKind::StorageFull => failure.hint("Free some space on the side that receives it."),
        _ => failure,
    }
}
