use std::collections::BTreeMap;

use super::*;
use crate::Kind;
use crate::driver::testing::Recorder;
use crate::driver::tree::walk;
use crate::measure::short;
use crate::suite::testing;

const SMALL: Options = Options {
    files: Some(20),
    passes: Some(1),
    loadfile: None,
    originals: true,
    runs: Some(15),
    trees: 2,
    tree_files: 30,
};

pub(super) fn settings(seed: u64) -> Settings {
    Settings { seed, ..testing::settings() }
}

/// Returns the calls of `work`, by directory and file.
fn calls_of(work: impl FnOnce(&mut Recorder)) -> BTreeMap<String, Vec<String>> {
    let mut recorder = Recorder::default();
    work(&mut recorder);
    let mut calls = recorder.calls();
    // All clients create the same directories; the seed does not determine which one is first.
    for shared in ["", "/clients"] {
        calls.entry(shared.into()).or_default().sort();
    }
    calls
}

/// Returns the calls of all programs.
fn calls(seed: u64) -> [BTreeMap<String, Vec<String>>; 3] {
    let settings = settings(seed);
    let files = calls_of(|recorder| {
        let plan = plan(&settings, 20);
        for step in STEPS {
            step::Work { step, plan: &plan }.run(recorder).expect("no errors");
        }
    });
    let clients = calls_of(|recorder| {
        let load = Load::parse(&dbench_text(&settings, &SMALL).0).expect("a load");
        let options = dbench::Options { verify_status: false, ..dbench_options(&settings, 1) };
        Dbench { load: &load, options: &options }.run(recorder).expect("no errors");
    });
    let trees = calls_of(|recorder| {
        let options = compilebench_options(&settings, 15, &SMALL);
        Compilebench(&options).run(recorder).expect("no errors");
    });
    [files, clients, trees]
}

#[test]
fn the_same_seed_gives_the_same_calls_of_every_program() {
    let (first, again, other) = (calls(1), calls(1), calls(2));
    for n in 0..first.len() {
        assert!(first[n].len() > 4, "many directories and files");
        assert!(first[n] == again[n], "program {n}: the same seed");
        assert!(first[n] != other[n], "program {n}: another seed");
    }
}

/// Lists every name on a volume with its kind, links and size, in order. Sizes are those of files:
/// a directory's depends on the order of its changes.
struct Listed;

impl Job for Listed {
    type Output = Vec<(Vec<u8>, Kind, u64, u64)>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Self::Output> {
        let mut names = Vec::new();
        walk(&*driver, &driver.root()?, &mut |dir, name, kind| {
            let stat = driver.stat(dir, name)?;
            let size = if kind == Kind::File { stat.size } else { 0 };
            names.push((name.to_vec(), kind, stat.nlink, size));
            Ok(())
        })?;
        names.sort_by(|a, b| (&a.0, a.3, a.2).cmp(&(&b.0, b.3, b.2)));
        Ok(names)
    }
}

#[test]
fn the_same_seed_gives_the_same_tree() {
    let tree = |seed, column: Column| {
        let settings = settings(seed);
        let _selected = column.select();
        let mut volume = settings.volume(Implementation::Engine).expect("a volume");
        let plan = plan(&settings, 20);
        step::run(&mut volume, Step::Create, &plan).expect("files");
        let options = compilebench_options(&settings, 15, &SMALL);
        volume.run(&mut Compilebench(&options)).expect("trees");
        volume.run(&mut Listed).expect("names")
    };
    let first = tree(1, Column::Best);
    assert!(first.len() > 60, "{}", first.len());
    assert!(first == tree(1, Column::Best));
    assert!(first == tree(1, Column::Table), "with any routine");
    assert!(first != tree(2, Column::Best));
}

