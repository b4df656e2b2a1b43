use std::collections::BTreeMap;

use super::*;
use crate::driver::testing::Recorder;
use crate::driver::tree::walk;
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

/// Lists every name on a volume with its size, in order.
struct Listed;

impl Job for Listed {
    type Output = Vec<(Vec<u8>, u64)>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Self::Output> {
        let mut names = Vec::new();
        walk(&*driver, &driver.root()?, &mut |dir, name, _| {
            names.push((name.to_vec(), driver.stat(dir, name)?.size));
            Ok(())
        })?;
        names.sort();
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
    assert_eq!(section.plots.len(), 2);
    let lines = &section.plots[0].lines;
    assert_eq!(lines.iter().map(|line| line.points.len()).collect::<Vec<_>>(), [2, 2]);
    let section = study.compilebench(10, &SMALL).expect("trees");
    assert_eq!(section.plots.len(), 1);
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
    let expected = [(create, (2.0 + 4.0 + 2.0) / 3.0), (stat, 0.25)];
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
