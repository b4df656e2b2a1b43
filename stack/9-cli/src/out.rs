//! Standard output and standard error.
//!
//! Results go to standard output: text, or with `--json` one object per line. Faults (a damaged
//! file while the others still come out) and errors go to standard error, or with `--json` into the
//! stream of objects as `{"fault": …}` and `{"error": …}`. Notes always go to standard error.

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use xfskit::{Corruption, HealLog, Healed, SkippedCount, Volume};

use crate::exit::{ExitStatus, Failure};
use crate::grammar::OutputOptions;
use crate::quote::Style;
use crate::show::{self, Named};
use crate::standard::Stdout;

/// Exit code of a program that SIGPIPE ends, as shells show it.
const PIPE: i32 = 128 + 13;
/// Number of healed blocks of a volume that are reported one by one.
const HEALED_MAX: usize = 100;

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

/// The two streams of one run. Threads may print at the same time; lines are not mixed. The lock is
/// a leaf.
pub(crate) struct Out {
    options: OutputOptions,
    /// True if standard output is a terminal.
    terminal: bool,
    /// How names are written there.
    style: Style,
    /// The line of a file of commands that is being run.
    line: Option<u64>,
    inner: Mutex<Inner>,
    /// Logs of healed blocks, of all volumes that were open.
    heals: Mutex<Vec<HealLog>>,
}

struct Inner {
    stdout: BufWriter<Stdout>,
    faults: u64,
}

impl Out {
    /// Makes the streams for these options.
    pub(crate) fn new(options: OutputOptions) -> Self {
        let stdout = BufWriter::with_capacity(64 * 1024, Stdout);
        let terminal = io::stdout().is_terminal();
        let usual = if terminal { Style::ShellEscape } else { Style::Literal };
        let requested = if options.quote_name { Some(Style::C) } else { options.quoting_style };
        let style = requested.or_else(Style::of_environment).unwrap_or(usual);
        let inner = Mutex::new(Inner { stdout, faults: 0 });
        Self { options, terminal, style, line: None, inner, heals: Mutex::default() }
    }

    /// Makes errors name the line `line` of a file of commands.
    pub(crate) fn of_line(self, line: Option<u64>) -> Self {
        Self { line, ..self }
    }

    /// Returns the line of a file of commands that is being run.
    pub(crate) fn at_line(&self) -> Option<u64> {
        self.line
    }

    /// Returns the options.
    pub(crate) fn options(&self) -> OutputOptions {
        self.options
    }

    /// Returns true if standard output carries JSON.
    pub(crate) fn json(&self) -> bool {
        self.options.json
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    /// Returns true if only results and errors are printed.
    pub(crate) fn quiet(&self) -> bool {
        self.options.quiet
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.inner.lock().stdout.write_all(bytes).map_err(stdout_failed)
    }

    /// Quotes a name in the requested style.
    pub(crate) fn name(&self, name: &[u8]) -> Vec<u8> {
        self.style.quote(name, self.terminal)
    }

    /// Writes text and a newline.
    pub(crate) fn line(&self, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        let mut line = self.harmless(text.as_ref()).into_owned();
        line.push(b'\n');
        self.raw(&line)
    }

    /// Makes text safe for standard output: no byte of it controls a terminal.
    fn harmless<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if !self.terminal {
            return text.into();
        }
        show::harmless(&String::from_utf8_lossy(text)).into_bytes().into()
    }

    /// Writes one JSON object on a line of its own.
    pub(crate) fn object(&self, object: &impl Serialize) -> Result<(), Failure> {
        let mut line =
            serde_json::to_vec(object).map_err(|e| Failure::cannot(format!("JSON: {e}")))?;
        line.push(b'\n');
        self.raw(&line)
    }

    /// Writes the result of a command in the requested form.
    pub(crate) fn result<T: Serialize>(
        &self,
        result: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        if self.json() {
            return self.object(result);
        }
        self.raw(&self.harmless(text(result).as_bytes()))
    }

    /// Reports something that is damaged or cannot be read. The command continues, and ends with
    /// exit code 1.
    pub(crate) fn fault(&self, path: &[u8], error: &xfskit::Error) {
        self.fault_in(path, error.reason(), error.corruption(), None);
    }

    /// Reports a fault at the path that the error names.
    pub(crate) fn fault_at_its_path(&self, error: &xfskit::Error) {
        let path = error.path().map(|path| path.as_os_str().as_encoded_bytes());
        self.fault(path.unwrap_or_default(), error);
    }

    /// Reports a fault without a path. `corruption` is the failed check, if it is one.
    pub(crate) fn fault_at(
        &self,
        at: &str,
        error: &dyn std::error::Error,
        corruption: Option<&Corruption>,
    ) {
        self.fault_in(at.as_bytes(), error, corruption, None);
    }

