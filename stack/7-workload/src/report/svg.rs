//! A plot as SVG: lines over a common axis, ticks at round numbers, a legend below.
//!
//! The colours are those of Okabe and Ito, which readers with a colour vision deficiency can tell
//! apart. The markers differ as well. Lines that were not measured in this run are dashed.

use std::fmt::Write;

use super::escape::escaped;
use super::{Axis, Line, Plot, Source};

/// The size of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    width: f64,
    height: f64,
    /// Margin for the numbers of the vertical axis.
    left: f64,
    /// Margin for the numbers or names of the horizontal axis.
    bottom: f64,
    /// Names at the horizontal axis are slanted, to fit beside each other.
    slanted: bool,
}

impl Frame {
    /// For the whole width of a page on a desktop.
    pub const WIDE: Self =
        Self { width: 1280.0, height: 420.0, left: 84.0, bottom: 48.0, slanted: false };
    /// For a plot beside another one.
    pub const HALF: Self =
        Self { width: 640.0, height: 360.0, left: 84.0, bottom: 92.0, slanted: true };
    /// For a page on a phone.
    pub const NARROW: Self =
        Self { width: 400.0, height: 360.0, left: 64.0, bottom: 92.0, slanted: true };

    /// Returns the frame without the room for slanted names, if the plot has none.
    fn fitted(self, plot: &Plot) -> Self {
        if !self.slanted || !plot.x.names.is_empty() {
            return self;
        }
        let unused = self.bottom - Self::WIDE.bottom;
        Self { height: self.height - unused, bottom: Self::WIDE.bottom, ..self }
    }

    /// Returns the right end of the horizontal axis.
    fn right(&self) -> f64 {
        self.width - 16.0
    }

    /// Returns the position of the horizontal axis.
    fn base(&self) -> f64 {
        self.height - self.bottom
    }
}

/// Margin above the plot.
const TOP: f64 = 12.0;
/// Height of a legend line.
const LEGEND: f64 = 20.0;
/// Widths of a legend character, and of the marker with its gap.
const CHARACTER: f64 = 6.6;
const BEFORE: f64 = 28.0;
/// Part of the range of a horizontal axis that is added at each end.
const MARGIN: f64 = 0.04;
/// Part of the distance between two names that their bars take together.
const BARS: f64 = 0.76;
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#777777"];

/// An axis with its value range, mapped to `from..to` in the picture.
struct Scale<'a> {
    axis: &'a Axis,
    min: f64,
    max: f64,
    /// All ticks are whole numbers.
    whole: bool,
    from: f64,
    to: f64,
}

