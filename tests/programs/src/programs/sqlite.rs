//! SQLite: a database whose writer is killed, or whose disk is: the process that serves the mount.
//!
//! The writer prints the number of each transaction that has been committed. After a kill, the
//! database must be sound and hold all of these.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use xfskit_test_support::Random;

use crate::stage::{Ran, Stage, Stop, installed};
use crate::volume::Volume;

/// Time for a verification.
const BOUND: Duration = Duration::from_mins(5);
/// Longest life of a writer, in milliseconds.
const LIFE: u64 = 1500;

/// Kinds of journals, with what makes a commit durable: a rollback journal that is removed is gone
/// for certain only when its directory is synced, too.
const JOURNALS: [(&str, &str); 4] =
    [("wal", "full"), ("delete", "extra"), ("truncate", "full"), ("persist", "full")];

/// Writes, kills and verifies.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("sqlite3")?;
    let mut volume = stage.volume(2)?;
    let mut random = stage.random();
    let (mut transactions, mut kills) = (0, 0);
    for (journal, synchronous) in JOURNALS {
        let setup = format!("PRAGMA journal_mode={journal}; PRAGMA synchronous={synchronous};");
        let database = volume.path().join(format!("{journal}.db"));
        make(&mut volume, &database, &setup)?;
        let mut last = 0;
        for round in 0..stage.amount {
            let is_disk = round % 2 == 1;
            let committed =
                write_and_kill(&mut volume, &database, &setup, last, is_disk, &mut random)?;
            kills += 1;
            last = verify(&mut volume, &database, committed)
                .map_err(|why| format!("{journal}, kill {round} (disk: {is_disk}): {why}"))?;
        }
        transactions += last;
    }
    volume.end()?;
    Ok(format!("{transactions} transactions, {kills} kills"))
}

fn make(volume: &mut Volume<'_>, database: &Path, setup: &str) -> Result<(), Stop> {
    let mut sqlite = installed("sqlite3")?;
    let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, pad BLOB);
        CREATE INDEX i ON t(n, pad);";
    volume.succeed(sqlite.arg(database).arg(format!("{setup} {table}")), BOUND)?;
    Ok(())
}

/// Lets a writer work for a while, then kills it or the disk. Returns the number of the last
/// transaction that it reported.
fn write_and_kill(
    volume: &mut Volume<'_>,
    database: &Path,
    setup: &str,
    last: u64,
    is_disk: bool,
    random: &mut Random,
) -> Result<u64, Stop> {
    let mut sqlite: Command = installed("sqlite3")?;
    sqlite.args(["-batch", "-bail"]).arg(database);
    sqlite.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = sqlite.spawn()?;
    let mut statements = child.stdin.take().ok_or("no pipe")?;
    let replies = BufReader::new(child.stdout.take().ok_or("no pipe")?);
    statements.write_all(format!(".timeout 20000\n{setup}\n").as_bytes())?;
    let mut pieces = random.fork();
    let writer = std::thread::spawn(move || transactions(&mut statements, last, &mut pieces));
    let reader = std::thread::spawn(move || {
        let lines = replies.lines().map_while(Result::ok);
        let numbers = lines.filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
        numbers.last()
    });
    std::thread::sleep(Duration::from_millis(200 + random.below(LIFE)));
    if is_disk {
        volume.crash();
    }
    child.kill()?;
    child.wait()?;
    writer.join().map_err(|_| "the writer's thread panicked")?;
    let done = reader.join().map_err(|_| "the reader's thread panicked")?;
    if is_disk {
        volume.kill()?;
        volume.mount()?;
    }
    Ok(done.unwrap_or(last))
}

/// Writes transactions until the program is gone.
fn transactions(statements: &mut ChildStdin, last: u64, random: &mut Random) {
    for id in last + 1.. {
        let (n, pad) = (random.below(1000_u32), 1 + random.below(3000_u32));
        let other = random.below(id);
        let text = format!(
            "BEGIN IMMEDIATE; INSERT INTO t VALUES({id}, {n}, randomblob({pad}));
             UPDATE t SET n = n + 1, pad = randomblob({pad}) WHERE id = {other};
             COMMIT; SELECT 'done {id}';\n"
        );
        if statements.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Verifies the database. Returns the number of its last transaction.
fn verify(volume: &mut Volume<'_>, database: &Path, committed: u64) -> Result<u64, Stop> {
    let mut sqlite = installed("sqlite3")?;
    let questions = "PRAGMA integrity_check; SELECT count(*) || ' ' || ifnull(max(id), 0) FROM t;";
    let replies = volume.succeed(sqlite.arg(database).arg(questions), BOUND)?;
    let (sound, counts) = replies.trim().split_once('\n').ok_or(replies.as_str())?;
    let (count, last) = counts.split_once(' ').ok_or(replies.as_str())?;
    if sound != "ok" || count != last {
        return Err(replies.into());
    }
    let last = last.parse().map_err(|_| replies.as_str())?;
    if last < committed {
        return Err(format!("transaction {committed} was committed, {last} is the last one").into());
    }
    Ok(last)
}