/// Verifies that `xfs_repair -n` finds nothing on the volume, if it is installed.
fn repair_finds_nothing(mut volume: TestVolume) {
    volume.unmount().expect("unmounted");
    let (name, image) = (volume.name().to_owned(), volume.into_image().expect("a file"));
    let mut repair = std::process::Command::new("xfs_repair");
    let Ok(out) = repair.args(["-n", "-f"]).arg(image.path()).output() else {
        eprintln!("skipped: xfs_repair is not installed");
        return;
    };
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn the_programs_do_the_same_on_the_kernel_and_on_the_engine() {
    let mut settings = settings(1);
    settings.testbed.dir = Some("/dev/shm".into());
    if let Err(why) = settings.volume(Implementation::Kernel).and_then(|mut one| one.unmount()) {
        eprintln!("skipped: the kernel cannot mount an image: {why}");
        return;
    }
    let text = dbench_text(&settings, &SMALL).0;
    let load = Load::parse(attributes::without_removal(&text)).expect("a load");
    let clients = dbench_options(&settings, 1);
    let trees = compilebench_options(&settings, 15, &SMALL);
    let done = |implementation| {
        let mut volume = settings.volume(implementation).expect("a volume");
        let files = step::run(&mut volume, Step::Create, &plan(&settings, 20)).expect("files");
        let calls = volume.run(&mut Dbench { load: &load, options: &clients }).expect("clients");
        let runs = volume.run(&mut Compilebench(&trees)).expect("trees");
        let names = volume.run(&mut Listed).expect("names");
        assert!(volume.check_by_xfskit(2).expect("a check").clean, "{implementation:?}");
        repair_finds_nothing(volume);
        let runs: Vec<_> = runs.into_iter().map(|run| (run.kind, run.tree, run.amount)).collect();
        (files.and_then(|done| done.operations), calls.all().lines, runs, names)
    };
    let [engine, kernel] = [Implementation::Engine, Implementation::Kernel].map(done);
    assert_eq!((engine.0, engine.1), (kernel.0, kernel.1), "files, and lines of the load");
    assert_eq!(engine.2, kernel.2, "work on trees");
    assert!(engine.3.len() > 200, "{}", engine.3.len());
    assert!(engine.3 == kernel.3, "names, kinds, links and sizes");
}

#[test]
fn sections_plot_the_figures_of_their_tables() {
    let mut heard = testing::Heard::default();
    let settings = Settings { repetitions: 2, ..settings(1) };
    let mut study = Study {
        settings: &settings,
        columns: vec![Column::Best, Column::Table],
        observer: &mut heard,
    };
    let section = study.fs_mark(20).expect("files");
    // So few files are made in an instant, unless the machine is busy.
    let Answer { verdict, figure, .. } = section.answer.expect("a question");
    assert_eq!(figure.is_empty(), verdict == short::not_measured("a step"), "{verdict} {figure}");
    let section = study.compilebench(10, &SMALL).expect("trees");
    assert_eq!(section.plots.len(), 1);
}

/// Returns the figures of two turns of every column, whose steps take this time with the best
/// routine, and a second with the others. The least time of one thread is 30 ms.
fn figures_of(best: f64) -> Figures {
    let mut figures = Figures::of_threads(1);
    for row in [CREATE, WALK] {
        for column in Column::ALL {
            let seconds = if column == Column::Best { best } else { 1.0 };
            (0..2).for_each(|_| figures.add((row, 3), column, seconds, seconds));
        }
    }
    figures
}

#[test]
fn a_step_that_is_too_short_has_no_figure_no_difference_and_no_verdict() {
    let shown = |figures: &Figures| -> Vec<String> {
        let table = figures.table("t", "memory");
        table.rows[0].cells.iter().map(ToString::to_string).collect()
    };
    let long = figures_of(0.031);
    assert_eq!(shown(&long)[..4], ["1.000", "0.031", "-96.9", "-96.9"]);
    assert!(!answer(&long).figure.is_empty() && long.table("t", "").notes.is_empty());

    let short = figures_of(0.029);
    let cells = shown(&short);
    assert_eq!(cells[..5], ["1.000", "–", "–", "–", "–"], "no time, no difference");
    assert_eq!(cells[5..9], ["1.000", "0.0", "1.000", "0"], "others have theirs");
    let notes = short.table("t", "").notes;
    assert!(notes[0].contains("a measurement of less than 30 ms"), "{notes:?}");
    let answered = answer(&short);
    assert_eq!(answered.verdict, "Not measured: a step was too short.");
    assert_eq!(answered.figure, "");
    let names = |figures: &Figures| -> Vec<String> {
        let plot = figures.turns(CREATE, "create", 1000.0).expect("a plot");
        plot.lines.into_iter().map(|line| line.name).collect()
    };
    assert_eq!(names(&long).len(), names(&short).len() + 1);
    assert!(!names(&short).contains(&Column::Best.name().into()), "{:?}", names(&short));
    let mut heard = testing::Heard::default();
    let settings = settings(1);
    let study = Study::new(&settings, &Column::ALL, &mut heard);
    assert!(study.goal_text(&short).contains("create: not measured; walk: not measured"));
}

#[test]
fn an_operation_that_is_too_short_takes_no_part_in_the_answer_about_trees() {
    let of = |seconds: f64| {
        let mut figures = Figures::of_threads(1);
        let kinds = [compilebench::Kind::ALL[0], compilebench::Kind::ALL[9]];
        for (kind, seconds) in kinds.into_iter().zip([1.0, seconds]) {
            for (column, value) in [(Column::Off, 1.0), (Column::Best, 1.0)] {
                (0..4).for_each(|_| figures.add((&row(kind), 3), column, value, seconds));
            }
        }
        trees_answer(&figures).expect("a question").verdict
    };
    assert!(of(0.03).starts_with("At most 2 % in every operation"), "{}", of(0.03));
    assert!(of(0.029).starts_with("At most 2 % in every long operation"), "{}", of(0.029));
    let none = trees_answer(&Figures::of_threads(1)).expect("a question");
    assert_eq!(none.verdict, "Not measured: every operation was too short.");
}

#[test]
fn the_published_time_of_a_file_stands_beside_the_turns() {
    let plot = figures_of(0.5).turns(CREATE, "create", 1e5).expect("a plot");
    let published: Vec<&crate::report::Line> =
        plot.lines.iter().filter(|line| line.source == crate::report::Source::Published).collect();
    let names: Vec<&str> = published.iter().map(|line| &*line.name).collect();
    let expected = ["without checksums", "with checksums"];
    assert_eq!(names, expected.map(|name| format!("kernel XFS of 2013, {name}")));
    // 483 and 510 s for 50 million files.
    for (line, micros) in published.iter().zip([9.66, 10.2]) {
        let near = |point: &(f64, f64)| (point.1 - micros).abs() < 1e-9;
        assert!(line.points.len() == 2 && line.points.iter().all(near), "{line:?}");
    }
    assert!((plot.lines[1].points[0].1 - 5.0).abs() < 1e-9, "0.5 s for 100,000 files");
}

#[test]
fn a_turn_of_compilebench_is_one_sample() {
    use std::time::Duration;
    let run = |kind, millis| {
        let wall = Duration::from_millis(millis);
        let usage = crate::measure::Usage { wall, ..Default::default() };
        compilebench::Run { kind, tree: "a".into(), amount: 2_000_000, usage, cold: true }
    };
    let (create, stat) = (compilebench::Kind::ALL[0], compilebench::Kind::ALL[9]);
    assert!(create.is_rate() && !stat.is_rate());
    let runs = [run(create, 1000), run(create, 500), run(stat, 250), run(create, 1000)];
    let expected = [(create, (2.0 + 4.0 + 2.0) / 3.0, 2.5), (stat, 0.25, 0.25)];
    assert_eq!(means(&runs), expected);

    let mut heard = testing::Heard::default();
    let settings = Settings { repetitions: 2, ..settings(1) };
    // Without checksums, other tests of this process would not verify theirs.
    let columns = vec![Column::Best, Column::Table];
    let mut study = Study { settings: &settings, columns, observer: &mut heard };
    study.compilebench(15, &SMALL).expect("trees");
    let counts =
        heard.0.iter().map(|figure| figure["checksum"]["on"]["values"].as_array().map(Vec::len));
    assert!(
        counts.clone().count() > 3 && counts.clone().all(|count| count == Some(2)),
        "{:?}",
        heard.0
    );
}

#[test]
fn the_original_programs_run_beside_ours() {
    let mut settings = Settings { threads: 2, ..settings(1) };
    settings.testbed.dir = Some("/dev/shm".into());
    if let Err(why) = settings.volume(Implementation::Kernel).and_then(|mut one| one.unmount()) {
        eprintln!("skipped: the kernel cannot mount an image: {why}");
        return;
    }
    let mut heard = testing::Heard::default();
    let columns = vec![Column::Best, Column::Kernel];
    let mut study = Study { settings: &settings, columns, observer: &mut heard };
    let section = original::section(&mut study, &SMALL).expect("programs");
    // A program that is not installed has a paragraph with its name instead of a table.
    let skipped = section.text.iter().filter(|text| text.contains("was skipped")).count();
    assert_eq!(section.tables.len() + skipped, 2);
    let rates =
        heard.0.iter().filter(|it| it["original"]["rate"]["values"][0].as_f64() > Some(0.0));
    assert_eq!(rates.count(), 3 * section.tables.len());
}
