//! A report as one self-contained HTML page.

use std::fmt::Write;

use super::escape::escaped;
use super::{Cell, Plot, Report, Section, Source, Table, svg};

/// The style sheet; light or dark as the reader's system prefers.
const STYLE: &str = include_str!("page.css");

/// Formats the page.
pub fn report(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<main>\n<h1>{title}</h1>\n"
    );
    environment(&mut page, report);
    contents(&mut page, report);
    for (n, part) in report.sections.iter().enumerate() {
        section(&mut page, n, part);
    }
    page.push_str("</main>\n</html>\n");
    page
}

fn environment(page: &mut String, report: &Report) {
    let c = &report.environment;
    let rows = [
        ("Program", c.xfskit.clone()),
        ("Command", c.command.clone()),
        ("Time", c.time.clone()),
        ("Processor", format!("{} ({} processors)", c.processor, c.processors)),
        ("Memory", format!("{} GiB", c.memory >> 30)),
        ("Kernel", format!("Linux {}", c.kernel)),
        ("xfsprogs", c.xfsprogs.clone().unwrap_or_else(|| "not installed".into())),
        ("Load average before the run", c.load.clone()),
        ("CRC32c by", c.crc.clone()),
    ];
    page.push_str("<dl class=environment>\n");
    for (name, value) in rows {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    page.push_str("</dl>\n");
}

fn contents(page: &mut String, report: &Report) {
    if report.sections.len() < 2 {
        return;
    }
    page.push_str("<nav><ol>\n");
    for (n, part) in report.sections.iter().enumerate() {
        let _ = writeln!(page, "<li><a href=\"#s{n}\">{}</a></li>", escaped(&part.title));
    }
    page.push_str("</ol></nav>\n");
}

fn section(page: &mut String, n: usize, section: &Section) {
    let _ = writeln!(page, "<section id=s{n}>\n<h2>{}</h2>", escaped(&section.title));
    for paragraph in &section.text {
        let _ = writeln!(page, "<p>{}</p>", escaped(paragraph));
    }
    section.plots.iter().for_each(|part| plot(page, part));
    section.tables.iter().for_each(|part| table(page, part));
    page.push_str("</section>\n");
}

fn plot(page: &mut String, plot: &Plot) {
    let _ = writeln!(
        page,
        "<figure>\n<figcaption>{}</figcaption>\n{}</figure>",
        escaped(&plot.title),
        svg::plot(plot)
    );
}

fn table(page: &mut String, table: &Table) {
    let _ = write!(
        page,
        "<div class=table><table>\n<caption>{}</caption>\n<thead><tr><th></th>",
        escaped(&table.title)
    );
    for column in &table.columns {
        let unit = match column.unit.as_str() {
            "" => String::new(),
            unit => format!(" <span class=unit>{}</span>", escaped(unit)),
        };
        let _ = write!(page, "<th>{}{unit}</th>", escaped(&column.name));
    }
    page.push_str("<th class=words>storage</th></tr></thead>\n<tbody>\n");
    for row in &table.rows {
        let class = if row.source == Source::Measured { "" } else { " class=other" };
        let _ = write!(page, "<tr{class}><th scope=row>{}</th>", escaped(&row.name));
        for cell in &row.cells {
            let class = if matches!(cell, Cell::Text(_)) { " class=words" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", escaped(&cell.to_string()));
        }
        let mark = row.source.mark().map(|mark| format!(" <em>{mark}</em>")).unwrap_or_default();
        let _ = writeln!(page, "<td class=words>{}{mark}</td></tr>", escaped(&row.storage));
    }
    page.push_str("</tbody>\n</table></div>\n");
    for note in &table.notes {
        let _ = writeln!(page, "<p class=note>{}</p>", escaped(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_in_markup() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
