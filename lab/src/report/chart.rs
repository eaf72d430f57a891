//! Charts as SVG: lines with bands, and bars.

use std::fmt::Write;

use crate::stats::Spread;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
/// Edges of the frame. The legend is to its right.
const LEFT: f64 = 68.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 344.0;
/// Average width of a character at a font size of 12.
const CHARACTER: f64 = 6.6;
const GREY: &str = "#666666";

/// Colours of the peers, ours first. As far as possible they are distinct to the colour-blind.
const COLOURS: &[(&str, &str)] = &[
    ("whimbrel", "#d1352b"),
    ("whimbrel-rs", "#f08a5d"),
    ("whimbrel-cubic", "#a0522d"),
    ("whimbrel-once", "#f5b7a8"),
    ("whimbrel-deadline", "#8b1a1a"),
    ("whimbrel-urgent", "#ff6f91"),
    ("whimbrel-unrepaired", "#e8c1a0"),
    ("whimbrel-redundant", "#5a1846"),
    ("tcp-cubic", "#1f4e8c"),
    ("tcp-bbr", "#3fa0e0"),
    ("tcp", "#3fa0e0"),
    ("tls-cubic", "#7b5ea7"),
    ("tls-bbr", "#b39ddb"),
    ("quinn-cubic", "#157a4a"),
    ("quinn-bbr", "#5bbf7a"),
    ("quinn", "#5bbf7a"),
    ("noq", "#c9a400"),
    ("noq-bbr", "#8a7000"),
    ("sctp", "#c45aa0"),
    ("srt", "#d97706"),
    ("srt-fec", "#f4b860"),
    ("mptcp-cubic", "#0b6e6e"),
    ("mptcp-bbr", "#17a2a2"),
    ("udp", "#888888"),
    ("whimbrel-proxy", "#d1352b"),
    ("hysteria2", "#5bbf7a"),
    (Series::LIMIT, "#222222"),
];

/// An axis of a chart.
#[derive(Clone, Default)]
pub(super) struct Axis {
    /// Quantity on the axis, with its unit.
    pub(super) label: String,
    /// Whether equal ratios are equal lengths.
    pub(super) logarithmic: bool,
}

/// One line.
pub(super) struct Series {
    /// Name in the legend, which decides the colour.
    pub(super) name: String,
    /// Points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// x, least value and greatest value.
    pub(super) band: Vec<(f64, f64, f64)>,
    /// Whether its points are drawn as dots.
    pub(super) marks: bool,
}

impl Series {
    /// Name of the series for the physical limit.
    pub(super) const LIMIT: &'static str = "limit";
}

/// Lines over a common x.
pub(super) struct LineChart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// Range of x to shade.
    pub(super) shaded: Option<(f64, f64)>,
}

/// Bars side by side.
pub(super) struct BarChart {
    pub(super) title: String,
    pub(super) y: Axis,
    pub(super) groups: Vec<BarGroup>,
}

/// The bars of one condition.
pub(super) struct BarGroup {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
    /// Physical limit.
    pub(super) limit: Option<f64>,
}

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) spread: Spread,
}

impl LineChart {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let xs = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let ys = self.series.iter().flat_map(|series| {
            series
                .points
                .iter()
                .map(|point| point.1)
                .chain(series.band.iter().flat_map(|band| [band.1, band.2]))
        });
        let x = Scale::new(&self.x, xs, (LEFT, RIGHT), false);
        let y = Scale::new(&self.y, ys, (BOTTOM, TOP), true);
        let mut canvas = Canvas::new(&self.title);
        if let Some((from, to)) = self.shaded {
            canvas.rectangle(x.at(from), TOP, x.at(to) - x.at(from), BOTTOM - TOP, "#000000", 0.07);
        }
        canvas.vertical(&y, &self.y.label);
        canvas.horizontal(&x, &self.x.label);
        let colours = colours(self.series.iter().map(|series| series.name.as_str()));
        for (series, colour) in self.series.iter().zip(&colours) {
            canvas.band(series, colour, &x, &y);
        }
        for (series, colour) in self.series.iter().zip(&colours).rev() {
            canvas.line(series, colour, &x, &y);
        }
        canvas.legend(self.series.iter().map(|series| series.name.as_str()).zip(&colours));
        canvas.end()
    }
}