impl<'a> Scale<'a> {
    /// Creates the scale of a horizontal axis. A linear one covers the values without zero, and has
    /// whole ticks if these are whole numbers: there is no turn 0, and none of 1.5.
    fn across(axis: &'a Axis, values: &[f64], from: f64, to: f64) -> Self {
        let scale = Self::new(axis, values.iter().copied(), from, to);
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (min, max) =
            (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        // Without a range of its own, it is that from zero.
        if !axis.names.is_empty() || axis.logarithmic || max <= min {
            return scale;
        }
        let (margin, whole) = ((max - min) * MARGIN, finite().all(|value| value.fract() == 0.0));
        Self { min: min - margin, max: max + margin, whole, ..scale }
    }

    /// Creates a scale that covers all values. Linear scales include zero.
    fn new(axis: &'a Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let values = values.filter(|v| v.is_finite() && (!axis.logarithmic || *v > 0.0));
        let (mut min, mut max) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(v), max.max(v)));
        if min > max {
            (min, max) = (1.0, 1.0);
        }
        if !axis.names.is_empty() {
            #[allow(clippy::cast_precision_loss)] // a handful of names
            let last = axis.names.len() as f64;
            (min, max) = (0.5, last + 0.5);
        } else if axis.logarithmic {
            (min, max) = (min / 1.1, max * 1.1);
        } else {
            (min, max) = (min.min(0.0), if max <= 0.0 { 1.0 } else { max * 1.05 });
        }
        Self { axis, min, max, whole: false, from, to }
    }

    /// Returns the position of `value` in the picture.
    fn position(&self, value: f64) -> f64 {
        let fraction = if self.axis.logarithmic {
            (value / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        };
        self.from + fraction * (self.to - self.from)
    }

    /// Returns the positions of names, or some round numbers within the range.
    fn ticks(&self) -> Vec<f64> {
        if !self.axis.names.is_empty() {
            return (1..).take(self.axis.names.len()).map(f64::from).collect();
        }
        let decades = if self.axis.logarithmic { self.decades() } else { Vec::new() };
        // A narrow range may lie between two steps of a decade.
        if decades.len() < TICKS_MIN { self.round_numbers() } else { decades }
    }

    /// Returns the powers of ten within the range, and in a range of few of them also twice and
    /// five times each.
    fn decades(&self) -> Vec<f64> {
        let steps: &[f64] =
            if (self.max / self.min).log10() > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (mut ticks, mut decade) = (Vec::new(), 10_f64.powf(self.min.log10().floor()));
        while decade <= self.max {
            ticks.extend(steps.iter().map(|step| step * decade));
            decade *= 10.0;
        }
        ticks.retain(|tick| (self.min..=self.max).contains(tick));
        ticks
    }

    /// Returns about five round numbers within the range, at equal distances.
    fn round_numbers(&self) -> Vec<f64> {
        let rough = (self.max - self.min) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * power >= rough).unwrap_or(10.0);
        let step = if self.whole { (step * power).max(1.0) } else { step * power };
        let (mut ticks, mut number) = (Vec::new(), (self.min / step).ceil());
        while number * step <= self.max {
            // Multiples instead of sums keep zero exact; adding 0.0 removes a negative sign of
            // zero.
            ticks.push(number * step + 0.0);
            number += 1.0;
        }
        ticks.retain(|tick| (self.min..=self.max).contains(tick));
        ticks
    }
}

impl Scale<'_> {
    /// Returns the label at `tick`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // ticks of names are 1, 2, …
    fn shown(&self, tick: f64) -> String {
        let name = self.axis.names.get((tick - 1.0).max(0.0) as usize);
        name.map_or_else(|| short(tick), |name| escaped(name))
    }

    /// Returns the ticks with their labels. Labels of different numbers differ.
    fn labels(&self) -> Vec<(f64, String)> {
        let ticks = self.ticks();
        if !self.axis.names.is_empty() {
            return ticks.iter().map(|tick| (*tick, self.shown(*tick))).collect();
        }
        let shown = |digits| -> Vec<String> {
            ticks.iter().map(|tick| short_with(*tick, digits)).collect()
        };
        let differ = |labels: &Vec<String>| {
            labels.iter().collect::<std::collections::BTreeSet<_>>().len() == labels.len()
        };
        let labels = (DIGITS..=DIGITS_MAX).map(shown).find(differ);
        let labels = labels.unwrap_or_else(|| shown(DIGITS_MAX));
        ticks.iter().copied().zip(labels).collect()
    }
}

/// Fewer ticks than these do not show a scale.
const TICKS_MIN: usize = 3;

/// Decimals of an axis label, and most decimals if labels would be the same otherwise.
const DIGITS: usize = 2;
const DIGITS_MAX: usize = 9;

/// Formats a number as an axis label: 250k, 1.5M, 0.02.
fn short(value: f64) -> String {
    short_with(value, DIGITS)
}

/// Formats a number as an axis label with at most this number of decimals.
fn short_with(value: f64, decimals: usize) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let shown = if size > 0.0 && size < 0.001 {
        format!("{scaled:.*e}", decimals - DIGITS)
    } else {
        let digits = format!("{scaled:.decimals$}");
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    shown + suffix
}