    /// Reports a fault at `path`.
    pub(crate) fn fault_in(
        &self,
        path: &[u8],
        error: &dyn std::error::Error,
        corruption: Option<&Corruption>,
        hint: Option<&str>,
    ) {
        self.inner.lock().faults += 1;
        let (at, message) = (show::name(path), chain(error));
        let message = without_path(&message, &at);
        let message = without_path(message, &String::from_utf8_lossy(path)).to_owned();
        if self.json() {
            let path = Named("path", path);
            let fault = Fault { path, message, corruption, hint, line: self.line };
            // A closed pipe is noticed at the next result.
            let _ = self.object(&json!({ "fault": fault }));
        } else {
            let hint = hint.map(|hint| format!("\n  {hint}")).unwrap_or_default();
            self.complain(&format!("{at}: {message}{hint}"));
        }
    }

    /// Reports what a copy left out. What not every such copy leaves out leads to exit code 1, and
    /// is no mere note.
    pub(crate) fn skipped(&self, skipped: &[SkippedCount]) {
        for SkippedCount { what, count, usual } in skipped {
            let times = if *count == 1 { "time" } else { "times" };
            let text = format!("not copied: {what}, {count} {times}");
            if *usual {
                self.note(&text);
            } else {
                self.inner.lock().faults += 1;
                self.complain(&text);
            }
        }
    }

    /// Prints something worth knowing that does not change the exit code.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet() {
            self.complain(&format!("note: {text}"));
        }
    }

    /// Reports the blocks that heal on this volume at the end.
    pub(crate) fn watch(&self, volume: &Volume) {
        self.heals.lock().push(volume.heal_log());
    }

    /// Reports the blocks that healed, which does not change the exit code.
    pub(crate) fn report_healed(&self) -> Result<(), Failure> {
        let heals = std::mem::take(&mut *self.heals.lock());
        for heals in heals {
            for healed in heals.list().iter().take(HEALED_MAX) {
                if self.json() {
                    let Healed { corruption, rewritten } = healed;
                    self.object(&json!({ "healed": corruption, "rewritten": rewritten }))?;
                } else {
                    self.note(&healed.to_string());
                }
            }
            if let Some(more @ 1..) = heals.count().checked_sub(HEALED_MAX as u64) {
                self.note(&format!("and {more} more blocks that healed"));
            }
        }
        Ok(())
    }

    /// Returns the number of faults.
    pub(crate) fn faults(&self) -> u64 {
        self.inner.lock().faults
    }

    /// Returns the exit status of the run: success unless there were faults.
    pub(crate) fn status(&self) -> ExitStatus {
        ExitStatus::of(self.faults() == 0)
    }

    /// Reports the failure that ended the run.
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

    /// Flushes standard output, and ignores a closed pipe.
    pub(crate) fn flush_quietly(&self) {
        let _ = self.inner.lock().stdout.flush();
    }

    /// Flushes standard output.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.inner.lock().stdout.flush().map_err(stdout_failed)
    }

    /// Writes a line to standard error, after everything on standard output before it.
    fn complain(&self, text: &str) {
        let mut inner = self.inner.lock();
        let _ = inner.stdout.flush();
        let line = self.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let _ = writeln!(io::stderr().lock(), "xfskit: {line}{}", show::harmless(text));
    }

    /// Returns a writer to standard output.
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

    /// Returns standard output itself, for a stream that is not lines.
    pub(crate) fn stream(&self) -> Result<Stdout, Failure> {
        self.flush()?;
        Ok(Stdout)
    }
}

/// Formats an error and its causes in one line.
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

/// Returns the error of the system behind `error`.
pub(crate) fn io_cause(error: &xfskit::Error) -> Option<&io::Error> {
    let mut causes = std::iter::successors(Some(error.reason()), |error| error.source());
    causes.find_map(|error| error.downcast_ref())
}

/// Returns a message about `path` without the path, which the caller prints.
pub(crate) fn without_path<'m>(message: &'m str, path: &str) -> &'m str {
    message.strip_prefix(path).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
}

/// Returns the failure of writing standard output. If its reader has closed the pipe (`| head`),
/// the program ends as by SIGPIPE, because the output is not complete.
pub(crate) fn stdout_failed(error: io::Error) -> Failure {
    let failure = Failure::cannot(format!("standard output: {error}"));
    match error.kind() {
        ErrorKind::BrokenPipe => std::process::exit(PIPE),
        ErrorKind::StorageFull => failure.hint("Free some space on the side that receives it."),
        _ => failure,
    }
}