impl BarChart {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let values = bars.flat_map(|bar| [bar.spread.low, bar.spread.median, bar.spread.high]);
        let limits = self.groups.iter().filter_map(|group| group.limit);
        let y = Scale::new(&self.y, values.chain(limits), (BOTTOM, TOP), true);
        let mut names: Vec<&str> = Vec::new();
        for bar in self.groups.iter().flat_map(|group| &group.bars) {
            if !names.contains(&bar.name.as_str()) {
                names.push(&bar.name);
            }
        }
        let mut colours = colours(names.iter().copied());
        let mut canvas = Canvas::new(&self.title);
        canvas.vertical(&y, &self.y.label);
        let each = (RIGHT - LEFT) / self.groups.len() as f64;
        for (index, group) in self.groups.iter().enumerate() {
            let left = LEFT + each * (index as f64 + 0.08);
            let width = each * 0.84 / group.bars.len() as f64;
            for (place, bar) in group.bars.iter().enumerate() {
                let colour = names.iter().position(|name| *name == bar.name).map_or(GREY, |at| &colours[at]);
                canvas.bar(&bar.spread, left + width * place as f64, width, colour, &y);
            }
            if let Some(limit) = group.limit {
                canvas.limit(left, left + each * 0.84, y.at(limit));
            }
            for (number, line) in lines(&group.name, (each / CHARACTER) as usize).iter().enumerate() {
                let y = BOTTOM + 18.0 + 14.0 * number as f64;
                canvas.text(left + each * 0.42, y, "middle", 12.0, GREY, line);
            }
        }
        if self.groups.iter().any(|group| group.limit.is_some()) {
            names.push(Series::LIMIT);
            colours.push(colour(Series::LIMIT).unwrap_or(GREY).to_owned());
        }
        canvas.legend(names.iter().copied().zip(&colours));
        canvas.end()
    }
}

/// Breaks text into lines of at most this many characters. Only a longer word exceeds it.
fn lines(words: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn colour(name: &str) -> Option<&'static str> {
    COLOURS.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour)
}

/// Returns a colour for each name. Several flows of one peer (`2: whimbrel`) get the peer's colour first, then any that
/// is left.
fn colours<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let peer = name.split_once(": ").map_or(name, |(_, peer)| peer);
        let free = |colour: &&str| !taken.iter().any(|one| one == colour);
        let own = colour(peer).filter(free);
        let any = own.or_else(|| COLOURS.iter().map(|(_, colour)| *colour).find(free));
        taken.push(any.unwrap_or(GREY).to_owned());
    }
    taken
}

/// A mapping from values to positions on the canvas.
struct Scale {
    logarithmic: bool,
    values: (f64, f64),
    places: (f64, f64),
    ticks: Vec<f64>,
}

impl Scale {
    /// Covers all values. A linear scale begins at 0 if `zero`.
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, places: (f64, f64), zero: bool) -> Self {
        let usable = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let (low, high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low, high) } else { (0.1, 1.0) };
        if axis.logarithmic {
            Self::logarithmic(low, high, places)
        } else {
            Self::linear(low, high, places, zero)
        }
    }

    fn linear(low: f64, high: f64, places: (f64, f64), zero: bool) -> Self {
        let low = if zero { low.min(0.0) } else { low };
        let high = if high > low { high } else { low + 1.0 };
        let step = step((high - low) / if zero { 5.0 } else { 9.0 });
        // A vertical scale ends at a tick, a horizontal one at the last value.
        let top = if zero { (high / step).ceil() * step } else { high };
        let first = (low / step).ceil() as i64;
        let ticks = (first..).map(|number| number as f64 * step).take_while(|tick| *tick <= top + step / 1e6);
        Self { logarithmic: false, values: (low, top), places, ticks: ticks.collect() }
    }

    fn logarithmic(low: f64, high: f64, places: (f64, f64)) -> Self {
        let (low, high) = (low * 0.93, if high > low { high * 1.07 } else { low * 10.0 });
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let dense = high / low < 200.0;
        let factors: &[f64] = if dense { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)));
        let ticks = all.filter(|tick| (low..=high).contains(tick)).collect();
        Self { logarithmic: true, values: (low, high), places, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let along = |value: f64| if self.logarithmic { value.max(self.values.0).log10() } else { value };
        let (low, high) = (along(self.values.0), along(self.values.1));
        let share = ((along(value) - low) / (high - low)).clamp(0.0, 1.0);
        self.places.0 + (self.places.1 - self.places.0) * share
    }

    fn label(&self, tick: f64) -> String {
        let text = format!("{:.*}", if tick.abs() >= 10.0 { 0 } else { 3 }, tick);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= raw * 0.999);
    factor.unwrap_or(10.0) * power
}

