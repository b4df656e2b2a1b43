//! The file of claims: what is stated where, the command that measures it, and its last figures.
//!
//! The file is written by hand. Only circumstances and last figures are renewed, in place, so that
//! comments and order stay.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, InlineTable, Item, Value, value};
use xfskit_workload::Environment;

use super::super::destination::Destination;
use super::idle::Load;
use crate::exit::Failure;

/// The claims of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claims {
    /// Root of the repository, relative to the directory of the file.
    pub root: PathBuf,
    /// The page that is made from the file, relative to the root.
    pub page: PathBuf,
    /// Commands, and the claims that each of them measures.
    #[serde(rename = "run", default)]
    pub runs: Vec<Run>,
}

/// One command, and the claims that its report has the figures of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub id: String,
    /// A program of `bench/` or `xfskit`, and its arguments. `$DIR` is the directory for volumes.
    pub command: String,
    /// Commands that make what the command needs.
    #[serde(default)]
    pub prepare: Vec<Prepare>,
    pub needs: Needs,
    /// Circumstances of the last figures; `None` if there are none.
    pub measured: Option<Circumstances>,
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
}

/// A file that a command needs, and the command that makes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prepare {
    /// Name of the file in the directory for volumes.
    pub file: String,
    pub command: String,
}

/// Needs of a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Needs {
    /// It mounts volumes and drops caches.
    #[serde(default)]
    pub root: bool,
    /// Space in the directory for volumes, in GB.
    #[serde(default)]
    pub disk_gb: u64,
    /// Memory in GB.
    #[serde(default)]
    pub memory_gb: u64,
    /// Other load changes the figures.
    #[serde(default)]
    pub idle: bool,
    /// Programs that it compares with, and that can be missing.
    #[serde(default)]
    pub programs: Vec<String>,
    /// About how long it takes.
    pub minutes: u64,
}

/// Circumstances of figures; `None` was not recorded.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Circumstances {
    pub date: Option<String>,
    pub processor: Option<String>,
    pub kernel: Option<String>,
    pub version: Option<String>,
    pub xfsprogs: Option<String>,
    pub load: Option<String>,
}

/// One stated figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub id: String,
    /// The file that states it, relative to the root.
    pub file: String,
    /// The sentence or row that states it, verbatim but for blanks.
    pub sentence: String,
    /// The figure as the sentence has it.
    pub stated: String,
    /// The figure's place in the report of the command.
    pub figure: Place,
    /// The claim is the ratio of the figure to this one. Missing fields are as in `figure`.
    pub to: Option<Place>,
    pub aim: Option<Aim>,
    pub last: Option<Last>,
}

/// A place in a report. Missing fields are not compared.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    pub section: Option<String>,
    pub table: Option<String>,
    pub row: Option<String>,
    /// A cell of the row, as it is shown; tells rows of one name apart.
    pub with: Option<String>,
    pub column: Option<String>,
    pub unit: Option<String>,
}

/// The limits of a figure.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aim {
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}

impl Aim {
    /// Returns whether `figure` reaches the aim.
    pub(super) fn is_reached(self, figure: f64) -> bool {
        self.at_least.is_none_or(|least| figure >= least)
            && self.at_most.is_none_or(|most| figure <= most)
    }
}

/// A measured figure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Last {
    pub median: f64,
    /// Ends of the range of the turns; of a ratio, those of its interval. One turn has none.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub turns: Option<u64>,
}

impl Last {
    /// A figure of one turn is as far from a stated one as this part of it, at least.
    const FAR: f64 = 0.2;

    /// Returns whether a stated number lies outside of the range; words are never far.
    pub(super) fn is_far_from(&self, stated: &str) -> bool {
        let Ok(stated) = stated.replace(',', "").parse::<f64>() else { return false };
        let ends = self.low.zip(self.high);
        let (low, high) = ends.unwrap_or_else(|| {
            let margin = self.median.abs() * Self::FAR;
            (self.median - margin, self.median + margin)
        });
        !(low..=high).contains(&stated)
    }
}

/// A file of claims.
#[derive(Debug)]
pub(super) struct ClaimsFile {
    path: PathBuf,
    document: DocumentMut,
    pub claims: Claims,
}

impl ClaimsFile {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::cannot(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| {
            failed(&error).hint("Run it in the root of the repository, or name the file: --file.")
        })?;
        let document = text.parse().map_err(|error| failed(&error))?;
        let claims = toml_edit::de::from_str(&text).map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), document, claims })
    }

    /// Returns the path of a file of the repository.
    pub(super) fn of_root(&self, file: impl AsRef<Path>) -> PathBuf {
        let dir = self.path.parent().unwrap_or(Path::new(""));
        dir.join(&self.claims.root).join(file)
    }

    /// Renews circumstances and figures of a run, in memory.
    pub(super) fn renew(&mut self, run: usize, now: Circumstances, figures: &[Last]) {
        let table = &mut self.document["run"][run];
        table["measured"] = inline(&now);
        let known = &mut self.claims.runs[run];
        known.measured = Some(now);
        for (n, (claim, figure)) in known.claims.iter_mut().zip(figures).enumerate() {
            table["claim"][n]["last"] = inline(figure);
            claim.last = Some(*figure);
        }
    }

    /// Writes the file, and the text of its page.
    pub(super) fn write(&self, page: &str) -> Result<(), Failure> {
        Destination::new(&self.path)?.write(&self.document.to_string())?;
        Destination::new(&self.of_root(&self.claims.page))?.write(page)
    }
}

/// Returns the fields that have a value, as a table on one line.
fn inline(fields: &impl Serialize) -> Item {
    let mut table = InlineTable::new();
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(fields) {
        for (name, field) in fields {
            let field: Value = match field {
                serde_json::Value::String(text) => text.into(),
                serde_json::Value::Number(n) => match n.as_u64() {
                    Some(n) => i64::try_from(n).unwrap_or(i64::MAX).into(),
                    None => n.as_f64().unwrap_or(f64::NAN).into(),
                },
                _ => continue,
            };
            table.insert(name, field);
        }
    }
    value(table)
}

impl Circumstances {
    /// Returns those of a report.
    pub(super) fn of(environment: &Environment) -> Self {
        let Environment { xfskit, time, processor, processors, kernel, xfsprogs, load, .. } =
            environment;
        Self {
            date: Some(time.split('T').next().unwrap_or_default().to_owned()),
            processor: Some(format!("{processor}, {processors} processors")),
            kernel: Some(kernel.clone()),
            version: Some(xfskit.clone()),
            xfsprogs: xfsprogs.clone(),
            load: Some(format!("average {load} before")),
        }
    }

    /// Adds the load of other programs right before the command, if it was looked at.
    pub(super) fn beside(self, load: Option<&Load>) -> Self {
        let Some((load, average)) = load.zip(self.load.as_ref()) else { return self };
        let not = if load.is_idle() { "" } else { "not idle, " };
        Self { load: Some(format!("{average}: {not}{}", load.figures())), ..self }
    }
}
