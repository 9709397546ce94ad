//! Curves of miss ratios over the sizes of caches, drawn as SVG.

use std::path::Path;

use anyhow::{anyhow, ensure};
use plotters::prelude::{
    ChartBuilder, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor, SVGBackend,
    WHITE,
};

/// The picture's width and height.
const PIXELS: (u32, u32) = (960, 600);
/// Colours that people who see few of them can tell apart too (Okabe and Ito), then darker ones.
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
    RGBColor(190, 180, 30),
    RGBColor(90, 50, 140),
    RGBColor(0, 0, 0),
    RGBColor(120, 70, 20),
    RGBColor(0, 70, 50),
];

/// One policy: sizes in MiB in ascending order, and miss ratios in percent.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Writes the curves to `path`.
///
/// # Errors
/// When there are fewer than two sizes, or the file cannot be written.
pub(super) fn draw(path: &Path, title: &str, curves: &[Curve]) -> anyhow::Result<()> {
    let sizes = || curves.iter().flat_map(|curve| curve.points.iter().map(|(size, _)| *size));
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    ensure!(least < most, "a picture needs two sizes at least: name them with --sizes");
    paint(path, title, curves, (least, most))
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn paint(
    path: &Path,
    title: &str,
    curves: &[Curve],
    (least, most): (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, PIXELS).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((least..most).log_scale(), 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("cache size (MiB)")
        .y_desc("misses (% of requests)")
        .x_label_formatter(&|size| format!("{size:.0}"))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle().copied()) {
        let is_own = curve.name.starts_with("adaptive");
        let line = LineSeries::new(curve.points.iter().copied(), width(colour, is_own));
        let series = chart.draw_series(line)?.label(&curve.name);
        series.legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], width(colour, is_own)));
    }
    chart
        .configure_series_labels()
        .background_style(plotters::style::Color::mix(&WHITE, 0.8))
        .border_style(RGBColor(160, 160, 160))
        .draw()?;
    area.present()?;
    Ok(())
}

fn width(colour: RGBColor, is_wide: bool) -> plotters::style::ShapeStyle {
    plotters::style::Color::stroke_width(&colour, if is_wide { 3 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_names_every_policy() {
        let folder = std::env::temp_dir().join(format!("forebay-picture-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder is made");
        let path = folder.join("curves.svg");
        let curve =
            |name: &str| Curve { name: name.to_owned(), points: vec![(1.0, 90.0), (64.0, 20.0)] };
        draw(&path, "a trace", &[curve("lru"), curve("adaptive")]).expect("it is drawn");
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(["lru", "adaptive", "a trace"].iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn one_size_makes_no_picture() {
        let curve = Curve { name: "lru".to_owned(), points: vec![(1.0, 90.0)] };
        assert!(draw(Path::new("/nowhere/x.svg"), "a trace", &[curve]).is_err());
    }
}