/// Formats the plot as an `svg` element. Values with names are bars, all others lines.
pub fn plot(plot: &Plot, frame: Frame) -> String {
    let frame = frame.fitted(plot);
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let across: Vec<f64> = points().map(|p| p.0).collect();
    let x = Scale::across(&plot.x, &across, frame.left, frame.right());
    let mut y = Scale::new(&plot.y, points().map(|p| p.1), frame.base(), TOP);
    let bars = !plot.x.names.is_empty();
    if bars && plot.y.logarithmic {
        // The smallest bar has a height, too.
        y.min /= 3.0;
    }
    let columns = legend_columns(&plot.lines, &frame);
    #[allow(clippy::cast_precision_loss)] // a handful of lines
    let height = frame.height + LEGEND * plot.lines.len().div_ceil(columns) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">\n",
        frame.width,
        escaped(&plot.title)
    );
    axes(&mut svg, &x, &y, &frame);
    for (n, line) in plot.lines.iter().enumerate() {
        if bars {
            draw_bars(&mut svg, (n, plot.lines.len()), line, &x, &y);
        } else {
            draw(&mut svg, n, line, &x, &y);
        }
        legend(&mut svg, n, line, columns, &frame);
    }
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, x: &Scale<'_>, y: &Scale<'_>, frame: &Frame) {
    let (left, right, base) = (frame.left, frame.right(), frame.base());
    for (tick, label) in y.labels() {
        let at = y.position(tick);
        let _ = writeln!(
            svg,
            "<line class=grid x1={left} x2={right} y1={at:.1} y2={at:.1} />\
             <text class=tick x={} y={:.1} text-anchor=end>{label}</text>",
            left - 8.0,
            at + 4.0,
        );
    }
    let slanted = frame.slanted && !x.axis.names.is_empty();
    for (tick, label) in x.labels() {
        let (at, below) = (x.position(tick), base + 19.0);
        let place = if slanted {
            format!("transform=\"translate({at:.1} {below}) rotate(-40)\" text-anchor=end")
        } else {
            format!("x={at:.1} y={below} text-anchor=middle")
        };
        let _ = writeln!(
            svg,
            "<line class=axis x1={at:.1} x2={at:.1} y1={base} y2={} />\
             <text class=tick {place}>{label}</text>",
            base + 5.0,
        );
    }
    let middle = f64::midpoint(TOP, base);
    let _ = writeln!(
        svg,
        "<line class=axis x1={left} x2={right} y1={base} y2={base} />\
         <text class=label x={} y={} text-anchor=middle>{}</text>\
         <text class=label transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=middle>{}</text>",
        f64::midpoint(left, right),
        frame.height - 8.0,
        escaped(&x.axis.label),
        escaped(&y.axis.label),
    );
}

/// Returns the shape of the marker of line `n`. Lines of one colour have different ones.
fn shape(n: usize) -> usize {
    (n + n / COLOURS.len()) % 4
}

/// Returns the opening tag of the marker of line `n`.
fn mark(n: usize, x: f64, y: f64) -> String {
    let colour = COLOURS[n % COLOURS.len()];
    match shape(n) {
        0 => format!("<circle cx={x:.1} cy={y:.1} r=3.5 fill=\"{colour}\">"),
        1 => format!("<rect x={:.1} y={:.1} width=7 height=7 fill=\"{colour}\">", x - 3.5, y - 3.5),
        2 => format!("<path d=\"M{x:.1} {:.1}l4.5 8h-9z\" fill=\"{colour}\">", y - 5.0),
        _ => format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\" fill=\"{colour}\">", y - 5.0),
    }
}

/// Returns the closing tag of the element that [`mark`] opens.
fn mark_end(n: usize) -> &'static str {
    match shape(n) {
        0 => "</circle>",
        1 => "</rect>",
        _ => "</path>",
    }
}

