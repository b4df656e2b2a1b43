use super::*;
use crate::Environment;

fn samples(values: &[f64]) -> Samples {
    values.iter().copied().collect()
}

#[test]
fn the_chance_of_turns_apart_counts_their_orders() {
    // Two of the 2, 6, 20, 70 and 35 ways.
    for (n, m, ways) in [(1, 1, 2.0), (2, 2, 6.0), (3, 3, 20.0), (4, 4, 70.0), (3, 4, 35.0)] {
        assert!((chance(n, m) - 2.0 / ways).abs() < 1e-12, "{n} {m}");
    }
    assert!(chance(1000, 1000) < 1e-100);
}

#[test]
fn a_figure_differs_only_beyond_the_noise_and_never_in_a_single_turn() {
    let low: Vec<f64> = (0..6).map(|n| 100.0 + f64::from(n)).collect();
    let high: Vec<f64> = low.iter().map(|value| value * 1.2).collect();
    let near: Vec<f64> = low.iter().map(|value| value + 1.0).collect();
    let verdict = |a: &[f64], b: &[f64]| judged(&samples(a), &samples(b)).1;
    assert_eq!(verdict(&low, &high), Verdict::Differs);
    assert_eq!(verdict(&high, &low), Verdict::Differs);
    assert_eq!(verdict(&low, &near), Verdict::WithinNoise);
    assert_eq!(verdict(&low, &low), Verdict::WithinNoise);
    assert_eq!(verdict(&low[..4], &high[..4]), Verdict::Differs);
    assert_eq!(verdict(&low[..3], &high[..3]), Verdict::TooFewTurns);
    assert_eq!(verdict(&low[..1], &high), Verdict::NoSpread);
    assert_eq!(verdict(&low, &[1e9]), Verdict::NoSpread);
    assert_eq!(verdict(&[0.0; 5], &[0.0; 5]), Verdict::WithinNoise);
    assert_eq!(verdict(&[0.0; 5], &[1.0; 5]), Verdict::Differs);
    let (ratio, _) = judged(&samples(&low), &samples(&high));
    assert!((ratio.ratio - 1.2).abs() < 1e-12 && ratio.low > 1.1 && ratio.high < 1.3);
}

/// A report with one table of these rows: name, threads, turns.
fn report(title: &str, rows: &[(&str, u64, &[f64])]) -> Report {
    let mut table = Table::new(title, &[("threads", ""), ("rate", "1/s"), ("rate", "of all")]);
    for (name, threads, turns) in rows {
        let half = samples(turns).map(|value| value / 2.0);
        let cells =
            vec![Cell::Count(*threads), Cell::median(&samples(turns), 1), Cell::median(&half, 1)];
        table.row(*name, "memory", cells);
    }
    table.published("published", "elsewhere", vec![Cell::None; 3]);
    let mut section = Section { part: "s.p".into(), ..Section::new("a section") };
    section.tables.push(table);
    Report::new("r", Environment::now(), vec![section])
}

#[test]
fn figures_are_matched_by_section_table_row_and_column() {
    let a = report("t", &[("x", 1, &[1.0; 4]), ("x", 2, &[2.0; 4]), ("y", 1, &[3.0; 4])]);
    let mut b = report("t", &[("y", 1, &[3.0; 4]), ("x", 2, &[4.0; 4]), ("z", 1, &[1.0; 4])]);
    b.sections[0].title = "another title of the same part".into();
    let found = compare(&a, &b);
    let figures: Vec<_> = found
        .figures
        .iter()
        .map(|of| (of.row.as_str(), of.unit.as_str(), of.a, of.b, of.verdict))
        .collect();
    let expected = [
        ("x, threads 2", "1/s", 2.0, 4.0, Verdict::Differs),
        ("x, threads 2", "of all", 1.0, 2.0, Verdict::Differs),
        ("y", "1/s", 3.0, 3.0, Verdict::WithinNoise),
        ("y", "of all", 1.5, 1.5, Verdict::WithinNoise),
    ];
    assert_eq!(figures, expected);
    assert_eq!(found.only_a, ["a section: t: x, threads 1"]);
    assert_eq!(found.only_b, ["a section: t: z"]);
    let titles: Vec<String> = found.sections().into_iter().map(|part| part.title).collect();
    let expected = [
        "Circumstances that differ",
        "Beyond the noise: 2 of 4 figures",
        "Within the noise: 2 of 4 figures",
        "In one report only",
    ];
    assert_eq!(titles, expected);
}

#[test]
fn rows_that_cannot_be_told_apart_are_not_compared() {
    let a = report("t", &[("x", 1, &[1.0; 4]), ("x", 1, &[2.0; 4])]);
    let found = compare(&a, &a);
    assert!(found.is_empty());
    assert_eq!((found.only_a.len(), found.only_b.len()), (2, 2));
    let other = compare(&a, &report("another", &[("x", 1, &[1.0; 4])]));
    assert_eq!((other.only_a.len(), other.only_b.len()), (1, 1));
}

#[test]
fn circumstances_that_differ_are_named_with_both_values() {
    let mut a = report("t", &[]);
    let mut b = a.clone();
    assert_eq!(a.differences(&b), []);
    a.options.insert("seed".into(), 1.into());
    b.options.insert("seed".into(), 2.into());
    b.options.insert("file_size".into(), 512.into());
    b.environment.kernel = "6.1".into();
    b.environment.load = "99".into();
    b.environment.time = "later".into();
    a.environment.kernel = "6.0".into();
    let of =
        |name: &str, a: &str, b: &str| Difference { name: name.into(), a: a.into(), b: b.into() };
    let expected =
        [of("kernel", "6.0", "6.1"), of("seed", "1", "2"), of("file-size", "not given", "512")];
    assert_eq!(a.differences(&b), expected);
}
