//! The kernel's requests to our mount, as `xfskit stats DIR` counts them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::frame::Result;
use crate::kernel;

/// Kinds that no program waits for: the kernel sends them when it drops or closes something.
const NOT_WAITED_FOR: [&str; 2] = ["forget", "release"];

/// Requests by kind.
#[derive(Clone, Debug, Default)]
pub struct Requests(BTreeMap<String, Count>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    /// Time between these requests and their replies, in the server.
    seconds: f64,
}

#[derive(Deserialize)]
struct Stats {
    transport: Transport,
    requests: Vec<Row>,
}

#[derive(Deserialize)]
struct Transport {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    kind: String,
    requests: u64,
    seconds: f64,
}

impl Requests {
    /// Asks the program `xfskit` for the requests of the mount on `dir` so far.
    ///
    /// # Errors
    /// If the mount does not say, or they do not come by what they should: io_uring, or the device.
    pub fn of(xfskit: &Path, dir: &Path, by_ring: bool) -> Result<Self> {
        let (program, dir) = (xfskit.to_string_lossy(), dir.to_string_lossy());
        Self::parse(&kernel::run(&program, &["stats", &dir, "--json"])?, by_ring)
    }

    fn parse(json: &str, by_ring: bool) -> Result<Self> {
        let stats: Stats = serde_json::from_str(json)?;
        let name = &stats.transport.name;
        if (name == "io_uring") != by_ring {
            return Err(format!("requests come by {name}").into());
        }
        let count = |Row { kind, requests, seconds }| (kind, Count { requests, seconds });
        Ok(Self(stats.requests.into_iter().map(count).collect()))
    }

    /// Returns those since `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (kind, count) in &mut self.0 {
            let before = before.0.get(kind).copied().unwrap_or_default();
            count.requests -= before.requests;
            count.seconds -= before.seconds;
        }
        self
    }

    /// Adds others to these.
    pub fn add(&mut self, more: Self) {
        for (kind, count) in more.0 {
            let sum = self.0.entry(kind).or_default();
            sum.requests += count.requests;
            sum.seconds += count.seconds;
        }
    }

    /// Returns the kinds of which there were requests.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, count)| count.requests > 0).map(|(kind, _)| kind.as_str())
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.get(kind).map_or(0, |count| count.requests)
    }

    /// Returns the number of requests that a program waited for.
    pub fn round_trips(&self) -> u64 {
        self.waited_for().map(|count| count.requests).sum()
    }

    /// Returns the seconds that the server took for them.
    pub fn server_seconds(&self) -> f64 {
        self.waited_for().map(|count| count.seconds).sum()
    }

    fn waited_for(&self) -> impl Iterator<Item = &Count> {
        let waited = |kind: &String| !NOT_WAITED_FOR.contains(&kind.as_str());
        self.0.iter().filter(move |(kind, _)| waited(kind)).map(|(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_between_two_readings() {
        let parse = |lookups, releases| {
            let row =
                |kind, count| format!(r#"{{"kind":"{kind}","requests":{count},"seconds":0.5}}"#);
            let rows = [row("lookup", lookups), row("release", releases)].join(",");
            let of = r#"{"name":"device","device":9,"io_uring":0}"#;
            let json = format!(r#"{{"transport":{of},"requests":[{rows}],"first_failure":null}}"#);
            assert!(Requests::parse(&json, true).is_err());
            Requests::parse(&json, false).unwrap()
        };
        let mut between = parse(9, 5).since(&parse(2, 5));
        assert_eq!(between.kinds().collect::<Vec<_>>(), ["lookup"]);
        assert!(between.server_seconds().abs() < 1e-9);
        between.add(parse(1, 4));
        assert_eq!((between.count("lookup"), between.count("release")), (8, 4));
        assert_eq!(between.round_trips(), 8, "a release is not waited for");
        assert!((between.server_seconds() - 0.5).abs() < 1e-9);
    }
}
