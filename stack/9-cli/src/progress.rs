//! Progress of everything that takes longer than a second: a bar on a terminal, a plain line every
//! few seconds elsewhere, nothing with `--quiet` or `--json`.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::out::Out;
use crate::show::human;

/// Time before the first progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Seconds between plain lines.
const LINE_EVERY: u64 = 5;

/// What a job counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Bytes, printed with a suffix: `1.46 GiB`.
    Bytes,
    /// Files, blocks, …: their name in the plural.
    Count(&'static str),
}

impl Unit {
    /// Returns the number without its unit, or a size.
    fn amount(self, n: u64) -> String {
        match self {
            Self::Bytes => human(n),
            Self::Count(_) => HumanCount(n).to_string(),
        }
    }

    /// Returns what is printed behind the number: nothing behind a size.
    fn name(self) -> String {
        match self {
            Self::Bytes => String::new(),
            Self::Count(name) => format!(" {name}"),
        }
    }

    /// Returns a rate: whole units, and one digit more below ten.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, below 2^63
    fn rate(self, per_second: f64) -> String {
        match self {
            Self::Count(_) if per_second < 9.95 => format!("{per_second:.1}/s"),
            _ => format!("{}/s", self.amount(per_second.round() as u64)),
        }
    }
}

/// Progress of one job.
pub(crate) struct Progress {
    job: &'static str,
    unit: Unit,
    begun: Instant,
    done: AtomicU64,
    total: AtomicU64,
    last_line: AtomicU64,
    form: Form,
}

enum Form {
    Silent,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// Begins a job that counts `unit`.
    pub(crate) fn new(out: &Out, job: &'static str, unit: Unit) -> Self {
        let form = if out.quiet() || out.json() {
            Form::Silent
        } else if std::io::stderr().is_terminal() {
            Form::Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()))
        } else {
            Form::Lines
        };
        let zero = || AtomicU64::new(0);
        let begun = Instant::now();
        Self { job, unit, begun, done: zero(), total: zero(), last_line: zero(), form }
    }

    /// Begins a job that prints its results as it goes. On a terminal no other progress is shown.
    pub(crate) fn beside_output(out: &Out, job: &'static str, unit: Unit) -> Self {
        let mut progress = Self::new(out, job, unit);
        if out.terminal() {
            progress.form = Form::Silent;
        }
        progress
    }

    /// Runs `print` without the bar on the screen.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.form {
            Form::Bar(bar) => bar.suspend(print),
            Form::Silent | Form::Lines => print(),
        }
    }

    /// Sets the units done, of `total` (0: not known).
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.show();
    }

    /// Adds `n` units.
    pub(crate) fn add(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
        self.show();
    }

    /// Adds `n` units, of `total`.
    pub(crate) fn add_of(&self, n: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.add(n);
    }

    /// Ends the job and removes the bar.
    pub(crate) fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }

    fn show(&self) {
        let elapsed = self.begun.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        match &self.form {
            Form::Silent => {}
            Form::Lines => self.line(elapsed.as_secs(), done, total),
            Form::Bar(bar) => {
                if bar.is_hidden() {
                    bar.set_style(self.style(total));
                    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
                }
                if total > 0 {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
        }
    }

    /// Prints one plain line, at most once per period.
    fn line(&self, seconds: u64, done: u64, total: u64) {
        let period = seconds / LINE_EVERY + 1;
        if self.last_line.fetch_max(period, Ordering::Relaxed) >= period {
            return;
        }
        let (job, name, amount) = (self.job, self.unit.name(), self.unit.amount(done));
        if total == 0 {
            eprintln!("{job}: {amount}{name}");
        } else {
            let (all, left) = (self.unit.amount(total), left(seconds, done, total));
            eprintln!("{job}: {amount} of {all}{name}{left}");
        }
    }

    fn style(&self, total: u64) -> ProgressStyle {
        let (job, unit, name) = (self.job, self.unit, self.unit.name());
        let template = if total > 0 {
            format!("{job} [{{bar:40}}] {{done}}/{{all}}{name} {{rate}} {{eta}}")
        } else {
            format!("{job} {{spinner}} {{done}}{name} {{rate}}")
        };
        let write = |text: &mut dyn Write, number: String| {
            // A bar without one of its numbers is no loss.
            let _ = text.write_str(&number);
        };
        ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("done", move |state: &ProgressState, text: &mut dyn Write| {
                write(text, unit.amount(state.pos()));
            })
            .with_key("all", move |state: &ProgressState, text: &mut dyn Write| {
                write(text, unit.amount(state.len().unwrap_or_default()));
            })
            .with_key("rate", move |state: &ProgressState, text: &mut dyn Write| {
                write(text, unit.rate(state.per_sec()));
            })
    }
}

/// Returns the estimated time that is left, as words behind a line; none before anything is done.
fn left(seconds: u64, done: u64, total: u64) -> String {
    let left = u128::from(seconds) * u128::from(total.saturating_sub(done));
    match left.checked_div(done.into()) {
        Some(left) => format!(", about {left} s left"),
        None => String::new(),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::{Unit, left};

    #[test]
    fn the_time_left_is_estimated_by_the_rate_so_far() {
        assert_eq!(left(10, 25, 100), ", about 30 s left");
        assert_eq!(left(10, 100, 100), ", about 0 s left");
        assert_eq!(left(10, 0, 100), "");
        assert_eq!(left(u64::MAX, 1, u64::MAX).len(), ", about  s left".len() + 39);
    }

    #[test]
    fn amounts_and_rates_are_for_people() {
        let files = Unit::Count("files");
        assert_eq!(files.rate(119_312.120_5), "119,312/s");
        assert_eq!((files.rate(0.26), files.rate(9.96)), ("0.3/s".into(), "10/s".into()));
        assert_eq!(Unit::Bytes.rate(159_907_840.4), "152.5 MiB/s");
        assert_eq!(Unit::Bytes.amount(1 << 30) + &Unit::Bytes.name(), "1 GiB");
        assert_eq!(files.amount(54_000) + &files.name(), "54,000 files");
    }
}
