//! The table of outcomes, as text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::trial::{Class, Tried};

/// The cases that ran, and their outcomes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The kind of volume.
    pub volume: &'static str,
    /// Version of xfsprogs.
    pub xfsprogs: String,
    /// Seed of the order and of the random verb.
    pub seed: u64,
    /// Cases of the plan that change something.
    pub planned: usize,
    /// Verbs that leave a field as it is.
    pub unchanged: usize,
    /// The cases that were tried.
    pub tried: Vec<Tried>,
}

impl Report {
    /// Returns the cases that xfskit check does not find, and `xfs_repair -n` or Linux does.
    pub fn missed(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.is_missed())
    }

    /// Returns the cases in which ours is worse.
    pub fn worse(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.is_worse())
    }

    /// Returns the cases in which xfskit crashed, hung, or left a volume unclean.
    pub fn broken(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.ours.class >= Class::Unclean)
    }

    /// Returns the table as text, then the lists of cases that ours should do better.
    pub fn text(&self) -> String {
        let mut text = format!(
            "volume {}, xfsprogs {}, seed {}: {} of {} cases ({} verbs change nothing)\n\
             each cell: xfskit repair / xfs_repair\n\n",
            self.volume,
            self.xfsprogs,
            self.seed,
            self.tried.len(),
            self.planned,
            self.unchanged
        );
        text += &self.table();
        text += &self.journals();
        text += &list("worse than xfs_repair", self.worse(), |tried| {
            let why = tried.ours.why.as_deref().unwrap_or("");
            format!("{} / {}: {why}", tried.ours.class.name(), tried.theirs.class.name())
        });
        text += &list("missed by check", self.missed(), |tried| {
            tried.linux.clone().unwrap_or_default()
        });
        text
    }

    fn journals(&self) -> String {
        match self.tried.iter().filter(|tried| tried.without_journal).count() {
            0 => String::new(),
            count => format!("\nxfs_repair threw the journal away (-L) in {count} cases\n"),
        }
    }

    /// Returns a table in Markdown: a row for each structure, and one for all.
    fn table(&self) -> String {
        let mut rows: BTreeMap<&str, Vec<&Tried>> = BTreeMap::new();
        for tried in &self.tried {
            rows.entry(&tried.structure).or_default().push(tried);
        }
        let mut text = String::from("| structure | cases |");
        for (_, name) in Class::ALL {
            let _ = write!(text, " {name} |");
        }
        text += " missed |\n| --- | ---: |";
        text += &" ---: |".repeat(Class::ALL.len() + 1);
        text.push('\n');
        for (structure, tried) in &rows {
            text += &row(structure, tried);
        }
        text + &row("all", &self.tried.iter().collect::<Vec<_>>())
    }
}

fn row(name: &str, tried: &[&Tried]) -> String {
    let mut text = format!("| {name} | {} |", tried.len());
    for (class, _) in Class::ALL {
        let ours = tried.iter().filter(|tried| tried.ours.class == class).count();
        let theirs = tried.iter().filter(|tried| tried.theirs.class == class).count();
        let cell = if ours + theirs == 0 { "·".into() } else { format!("{ours} / {theirs}") };
        let _ = write!(text, " {cell} |");
    }
    let missed = tried.iter().filter(|tried| tried.is_missed()).count();
    text + &format!(" {missed} |\n")
}

/// Returns the cases by field, each with its verbs and the first reason.
fn list<'t>(
    title: &str,
    cases: impl Iterator<Item = &'t Tried>,
    reason: impl Fn(&Tried) -> String,
) -> String {
    let mut fields: BTreeMap<(String, String), (Vec<&str>, String)> = BTreeMap::new();
    for tried in cases {
        let key = (tried.structure.clone(), tried.field.clone());
        let entry = fields.entry(key).or_insert_with(|| (Vec::new(), reason(tried)));
        entry.0.push(tried.verb);
    }
    let count: usize = fields.values().map(|(verbs, _)| verbs.len()).sum();
    let mut text = format!("\n{title}: {count}\n");
    for ((structure, field), (mut verbs, reason)) in fields {
        verbs.sort_unstable();
        let reason: String = reason.chars().take(160).collect();
        let _ = writeln!(text, "  {structure}.{field} ({}): {reason}", verbs.join(", "));
    }
    text
}
