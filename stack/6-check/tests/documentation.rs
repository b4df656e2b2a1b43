//! `docs/checks.md` is the table of checks. `XFSKIT_RENEW=1` writes it anew.

use std::fmt::Write;
use std::path::Path;

use xfskit_format::checks::{self, Check, Section};

const HEAD: &str = "\
# Checks

<!-- Generated from the table of checks by `XFSKIT_RENEW=1 cargo test -p xfskit-check --test all
documentation`. -->

Every finding of `xfskit check` ends with the id of a check. This is the table of all of them.

- *Severity* is that of a finding; a check with several gives the usual one first. A damaged block that
  was rewritten from a sound copy is a warning always.
- *`xfs_repair -n`* is the beginning of what version 6.13 says of the planted fault, with N for each
  number. A dash: it says nothing of it, or is silent about it among other complaints.
- *Brings* are the ids that the planted fault yields as well: one wrong field contradicts several others.

";

const ELSEWHERE: &str = "\
## Not of `check`

Journal replay, changes, and readers that stop at the first damage make these checks. Their errors
carry the ids.

";

fn code(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

/// Escapes what would end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn section(text: &mut String, section: &Section) -> std::fmt::Result {
    writeln!(text, "## {}\n", section.title)?;
    writeln!(text, "| id | severity | verified | `xfs_repair -n` | brings |")?;
    writeln!(text, "| --- | --- | --- | --- | --- |")?;
    for Check { id, severities, verifies, repair, brings, .. } in section.checks {
        let severities: Vec<_> = severities.iter().map(ToString::to_string).collect();
        let (severities, verifies) = (severities.join(", "), cell(verifies));
        let repair = repair.map_or_else(|| "–".to_owned(), cell);
        writeln!(text, "| `{id}` | {severities} | {verifies} | {repair} | {} |", code(brings))?;
    }
    writeln!(text)
}

fn unplanted(text: &mut String) -> std::fmt::Result {
    let all = || checks::sections().flat_map(|section| section.checks);
    let without: Vec<_> = all().filter_map(|c| Some((c.id, c.unplanted?))).collect();
    writeln!(text, "## Without a planted fault\n")?;
    writeln!(
        text,
        "{} of {} checks have a planted fault.",
        all().count() - without.len(),
        all().count()
    )?;
    writeln!(text, "These have none:\n")?;
    writeln!(text, "| id | reason |\n| --- | --- |")?;
    for (id, reason) in without {
        writeln!(text, "| `{id}` | {} |", cell(reason))?;
    }
    writeln!(text)
}

fn elsewhere(text: &mut String) -> std::fmt::Result {
    text.push_str(ELSEWHERE);
    writeln!(text, "| id | verified |\n| --- | --- |")?;
    for Check { id, verifies, .. } in checks::sections_elsewhere().flat_map(|s| s.checks) {
        writeln!(text, "| `{id}` | {} |", cell(verifies))?;
    }
    Ok(())
}

#[test]
fn the_page_of_checks_is_the_table() {
    let mut text = HEAD.to_owned();
    for part in checks::sections() {
        section(&mut text, part).unwrap();
    }
    unplanted(&mut text).unwrap();
    elsewhere(&mut text).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    if std::env::var_os("XFSKIT_RENEW").is_some_and(|value| value == "1") {
        std::fs::write(&path, &text).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let renew = "XFSKIT_RENEW=1 cargo test -p xfskit-check --test all documentation";
    assert!(page == text, "docs/checks.md is not the table of checks; renew it: {renew}");
}
