use super::*;

#[test]
fn ticks_are_round_and_within_the_axis() {
    let axis = Axis::linear("n");
    assert_eq!(Scale::new(&axis, [0.0, 97.0].into_iter(), 0.0, 1.0).ticks(), [0.0, 50.0, 100.0]);
    let ticks = Scale::new(&axis, [-0.4, 0.9].into_iter(), 0.0, 1.0).ticks();
    let shown: Vec<String> = ticks.into_iter().map(short).collect();
    assert!(shown.contains(&"0".to_owned()) && shown.iter().all(|tick| tick.len() < 5));
    let axis = Axis::logarithmic("n");
    let ticks = Scale::new(&axis, [1.0, 8.0, 64.0].into_iter(), 0.0, 1.0).ticks();
    assert_eq!(ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
}

#[test]
fn a_horizontal_axis_has_no_turn_0_and_no_half_turn() {
    let axis = Axis::linear("turn");
    let ticks = |values: &[f64]| Scale::across(&axis, values, 0.0, 1.0).ticks();
    assert_eq!(ticks(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
    assert_eq!(ticks(&[1.0, 9.0]), [2.0, 4.0, 6.0, 8.0]);
    assert!(ticks(&[2700.0, 4000.0]).first() >= Some(&2700.0), "no empty space before them");
    let parts: Vec<String> = ticks(&[0.5, 1.0]).into_iter().map(short).collect();
    assert_eq!(parts, ["0.6", "0.8", "1"], "numbers that are not whole");
    assert_eq!(ticks(&[3.0]), Scale::new(&axis, [3.0].into_iter(), 0.0, 1.0).ticks());
}

#[test]
fn a_plot_without_names_has_no_room_for_them() {
    let plot = |x: Axis| Plot { title: String::new(), x, y: Axis::linear("s"), lines: vec![] };
    let (numbers, names) = (plot(Axis::linear("n")), plot(Axis::named("n", vec!["a".into()])));
    for frame in [Frame::WIDE, Frame::HALF, Frame::NARROW] {
        assert_eq!(frame.fitted(&names), frame);
        let fitted = frame.fitted(&numbers);
        let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(same(fitted.bottom, Frame::WIDE.bottom), "{fitted:?}");
        assert!(same(fitted.base(), frame.base()), "the plot itself keeps its size: {fitted:?}");
    }
}

#[test]
fn labels_of_different_ticks_differ() {
    for most in [0.004, 0.021, 0.03, 0.9, 7.0, 10_100.0, 1_040_000.0] {
        for axis in [Axis::linear("s"), Axis::logarithmic("s")] {
            let scale = Scale::new(&axis, [most * 0.97, most].into_iter(), 0.0, 1.0);
            let mut labels: Vec<String> = scale.labels().into_iter().map(|tick| tick.1).collect();
            let all = labels.len();
            assert!(all >= TICKS_MIN, "{most}: {labels:?}");
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), all, "{most}: {labels:?}");
        }
    }
    let axis = Axis::linear("s");
    let labels = Scale::new(&axis, [0.021].into_iter(), 0.0, 1.0).labels();
    let labels: Vec<&str> = labels.iter().map(|tick| tick.1.as_str()).collect();
    assert_eq!(labels, ["0", "0.005", "0.01", "0.015", "0.02"]);
}

#[test]
fn categories_are_bars_that_no_line_joins() {
    let line = |name: &str, source, points: &[(f64, f64)]| Line {
        name: name.into(),
        source,
        points: points.to_vec(),
    };
    let mut bars = Plot {
        title: "rates".into(),
        x: Axis::named("step", vec!["create".into(), "rm".into()]),
        y: Axis::logarithmic("1/s"),
        lines: vec![
            line("ours", Source::Measured, &[(1.0, 500.0), (2.0, f64::NAN)]),
            line("theirs", Source::Published, &[(1.0, 40.0), (2.0, 20.0)]),
        ],
    };
    for frame in [Frame::WIDE, Frame::NARROW] {
        let svg = plot(&bars, frame);
        assert!(!svg.contains("<polyline") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 3);
    }
    bars.x = Axis::linear("threads");
    assert_eq!(plot(&bars, Frame::WIDE).matches("<polyline").count(), 2);
}

#[test]
fn lines_of_one_colour_have_different_marks() {
    for n in 0..16 {
        assert_ne!(mark(n, 0.0, 0.0), mark(n + COLOURS.len(), 0.0, 0.0), "{n}");
    }
}

#[test]
fn a_zero_is_no_point_of_a_logarithmic_axis() {
    let points = vec![(1.0, 0.0), (2.0, 4.0), (4.0, 5.0)];
    let lines = vec![Line { name: "a".into(), source: Source::Measured, points }];
    let (x, y) = (Axis::logarithmic("n"), Axis::logarithmic("s"));
    let svg = plot(&Plot { title: "p".into(), x, y, lines }, Frame::WIDE);
    assert!(!svg.contains("inf") && !svg.contains("NaN"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3, "two points and the legend: {svg}");
}

#[test]
fn numbers_on_axes_are_short() {
    let cases = [(250_000.0, "250k"), (1.5e6, "1.5M"), (0.0, "0"), (0.25, "0.25"), (512.0, "512")];
    for (value, shown) in cases {
        assert_eq!(short(value), shown);
    }
}

#[test]
fn names_replace_numbers_and_long_legends_use_one_column() {
    let axis = Axis::named("step", vec!["create".into(), "a < b".into()]);
    let scale = Scale::new(&axis, [1.0, 2.0].into_iter(), 0.0, 1.0);
    assert_eq!(scale.ticks(), [1.0, 2.0]);
    assert_eq!(scale.shown(2.0), "a &lt; b");
    let line = |name: &str| Line { name: name.into(), source: Source::Measured, points: vec![] };
    let columns = |name: &str| legend_columns(&[line("set"), line(name)], &Frame::NARROW);
    assert_eq!((columns("removed"), columns(&"a long name ".repeat(5))), (4, 1));
}

#[test]
fn an_empty_plot_is_valid() {
    let empty = Plot {
        title: "nothing".into(),
        x: Axis::logarithmic("x"),
        y: Axis::linear("y"),
        lines: vec![Line { name: "none".into(), source: Source::Model, points: vec![] }],
    };
    assert!(!plot(&empty, Frame::WIDE).contains("NaN"));
}
