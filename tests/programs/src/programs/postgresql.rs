//! PostgreSQL: pgbench on a server that is killed, and whose disk is.
//!
//! After each kill the server recovers. The sums of accounts, tellers, branches and history must be
//! equal, and each transaction that was reported as committed must be in the history. At the end
//! `pg_amcheck` compares tables with indexes, and `pg_checksums` reads every page.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::Running;
use crate::stage::{Ran, Stage, Stop};
use crate::volume::Volume;

/// Time for one command, and for a recovery.
const BOUND: Duration = Duration::from_mins(15);
/// Kills, and those of a long run.
const KILLS: u64 = 4;
const KILLS_LONG: u64 = 16;
/// Branches of the bank; each has 100,000 accounts.
const SCALE: &str = "10";
const PORT: &str = "54329";

/// Settings of the server: little memory and frequent checkpoints, so that it uses its files.
const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "shared_buffers=32MB",
    "max_wal_size=64MB",
    "min_wal_size=32MB",
    "checkpoint_timeout=30s",
    "checkpoint_flush_after=256kB",
    "autovacuum_naptime=5s",
];

/// The installation, and the account that it runs as.
struct Server<'v> {
    programs: PathBuf,
    user: (u32, u32),
    data: PathBuf,
    /// Directory of its socket, outside of the mount.
    socket: PathBuf,
    stage: &'v Stage,
}

/// Runs the bank.
pub(super) fn run(stage: &Stage) -> Ran {
    let missing = |what: &str| Stop::Skipped(format!("{what} (Debian package postgresql)"));
    let programs = installation().ok_or_else(|| missing("no server is installed"))?;
    let user = account("postgres").ok_or_else(|| missing("there is no user postgres"))?;
    let mut volume = stage.volume(6)?;
    let (data, socket) = (volume.path().join("data"), stage.file("socket"));
    for dir in [&data, &socket] {
        fs::create_dir(dir)?;
        std::os::unix::fs::chown(dir, Some(user.0), Some(user.1))?;
    }
    let server = Server { programs, user, data, socket, stage };
    let mut init = server.program("initdb");
    init.args(["--data-checksums", "--locale=C", "--encoding=UTF8", "-D"]).arg(&server.data);
    volume.succeed(&mut init, BOUND)?;
    let mut running = server.start(&mut volume)?;
    let mut fill = server.client("pgbench");
    volume.succeed(fill.args(["-i", "-q", "-s", SCALE, "postgres"]), BOUND)?;
    let kills = if stage.is_long { KILLS_LONG } else { KILLS };
    let mut transactions = 0;
    for kill in 0..kills {
        let is_disk = kill % 2 == 1;
        let before = server.verify(&mut volume)?;
        let bench = Running::start(
            server.client("pgbench").args(["-n", "-c", "6", "-j", "2", "-T", "3600", "postgres"]),
        )?;
        std::thread::sleep(stage.seconds());
        if is_disk {
            volume.crash();
        }
        server.kill(&mut running);
        let ended = bench.wait(BOUND, &stage.log)?;
        let committed = processed(&ended.text).ok_or_else(|| ended.describe())?;
        if is_disk {
            volume.kill()?;
            volume.mount()?;
        }
        running = server.start(&mut volume)?;
        let found = server.verify(&mut volume)?;
        if found < before + committed {
            let what = format!("kill {kill} (disk: {is_disk})");
            return Err(format!(
                "{what}: {before} and {committed} transactions were committed, {found} are there"
            )
            .into());
        }
        transactions = found;
    }
    let mut compare = server.client("pg_amcheck");
    compare.args(["--all", "--install-missing", "--heapallindexed", "--rootdescend"]);
    compare.arg("--parent-check");
    volume.succeed(&mut compare, BOUND)?;
    stop(&mut volume, running)?;
    let mut pages = server.program("pg_checksums");
    volume.succeed(pages.arg("--check").arg("-D").arg(&server.data), BOUND)?;
    volume.end()?;
    Ok(format!("{transactions} transactions, {kills} kills"))
}

/// Returns the directory of the newest installed server's programs.
fn installation() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|dir| dir.join("initdb").is_file()).max()
}

/// Returns the numbers of a user and of its group.
fn account(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = fields.filter(|fields| fields.len() > 3).find(|fields| fields[0] == name)?;
    Some((fields[2].parse().ok()?, fields[3].parse().ok()?))
}

/// Returns the number of transactions that pgbench reported.
fn processed(text: &str) -> Option<u64> {
    let (_, number) = text.split_once("transactions actually processed: ")?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

impl Server<'_> {
    /// Returns a command for one of its programs, as its user.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.uid(self.user.0).gid(self.user.1).current_dir(&self.socket);
        command.env("LC_ALL", "C").env("HOME", &self.socket);
        command
    }

    /// Returns a command that connects to the server.
    fn client(&self, name: &str) -> Command {
        let mut command = self.program(name);
        command.arg("-h").arg(&self.socket).args(["-p", PORT]);
        command
    }

    /// Starts the server, and waits until it has recovered.
    fn start(&self, volume: &mut Volume<'_>) -> Result<Running, Stop> {
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.socket).args(["-p", PORT]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let running = Running::start(&mut command)?;
        let begun = Instant::now();
        while volume.run(&mut self.client("pg_isready"), BOUND)?.code != Some(0) {
            if begun.elapsed() > BOUND || !is_alive(running.pid()) {
                return Err(format!("the server does not start:\n{}", running.text()).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(running)
    }

    /// Kills all processes of the server.
    fn kill(&self, running: &mut Running) {
        let children = children(running.pid());
        running.kill();
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        self.stage.log.line(&format!("the server is killed:\n{}", running.text()));
    }

    /// Verifies the bank. Returns the number of transactions in its history.
    fn verify(&self, volume: &mut Volume<'_>) -> Result<u64, Stop> {
        let mut ask = self.client("psql");
        ask.args(["-A", "-t", "-q", "-d", "postgres", "-c"]);
        ask.arg(
            "SELECT (SELECT count(*) FROM pgbench_history),
                    (SELECT sum(abalance) FROM pgbench_accounts),
                    (SELECT sum(tbalance) FROM pgbench_tellers),
                    (SELECT sum(bbalance) FROM pgbench_branches),
                    (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        );
        let reply = volume.succeed(&mut ask, BOUND)?;
        let numbers: Vec<i64> = reply.trim().split('|').filter_map(|n| n.parse().ok()).collect();
        let [count, accounts, tellers, branches, history] = numbers[..] else {
            return Err(reply.into());
        };
        if [tellers, branches, history].iter().any(|&sum| sum != accounts) {
            return Err(format!("sums of accounts, tellers, branches, history: {reply}").into());
        }
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

fn is_alive(pid: Pid) -> bool {
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// Returns the processes that `parent` has started.
fn children(parent: Pid) -> Vec<Pid> {
    let pid = parent.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}

/// Stops the server, which writes all that it has cached.
fn stop(volume: &mut Volume<'_>, running: Running) -> Result<(), Stop> {
    kill_process(running.pid(), Signal::INT)?;
    volume.wait(running, BOUND)?.success()?;
    Ok(())
}
