//! A report as CSV: one figure per line, with all its labels.

use std::fmt::Write;

use super::{Cell, Report};

/// The names of the columns.
const HEAD: &str = "section,table,row,column,unit,value,storage,source\n";

/// Formats all figures of the report. Numbers have no digit grouping and full precision; empty
/// cells are left out. If sections are missing, the last line says why.
pub fn report(report: &Report) -> String {
    let mut csv = String::from(HEAD);
    for section in &report.sections {
        for table in &section.tables {
            for row in &table.rows {
                let source = row.source.mark().unwrap_or("measured");
                for (column, cell) in table.columns.iter().zip(&row.cells) {
                    let Some(value) = value(cell) else { continue };
                    let words = [
                        &section.title,
                        &table.title,
                        &row.name,
                        &column.name,
                        &column.unit,
                        &value,
                        &row.storage,
                        source,
                    ];
                    let fields: Vec<String> = words.into_iter().map(quoted).collect();
                    csv.push_str(&fields.join(","));
                    csv.push('\n');
                }
            }
        }
    }
    if let Some(why) = &report.incomplete {
        let _ = writeln!(csv, "(incomplete),,,,,{},,", quoted(why));
    }
    csv
}

fn value(cell: &Cell) -> Option<String> {
    match cell {
        Cell::None => None,
        Cell::Count(n) => Some(n.to_string()),
        Cell::Number(x, _) | Cell::Turns { value: x, .. } => x.is_finite().then(|| x.to_string()),
        Cell::Text(text) => Some(text.clone()),
    }
}

/// Quotes a field as RFC 4180 requires.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
