use super::*;
use serde_json::Value;

/// Wants what is not named otherwise.
#[derive(Default)]
struct Choosy {
    finished: &'static str,
    left_out: &'static str,
    heard: Vec<String>,
    sections: Vec<Section>,
}

impl Observer for Choosy {
    fn wants(&self, part: &str) -> Wanted {
        match part {
            part if part == self.finished => Wanted::Finished,
            part if part == self.left_out => Wanted::No,
            _ => Wanted::Yes,
        }
    }

    fn plan(&mut self, _: &str, parts: Vec<PartPlan>) -> io::Result<()> {
        self.heard.extend(parts.into_iter().map(|plan| format!("plan {}", plan.part)));
        Ok(())
    }

    fn begin(&mut self, part: &str) {
        self.heard.push(format!("begin {part}"));
    }

    fn progress(&mut self, text: &str) -> io::Result<()> {
        self.heard.push(text.into());
        if text == "stop" { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    fn result(&mut self, _: Value) -> io::Result<()> {
        Ok(())
    }

    fn section(&mut self, section: Section) -> io::Result<()> {
        self.heard.push(format!("section {}", section.part));
        self.sections.push(section);
        Ok(())
    }
}

fn study(observer: &mut Choosy, last: &str) -> io::Result<()> {
    let plan = ["a", "b", "c"].map(|part| PartPlan::new(part, 1)).to_vec();
    let mut parts = Parts::begin("s", plan, Some("a note".into()), observer)?;
    for (part, text) in [("a", "1"), ("b", "2"), ("c", last)] {
        parts.measure(part, |observer| {
            observer.progress(text)?;
            Ok(Section::new(part))
        })?;
    }
    Ok(())
}

#[test]
fn sections_are_handed_over_when_they_are_finished() {
    let mut all = Choosy::default();
    study(&mut all, "stop").expect_err("stopped");
    let expected = [
        "plan s.a",
        "plan s.b",
        "plan s.c",
        "begin s.a",
        "1",
        "section s.a",
        "begin s.b",
        "2",
        "section s.b",
        "begin s.c",
        "stop",
    ];
    assert_eq!(all.heard, expected);
}

#[test]
fn a_part_that_is_finished_or_left_out_is_neither_announced_nor_measured() {
    let mut some = Choosy { left_out: "s.b", ..Choosy::default() };
    study(&mut some, "3").expect("a study");
    let expected =
        ["plan s.a", "plan s.c", "begin s.a", "1", "section s.a", "begin s.c", "3", "section s.c"];
    assert_eq!(some.heard, expected);
    let mut rest = Choosy { finished: "s.b", ..Choosy::default() };
    study(&mut rest, "3").expect("a study");
    assert_eq!(rest.heard, expected);
}

#[test]
fn the_note_stands_in_the_first_section_of_all_runs_together() {
    let notes = |finished, left_out| {
        let mut run = Choosy { finished, left_out, ..Choosy::default() };
        study(&mut run, "3").expect("a study");
        run.sections.iter().map(|section| section.text.len()).collect::<Vec<_>>()
    };
    assert_eq!(notes("", ""), [1, 0, 0]);
    assert_eq!(notes("", "s.a"), [1, 0], "the first one that is measured");
    assert_eq!(notes("s.a", ""), [0, 0], "the run before has it");
    assert_eq!(notes("s.b", ""), [1, 0]);
}

#[test]
fn a_section_that_needs_another_part_is_added_without_being_asked_for() {
    let mut run = Choosy { left_out: "s.b", ..Choosy::default() };
    let mut parts = Parts::begin("s", Vec::new(), None, &mut run).expect("begun");
    parts.add("a", Section::new("a")).expect("added");
    parts.add("b", Section::new("b")).expect("left out");
    assert_eq!(run.heard, ["section s.a"]);
}
