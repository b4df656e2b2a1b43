//! A report as text for a terminal.

use std::fmt::Write;

use super::{Answer, Report, Section, Table};

/// Width at which paragraphs are wrapped.
const WIDTH: usize = 100;

/// Formats the whole report.
pub fn report(report: &Report) -> String {
    let title = report.heading();
    let mut text = format!("{title}\n{}\n", "=".repeat(title.chars().count()));
    text.push_str(&environment(report));
    if let Some(summary) = report.summary() {
        text.push('\n');
        text.push_str(&table(&summary));
    }
    for part in &report.sections {
        text.push('\n');
        text.push_str(&section(part));
    }
    text
}

fn environment(report: &Report) -> String {
    let c = &report.environment;
    let xfsprogs = c.xfsprogs.as_deref().map_or(String::new(), |v| format!(", xfsprogs {v}"));
    format!(
        "{}, Linux {}{xfsprogs}\n{} ({} processors), {} GiB, load average {} before, crc32c by {}\n{}   {}\n",
        c.xfskit,
        c.kernel,
        c.processor,
        c.processors,
        c.memory >> 30,
        c.load,
        c.crc,
        c.time,
        c.command,
    )
}

/// Formats one section.
pub fn section(section: &Section) -> String {
    let mut text = format!("{}\n{}\n", section.title, "-".repeat(section.title.chars().count()));
    if let Some(Answer { question, verdict, figure, published }) = &section.answer {
        text.push_str(&wrapped(&format!("{question} {verdict} {figure} Published: {published}")));
    }
    for paragraph in &section.text {
        text.push_str(&wrapped(paragraph));
    }
    for part in &section.tables {
        text.push('\n');
        text.push_str(&table(part));
    }
    text
}

/// Formats one table with aligned columns.
pub fn table(table: &Table) -> String {
    let mut lines = vec![heads(table)];
    lines.extend(table.rows.iter().map(|row| {
        let storage = match row.source.mark() {
            None => row.storage.clone(),
            Some(mark) if row.storage.is_empty() => mark.to_owned(),
            Some(mark) => format!("{} ({mark})", row.storage),
        };
        let cells = row.cells.iter().map(ToString::to_string);
        std::iter::once(row.name.clone()).chain(cells).chain([storage]).collect()
    }));
    let columns = table.columns.len() + 2;
    let width = |n: usize| lines.iter().map(|line: &Vec<String>| line[n].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|n| width(n).unwrap_or(0)).collect();
    let mut text = format!("{}\n", table.title);
    for line in &lines {
        let mut shown = format!("  {}", padded(&line[0], widths[0], false));
        for n in 1..columns - 1 {
            let _ = write!(shown, "  {}", padded(&line[n], widths[n], true));
        }
        let _ = write!(shown, "  {}", line[columns - 1]);
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    for note in &table.notes {
        text.push_str(&wrapped(note));
    }
    text
}

/// Returns the column headings: name and unit.
fn heads(table: &Table) -> Vec<String> {
    let head = |column: &super::Column| match column.unit.as_str() {
        "" => column.name.clone(),
        unit => format!("{}, {unit}", column.name),
    };
    let columns = table.columns.iter().map(head);
    std::iter::once(String::new()).chain(columns).chain(["storage".into()]).collect()
}

fn padded(text: &str, width: usize, right: bool) -> String {
    let gap = " ".repeat(width.saturating_sub(text.chars().count()));
    if right { format!("{gap}{text}") } else { format!("{text}{gap}") }
}

/// Wraps a paragraph at [`WIDTH`] columns.
fn wrapped(paragraph: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;

    #[test]
    fn columns_are_aligned_and_rows_name_their_storage() {
        let mut t = Table::new("rates", &[("files", "1/s"), ("time", "s")]);
        t.row("kernel", "a file", vec![Cell::Count(45_028), Cell::Number(4.44, 1)]);
        t.published("study B", "120 processors", vec![Cell::Number(286_491.9, 1), Cell::None]);
        let expected = "\
rates
           files, 1/s  time, s  storage
  kernel       45,028      4.4  a file
  study B   286,491.9        –  120 processors (published, other hardware)
";
        assert_eq!(table(&t), expected);
    }

    #[test]
    fn paragraphs_wrap_between_words() {
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