/// A picture in the making.
struct Canvas {
    svg: String,
}

impl Canvas {
    fn new(title: &str) -> Self {
        let mut canvas = Self {
            svg: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
                 font-family=\"system-ui, Segoe UI, Helvetica, Arial, sans-serif\">\n"
            ),
        };
        canvas.push(&format!("<title>{}</title>", escape(title)));
        canvas.push(&format!("<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"#ffffff\"/>"));
        canvas.text(LEFT, 26.0, "start", 15.0, "#111111", title);
        canvas
    }

    fn push(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }

    fn end(mut self) -> String {
        self.push("</svg>");
        self.svg
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, size: f64, colour: &str, text: &str) {
        self.push(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            escape(text)
        ));
    }

    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str, opacity: f64) {
        self.push(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" \
             fill-opacity=\"{opacity}\"/>"
        ));
    }

    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, more: &str) {
        self.push(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{more}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn vertical(&mut self, scale: &Scale, label: &str) {
        for tick in &scale.ticks {
            let y = scale.at(*tick);
            self.stroke((LEFT, y), (RIGHT, y), "#e4e4e4", 1.0, "");
            self.text(LEFT - 8.0, y + 4.0, "end", 12.0, GREY, &scale.label(*tick));
        }
        self.stroke((LEFT, BOTTOM), (RIGHT, BOTTOM), "#999999", 1.0, "");
        let middle = (TOP + BOTTOM) / 2.0;
        self.push(&format!(
            "<text x=\"18\" y=\"{middle}\" font-size=\"12.5\" text-anchor=\"middle\" fill=\"#333333\" \
             transform=\"rotate(-90 18 {middle})\">{}</text>",
            escape(label)
        ));
    }

    fn horizontal(&mut self, scale: &Scale, label: &str) {
        for tick in &scale.ticks {
            let x = scale.at(*tick);
            self.stroke((x, BOTTOM), (x, BOTTOM + 5.0), "#999999", 1.0, "");
            self.text(x, BOTTOM + 20.0, "middle", 12.0, GREY, &scale.label(*tick));
        }
        self.text((LEFT + RIGHT) / 2.0, BOTTOM + 42.0, "middle", 12.5, "#333333", label);
    }

    fn band(&mut self, series: &Series, colour: &str, x: &Scale, y: &Scale) {
        if series.band.len() < 2 {
            return;
        }
        let above = series.band.iter().map(|(at, _, high)| (x.at(*at), y.at(*high)));
        let below = series.band.iter().rev().map(|(at, low, _)| (x.at(*at), y.at(*low)));
        let points = points(above.chain(below));
        self.push(&format!("<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\"0.13\"/>"));
    }

    fn line(&mut self, series: &Series, colour: &str, x: &Scale, y: &Scale) {
        let places: Vec<_> = series.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
        let limit = series.name == Series::LIMIT;
        let width = if series.name == "whimbrel" { 2.8 } else { 1.8 };
        let dashes = if limit { " stroke-dasharray=\"5 4\"" } else { "" };
        self.push(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}/>",
            points(places.iter().copied())
        ));
        for (px, py) in places.iter().filter(|_| series.marks) {
            self.push(&format!("<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.2\" fill=\"{colour}\"/>"));
        }
    }

    fn bar(&mut self, spread: &Spread, left: f64, width: f64, colour: &str, y: &Scale) {
        let (top, middle) = (y.at(spread.median), left + width / 2.0);
        self.rectangle(left + width * 0.06, top, width * 0.88, BOTTOM - top, colour, 0.88);
        if spread.trials > 1 {
            self.stroke((middle, y.at(spread.low)), (middle, y.at(spread.high)), "#111111", 1.4, "");
        }
    }

    fn limit(&mut self, left: f64, right: f64, y: f64) {
        self.stroke((left, y), (right, y), "#222222", 1.6, " stroke-dasharray=\"5 4\"");
    }

    fn legend<'a>(&mut self, entries: impl Iterator<Item = (&'a str, &'a String)>) {
        for (index, (name, colour)) in entries.enumerate() {
            let y = TOP + 10.0 + 21.0 * index as f64;
            if name == Series::LIMIT {
                self.limit(RIGHT + 18.0, RIGHT + 40.0, y);
            } else {
                self.rectangle(RIGHT + 18.0, y - 5.0, 22.0, 10.0, colour, 0.9);
            }
            self.text(RIGHT + 47.0, y + 4.5, "start", 12.5, "#333333", name);
        }
    }
}

