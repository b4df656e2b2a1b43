//! Actions on the array below a mount, which the process of the mount runs.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use xfskit::{CancelToken, Mounted};

use super::protocol::{Client, Reply, Request, send};
use super::snapshot;
use crate::command::action::{Job, Runner};
use crate::command::console::{Console, Shown, Step};
use crate::command::open;
use crate::exit::{ExitStatus, Failure};
use crate::out::Out;

/// Time between reports of progress.
const REPORT: Duration = Duration::from_millis(200);

/// Has the process that serves the mount on `target` run `job`. Returns `None` if `target` is no
/// directory of a mount by xfskit.
pub(crate) fn run_on_array(
    target: &str,
    job: &Job,
    out: &Out,
) -> Result<Option<ExitStatus>, Failure> {
    let Some(entry) = snapshot::entry(target)? else { return Ok(None) };
    let mut client = Client::ask(&entry, Request::Array(job.clone()))?;
    let shown = Shown::new(out);
    loop {
        match client.reply()? {
            Reply::Note(text) => shown.note(&text),
            Reply::Result { json, text } => shown.result(&json, &text)?,
            Reply::Progress { step, done, total } => shown.progress(step, done, total),
            Reply::Done => return Ok(Some(ExitStatus::Success)),
            Reply::Problem => return Ok(Some(ExitStatus::Problem)),
            _ => return Err(client.unexpected()),
        }
    }
}

/// Runs `job` for `client`.
pub(super) fn run(
    mounted: &Mounted,
    client: &UnixStream,
    job: &Job,
    runner: Runner,
) -> std::io::Result<()> {
    let console =
        Remote { client, token: CancelToken::new(), reported: Mutex::new(Instant::now()) };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| console.watch());
        let outcome = match mounted.volume().array() {
            Ok(Some(mut array)) => runner(job, &mut array, &console),
            Ok(None) => Err(no_array()),
            Err(error) => Err(open::failure(&error)),
        };
        // The thread that watches ends.
        let _ = client.shutdown(Shutdown::Read);
        outcome
    });
    send(
        client,
        &match outcome {
            Ok(ExitStatus::Success) => Reply::Done,
            Ok(ExitStatus::Problem) => Reply::Problem,
            Err(failure) => Reply::Failed(failure.into()),
        },
    )
}

fn no_array() -> Failure {
    Failure::cannot("the mounted volume is not open for writing on an array with superblocks")
        .hint("Name an array by its members: md:MEMBER,MEMBER,…")
}

/// The console of a client. When it is gone, the action stops.
struct Remote<'c> {
    client: &'c UnixStream,
    token: CancelToken,
    reported: Mutex<Instant>,
}

impl Remote<'_> {
    /// Stops the action when the client is gone, or the socket is shut down.
    fn watch(&self) {
        let mut client = self.client;
        while matches!(client.read(&mut [0]), Ok(1..)) {}
        self.token.cancel();
    }

    fn send(&self, reply: &Reply) {
        if send(self.client, reply).is_err() {
            self.token.cancel();
        }
    }
}

impl Console for Remote<'_> {
    fn note(&self, text: &str) {
        self.send(&Reply::Note(text.to_owned()));
    }

    fn result(&self, json: &Value, text: &str) -> Result<(), Failure> {
        self.send(&Reply::Result { json: json.clone(), text: text.to_owned() });
        Ok(())
    }

    fn progress(&self, step: Step, done: u64, total: u64) {
        let mut reported = self.reported.lock();
        if reported.elapsed() >= REPORT {
            *reported = Instant::now();
            self.send(&Reply::Progress { step, done, total });
        }
    }

    fn token(&self) -> &CancelToken {
        &self.token
    }
}
