use super::*;
use crate::driver::testing::Recorder;
use crate::report::Cell;
use crate::suite::testing::{Heard, settings};
use crate::testbed::Job;

#[test]
fn every_kind_is_measured_and_simulated() {
    let options = Options {
        threads: vec![1, 2],
        time: Duration::from_millis(40),
        processors: vec![8, 16],
        events: 5_000,
    };
    let mut heard = Heard::default();
    run(&options, &settings(), &mut heard).expect("a study");
    heard.assert_steps();
    let sections = &heard.1;
    let of = |what: &str| heard.0.iter().filter(|result| !result[what].is_null()).count();
    assert_eq!(of("locks"), 5 * 2);
    assert!(heard.0.iter().filter_map(|result| result["locks"]["files"].as_u64()).all(|n| n > 0));
    // Each kind is compared with its points, or has none that is long enough; then each is
    // extrapolated twice, or refused.
    let model = &sections[1];
    let rows = |title: &str| {
        let table = model.tables.iter().find(|table| table.title.starts_with(title));
        table.map_or(0, |table| table.rows.len())
    };
    assert_eq!(rows("The model and its validation"), 5);
    let extrapolated = rows("The model, a thread on each processor");
    assert_eq!(of("locks_model"), rows("The model against") + extrapolated * 2 * 2);
    assert_eq!(sections.len(), 2);
}

#[test]
#[allow(clippy::cast_precision_loss)] // of some threads
fn the_plot_of_the_model_has_the_points_that_this_machine_can_measure() {
    let points = [1, 2, 16].map(|threads| {
        let mut point = Point::new(Some(Kind::Ticket), threads, "memory".into());
        point.rate.add(1000.0 * threads as f64);
        point
    });
    let rates = ModelRates { rate: 1.0, per_processor: 1.0 };
    let computed = |threads| ModelPoint { kind: Kind::Ticket, processors: 2, threads, rates };
    let more = |processors| ModelPoint { processors, ..computed(processors) };
    let of = |kind, error, many: &[usize]| Validated {
        kind,
        factors: Factors::MEASURED,
        held_out: vec![16],
        error: Some(error),
        fit_error: Some(5.0),
        check: points
            .iter()
            .filter(|_| kind == Kind::Ticket)
            .map(|point| (point, computed(point.threads)))
            .collect(),
        many: many.iter().copied().map(more).collect(),
        unsharded: Vec::new(),
    };
    let (one, refused) = (of(Kind::Ticket, 1.0, &[8, 128, 256]), of(Kind::Queued, 99.0, &[]));
    let all = [one, refused];
    let answer = tables::model_answer(&all);
    assert_eq!(answer.verdict, "The model is valid for ticket, and refused for queued.");
    assert_eq!(answer.figure, "ticket 1/s on 128 (a model).");
    assert!(tables::model_answer(&all[1..]).verdict.starts_with("Not known"));
    let misfit = Validated { fit_error: Some(113.0), ..of(Kind::Ticket, 1.0, &[]) };
    assert!(all[0].is_valid() && !misfit.is_valid(), "wrong about what it was fitted to");
    let lines = tables::each_on_a_processor(&all, 2);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].points, [(1.0, 1000.0), (2.0, 2000.0)]);
    assert_eq!(lines[0].name, "ticket, on 2 processors");
}

#[test]
fn a_kind_that_makes_no_file_has_its_sentence_and_no_ratio() {
    let mut points = [Kind::Parking, Kind::Ticket, Kind::Queued]
        .map(|kind| Point::new(Some(kind), 16, "memory".into()));
    for (point, rate) in points.iter_mut().zip([900.0, 300.0, 0.0]) {
        (0..4).for_each(|_| point.rate.add(rate));
    }
    let section = tables::measured(&points, Duration::from_secs(1));
    let answer = section.answer.expect("an answer");
    assert_eq!(answer.figure, "16 threads: parking 900 and queued 0 files/s.");
    assert!(answer.verdict.ends_with("(queued made no file in the time of a point)."));
    let text = tables::ticket_text(&points, 2).expect("a sentence");
    assert!(text.contains("queued locks made no file") && !text.contains("inf"), "{text}");
    let row = &section.tables[0].rows[2];
    assert_eq!(row.cells[4..7], [const { Cell::None }; 3], "per file: {row:?}");
}

#[test]
fn locks_of_the_engine_are_counted_and_timed() {
    let config = LockConfig { timed: true, kind: Kind::Ticket };
    let options = Options {
        threads: Vec::new(),
        time: Duration::from_millis(20),
        processors: Vec::new(),
        events: 0,
    };
    let (done, _) = create(config, 1, &options, &settings()).expect("files");
    let counters = done.counters.expect("the engine counts");
    let lock = |name| counters.locks.iter().find(|lock| lock.name == name).expect("known");
    let cache = lock("buffer cache");
    assert!(cache.mutexes > 1 && cache.held > Duration::ZERO, "{cache:?}");
    assert_eq!(lock("agi").mutexes, 0, "no mutex");
}

#[test]
fn the_same_seed_gives_the_same_names() {
    let first = |seed| {
        let mut recorder = Recorder::default();
        let mut creates = Creates { threads: 1, time: Duration::from_millis(5), seed };
        creates.run(&mut recorder).expect("no errors");
        recorder.calls()["/0"][0].clone()
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}