fn points(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in places {
        // Writing into a string cannot fail.
        write!(text, "{x:.1},{y:.1} ").ok();
    }
    text.truncate(text.trim_end().len());
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_broken_where_they_would_overlap() {
        assert_eq!(lines("10 Mbit/s 30 ms, 5 %", 12), ["10 Mbit/s 30", "ms, 5 %"]);
        assert_eq!(lines("Messages", 3), ["Messages"]);
    }

    #[test]
    fn every_peer_has_a_colour_of_its_own() {
        let names: Vec<_> = crate::peer::all().iter().map(|peer| peer.name()).collect();
        let own: BTreeSet<_> = names.iter().map(|name| colour(name).unwrap()).collect();
        assert_eq!(own.len(), names.len());
    }

    #[test]
    fn a_linear_scale_begins_at_zero_and_ends_at_a_tick() {
        let scale = Scale::new(&Axis::default(), [1.3, 3.81].into_iter(), (100.0, 0.0), true);
        assert_eq!(scale.ticks, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((scale.at(0.0), scale.at(4.0), scale.at(2.0)), (100.0, 0.0, 50.0));
        let flat = Scale::new(&Axis::default(), [0.0].into_iter(), (100.0, 0.0), true);
        assert!(flat.at(0.0).is_finite());
    }

    #[test]
    fn a_logarithmic_scale_has_ticks_within_and_takes_no_zero() {
        let axis = Axis { label: String::new(), logarithmic: true };
        let scale = Scale::new(&axis, [0.0, 20.0, 900.0].into_iter(), (0.0, 100.0), false);
        assert_eq!(scale.ticks, [20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(scale.at(0.0), 0.0);
        assert!((scale.at(900.0 * 1.07) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn flows_of_one_peer_get_colours_of_their_own() {
        let colours = colours(["1: whimbrel", "2: whimbrel", "tcp-cubic"].into_iter());
        assert_eq!((colours[0].as_str(), colours[2].as_str()), ("#d1352b", "#1f4e8c"));
        assert!(!colours.iter().skip(1).any(|colour| *colour == colours[0]));
    }

    #[test]
    fn a_chart_is_svg_with_every_name_escaped() {
        let series = Series {
            name: "a<b".into(),
            points: vec![(0.0, 1.0), (1.0, 2.0)],
            band: vec![(0.0, 0.5, 1.5), (1.0, 1.5, 2.5)],
            marks: true,
        };
        let chart = LineChart {
            title: "x & y".into(),
            x: Axis::default(),
            y: Axis::default(),
            series: vec![series],
            shaded: Some((0.2, 0.4)),
        };
        let svg = chart.svg();
        assert!(
            svg.starts_with("<svg ")
                && svg.ends_with("</svg>\n")
                && svg.contains("a&lt;b")
                && svg.contains("x &amp; y")
        );
    }
}
