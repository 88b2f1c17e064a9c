//! Curves as SVG: plain shapes that need no script.
//!
//! It must never know what a curve is of: it is given points, names and how ends are written.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 36.0;

/// A curve with its name.
pub(super) struct Curve {
    pub(super) name: String,
    /// From left to right; the places are those of the axis.
    pub(super) points: Vec<(f64, f64)>,
}

/// What stands below and beside a chart.
pub(super) struct Axes {
    /// What it shows, for who cannot see it.
    pub(super) title: &'static str,
    /// Places and what is written there; the first and the last are the ends.
    pub(super) across: Vec<(f64, String)>,
    /// How a height is written.
    pub(super) write: fn(f64) -> String,
}

/// The chart. Nothing where there is nothing to draw.
pub(super) fn svg(axes: &Axes, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let (Some((left, _)), Some((right, _))) = (axes.across.first(), axes.across.last()) else { return String::new() };
    if points().next().is_none() || right <= left {
        return String::new();
    }
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05;
    let x = |place: f64| LEFT + (place - left) / (right - left) * (WIDTH - LEFT - RIGHT);
    let y = |height: f64| HEIGHT - BOTTOM - height / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", axes.title);
    for quarter in 0..=4 {
        let height = top * f64::from(quarter) / 4.0;
        let (line, end) = (y(height), WIDTH - RIGHT);
        let words = (axes.write)(height);
        // Text of our own numbers: nothing in it needs to be escaped.
        _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {line:.1}H{end}\"/>");
        _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>", LEFT - 8.0, line + 4.0);
    }
    for (place, words) in &axes.across {
        let (at, base) = (x(*place), HEIGHT - BOTTOM + 20.0);
        _ = write!(svg, "<text x=\"{at:.1}\" y=\"{base:.1}\" text-anchor=\"middle\">{words}</text>");
    }
    for (number, curve) in curves.iter().enumerate() {
        let path: Vec<_> =
            curve.points.iter().map(|(place, height)| format!("{:.1} {:.1}", x(*place), y(*height))).collect();
        let (color, path, name) = (number % 2, path.join("L"), &curve.name);
        _ = write!(svg, "<path class=\"curve curve{color}\" d=\"M{path}\"><title>{name}</title></path>");
    }
    svg + "</svg>"
}
