//! A report as one self-contained HTML page.

use std::fmt::Write;

use super::escape::escaped;
use super::svg::Frame;
use super::{Answer, Cell, Plot, Report, Section, Source, Table, svg};

/// The style sheet; light or dark as the reader's system prefers.
const STYLE: &str = include_str!("page.css");

/// Formats the page.
pub fn report(report: &Report) -> String {
    let mut page = head(&report.heading());
    summary(&mut page, report);
    contents(&mut page, &report.sections);
    environment(&mut page, report);
    body(&mut page, &report.sections);
    page
}

/// Formats a page of these sections alone.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut page = head(title);
    contents(&mut page, sections);
    body(&mut page, sections);
    page
}

fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<main>\n<h1>{title}</h1>\n"
    )
}

fn body(page: &mut String, sections: &[Section]) {
    for (n, part) in sections.iter().enumerate() {
        section(page, n, part);
    }
    page.push_str("</main>\n</html>\n");
}

/// Writes the table of all answers, each with a link to its section.
fn summary(page: &mut String, report: &Report) {
    let answers = report.answers();
    if answers.is_empty() {
        return;
    }
    page.push_str(
        "<div class=table><table class=summary>\n<thead><tr><th class=words>Question</th><th class=words>Verdict</th>\
         <th class=words>Figure</th><th class=words>Published, other hardware</th></tr></thead>\n<tbody>\n",
    );
    for (n, answer) in answers {
        let [question, verdict, figure, published] =
            [&answer.question, &answer.verdict, &answer.figure, &answer.published]
                .map(|text| escaped(text));
        let _ = writeln!(
            page,
            "<tr><th scope=row><a href=\"#s{n}\">{question}</a></th><td class=words>{verdict}</td>\
             <td class=words>{figure}</td><td class=words>{published}</td></tr>",
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
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

fn contents(page: &mut String, sections: &[Section]) {
    if sections.len() < 2 {
        return;
    }
    page.push_str("<nav><ol>\n");
    for (n, part) in sections.iter().enumerate() {
        let verdict = part.answer.as_ref().map_or(String::new(), |answer| {
            format!(" <span class=verdict>{}</span>", escaped(&answer.verdict))
        });
        let _ = writeln!(page, "<li><a href=\"#s{n}\">{}</a>{verdict}</li>", escaped(&part.title));
    }
    page.push_str("</ol></nav>\n");
}

fn section(page: &mut String, n: usize, section: &Section) {
    let _ = writeln!(page, "<section id=s{n}>\n<h2>{}</h2>", escaped(&section.title));
    if let Some(Answer { question, verdict, figure, published }) = &section.answer {
        let _ = writeln!(
            page,
            "<p class=answer><b>{}</b> {} <b>{}</b> <span class=verdict>Published: {}</span></p>",
            escaped(question),
            escaped(verdict),
            escaped(figure),
            escaped(published),
        );
    }
    for paragraph in &section.text {
        let _ = writeln!(page, "<p>{}</p>", escaped(paragraph));
    }
    let plots: Vec<&Plot> = section.plots.iter().filter(|plot| plot.has_shape()).collect();
    if !plots.is_empty() {
        page.push_str("<div class=plots>\n");
        let frame = if plots.len() == 1 { Frame::WIDE } else { Frame::HALF };
        for part in plots {
            plot(page, part, frame);
        }
        page.push_str("</div>\n");
    }
    section.tables.iter().for_each(|part| table(page, part));
    page.push_str("</section>\n");
}

/// Writes the plot twice, for a desktop and for a phone; the style sheet shows the one that fits.
fn plot(page: &mut String, plot: &Plot, desktop: Frame) {
    let _ = writeln!(
        page,
        "<figure>\n<figcaption>{}</figcaption>\n<div class=wide>{}</div>\n<div class=narrow>{}</div>\n</figure>",
        escaped(&plot.title),
        svg::plot(plot, desktop),
        svg::plot(plot, Frame::NARROW),
    );
}

/// Provenance with more characters than this is a footnote.
const PROVENANCE_MAX: usize = 32;

/// The footnotes of a table: each text once, with a letter.
#[derive(Default)]
struct Footnotes(Vec<String>);

impl Footnotes {
    /// Returns the letter of a text: a, b, …, z, aa.
    fn letter(&mut self, text: &str) -> String {
        let n = self.0.iter().position(|known| known == text).unwrap_or_else(|| {
            self.0.push(text.into());
            self.0.len() - 1
        });
        let letter = |n: usize| char::from(b"abcdefghijklmnopqrstuvwxyz"[n % 26]);
        std::iter::repeat_n(letter(n), n / 26 + 1).collect()
    }
}

/// Returns the storage of all rows that were measured, if it is one and the same: a note says it
/// then, instead of a column.
fn common_storage(table: &Table) -> Option<&String> {
    let mut measured = table.rows.iter().filter(|row| row.source == Source::Measured);
    let first = &measured.next()?.storage;
    measured.all(|row| row.storage == *first).then_some(first)
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
    let storage = common_storage(table);
    let head = if storage.is_none() { "<th class=words>storage</th>" } else { "" };
    let _ = write!(page, "{head}</tr></thead>\n<tbody>\n");
    let mut footnotes = Footnotes::default();
    for row in &table.rows {
        let class = if row.source == Source::Measured { "" } else { " class=other" };
        // Beside the name, where a narrow page shows it too.
        let mark = row.source.mark().map(|mark| format!(" <em>{mark}</em>")).unwrap_or_default();
        let is_common = storage.is_some_and(|storage| *storage == row.storage);
        let place = match &row.storage {
            text if is_common || text.is_empty() => String::new(),
            text if storage.is_some() || text.chars().count() > PROVENANCE_MAX => {
                format!("<sup>{}</sup>", footnotes.letter(text))
            }
            text => escaped(text),
        };
        let (beside, column) = match storage {
            Some(_) => (place, String::new()),
            None => (String::new(), format!("<td class=words>{place}</td>")),
        };
        let _ = write!(page, "<tr{class}><th scope=row>{}{mark}{beside}</th>", escaped(&row.name));
        for cell in &row.cells {
            let class = if matches!(cell, Cell::Text(_)) { " class=words" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", escaped(&cell.to_string()));
        }
        let _ = writeln!(page, "{column}</tr>");
    }
    page.push_str("</tbody>\n</table></div>\n");
    if let Some(storage) = storage.filter(|storage| !storage.is_empty()) {
        let _ = writeln!(page, "<p class=note>Storage: {}.</p>", escaped(storage));
    }
    for text in footnotes.0.clone() {
        let letter = footnotes.letter(&text);
        let _ = writeln!(page, "<p class=note><sup>{letter}</sup> {}</p>", escaped(&text));
    }
    for note in &table.notes {
        let _ = writeln!(page, "<p class=note>{}</p>", escaped(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, Line};

    #[test]
    fn long_provenance_is_a_footnote_once() {
        let long = "md of Linux, RAID6 of 24 SSDs, chunk 512 KiB, 50 dd";
        let mut shown = Table::new("t", &[("a", "")]);
        shown.published("healthy", long, vec![Cell::None]);
        shown.published("one failed", long, vec![Cell::None]);
        shown.row("ours", "memory", vec![Cell::None]);
        shown.row("kernel", "a file", vec![Cell::None]);
        let mut page = String::new();
        table(&mut page, &shown);
        assert_eq!(page.matches(long).count(), 1, "{page}");
        assert_eq!(page.matches("<sup>a</sup>").count(), 3, "two rows and the note: {page}");
        assert!(page.contains("<td class=words>memory</td>"), "{page}");
        let marked = "<th scope=row>healthy <em>published, other hardware</em></th>";
        assert!(page.contains(marked) && page.contains("<th scope=row>ours</th>"), "{page}");
    }

    #[test]
    fn storage_that_is_the_same_for_all_is_a_note() {
        let mut shown = Table::new("t", &[("a", "")]);
        shown.row("ours", "a file", vec![Cell::None]);
        shown.row("kernel", "a file", vec![Cell::None]);
        shown.published("healthy", "24 SSDs", vec![Cell::None]);
        let mut page = String::new();
        table(&mut page, &shown);
        assert!(page.contains("<p class=note>Storage: a file.</p>"), "{page}");
        assert!(!page.contains("<th class=words>storage"), "{page}");
        assert!(page.contains("hardware</em><sup>a</sup></th>"), "{page}");
        assert!(page.contains("<sup>a</sup> 24 SSDs</p>"), "{page}");
    }

    #[test]
    fn the_page_begins_with_the_answers_and_links_to_their_sections() {
        let mut first = Section::new("methods");
        first.paragraph("no question");
        let mut second = Section::new("reads");
        second.answer = Some(Answer {
            question: "What does a read cost?".into(),
            verdict: "Half < all.".into(),
            figure: "1,234 MB/s.".into(),
            published: "200 MB/s.".into(),
        });
        let report = Report::new("All studies", crate::Environment::now(), vec![first, second]);
        let page = super::report(&report);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} in {page}"));
        assert!(at("<a href=\"#s1\">What does a read cost?</a>") < at("<nav>"), "{page}");
        assert!(at("<nav>") < at("<dl class=environment>"));
        assert_eq!(page.matches("Half &lt; all.").count(), 3, "summary, contents, section");
        let text = crate::report::text::report(&report);
        assert!(text.contains("Summary") && text.contains("see reads"), "{text}");
    }

    #[test]
    fn a_section_shows_only_plots_with_a_shape() {
        let of = |title: &str, points: &[(f64, f64)]| Plot {
            title: title.into(),
            x: Axis::linear("turn"),
            y: Axis::linear("s"),
            lines: vec![Line { name: "a".into(), source: Source::Measured, points: points.into() }],
        };
        let mut part = Section::new("a");
        part.plots = vec![of("dot", &[(1.0, 1.0)]), of("line", &[(1.0, 1.0), (2.0, 3.0)])];
        let mut page = String::new();
        section(&mut page, 0, &part);
        assert!(!page.contains("dot") && page.contains("<figcaption>line"), "{page}");
        assert_eq!(page.matches("<svg").count(), 2, "for a desktop and for a phone");
    }

    #[test]
    fn text_is_escaped_in_markup() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