/// Draws the values of line `n` of `all` as bars, side by side with those of the other lines.
/// Bars that were not measured in this run are outlines.
#[allow(clippy::cast_precision_loss)] // a handful of lines
fn draw_bars(
    svg: &mut String,
    (n, all): (usize, usize),
    line: &Line,
    x: &Scale<'_>,
    y: &Scale<'_>,
) {
    let colour = COLOURS[n % COLOURS.len()];
    let fill = match line.source {
        Source::Measured => format!("fill=\"{colour}\""),
        Source::Published | Source::Emulated | Source::Model => {
            format!(
                "fill=\"{colour}\" fill-opacity=0.25 stroke=\"{colour}\" stroke-dasharray=\"4 3\""
            )
        }
    };
    let group = (x.position(2.0) - x.position(1.0)) * BARS;
    let width = group / all as f64;
    // Bars begin at zero, or at the lower end of a logarithmic axis.
    let zero = y.position(if y.axis.logarithmic { y.min } else { 0.0 });
    for &(a, b) in line.points.iter().filter(|(a, b)| a.is_finite() && b.is_finite()) {
        if y.axis.logarithmic && b <= 0.0 {
            continue;
        }
        let (left, at) = (x.position(a) - group / 2.0 + width * n as f64, y.position(b));
        let label = format!("{}: {}, {}", line.name, x.shown(a), short(b));
        let _ = writeln!(
            svg,
            "<rect x={left:.1} y={:.1} width={:.1} height={:.1} {fill}><title>{}</title></rect>",
            at.min(zero),
            (width - 2.0).max(1.0),
            (at - zero).abs().max(1.0),
            escaped(&label),
        );
    }
}

fn draw(svg: &mut String, n: usize, line: &Line, x: &Scale<'_>, y: &Scale<'_>) {
    // A logarithmic axis has no zero.
    let positions: Vec<(f64, f64, f64, f64)> = line
        .points
        .iter()
        .map(|&(a, b)| (x.position(a), y.position(b), a, b))
        .filter(|(x, y, ..)| x.is_finite() && y.is_finite())
        .collect();
    let path: Vec<String> = positions.iter().map(|(x, y, ..)| format!("{x:.1},{y:.1}")).collect();
    let dash = if line.source == Source::Measured { "" } else { " stroke-dasharray=\"6 4\"" };
    let colour = COLOURS[n % COLOURS.len()];
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=none stroke=\"{colour}\" stroke-width=2{dash} />",
        path.join(" ")
    );
    for (at_x, at_y, a, b) in positions {
        let label = format!("{}: {}, {}", line.name, x.shown(a), short(b));
        let _ = writeln!(
            svg,
            "{}<title>{}</title>{}",
            mark(n, at_x, at_y),
            escaped(&label),
            mark_end(n)
        );
    }
}

/// Returns the legend text of a line.
fn legend_text(line: &Line) -> String {
    match line.source {
        Source::Measured => line.name.clone(),
        Source::Published => format!("{} (published)", line.name),
        Source::Emulated => format!("{} (emulated)", line.name),
        Source::Model => format!("{} (model)", line.name),
    }
}

/// Returns how many legend entries fit beside each other.
fn legend_columns(lines: &[Line], frame: &Frame) -> usize {
    let widest = lines.iter().map(|line| legend_text(line).chars().count()).max().unwrap_or(0);
    let fits = |n: &u32| {
        let widest = f64::from(u32::try_from(widest).unwrap_or(u32::MAX));
        (widest * CHARACTER + BEFORE) * f64::from(*n) <= frame.width - frame.left
    };
    (2..=4).rev().find(fits).unwrap_or(1) as usize
}

#[allow(clippy::cast_precision_loss)] // a handful of lines
fn legend(svg: &mut String, n: usize, line: &Line, legend_columns: usize, frame: &Frame) {
    // A single column is as wide as the picture.
    let left = if legend_columns == 1 { 8.0 } else { frame.left };
    let width = (frame.width - left) / legend_columns as f64;
    let x = left + width * (n % legend_columns) as f64;
    let y = frame.height + LEGEND * (n / legend_columns) as f64 + 6.0;
    let text = legend_text(line);
    let _ = writeln!(
        svg,
        "{}{}<text class=tick x={} y={}>{}</text>",
        mark(n, x, y),
        mark_end(n),
        x + 12.0,
        y + 4.0,
        escaped(&text)
    );
}

#[cfg(test)]
mod tests;
