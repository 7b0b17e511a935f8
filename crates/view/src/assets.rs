//! The files of the page.

/// A file of the page.
pub struct Asset {
    /// Its name in the page's folder.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// The files of the page.
pub const ASSETS: &[Asset] = &[
    file("bar.js", include_str!("../assets/bar.js")),
    file("cells.js", include_str!("../assets/cells.js")),
    file("colours.js", include_str!("../assets/colours.js")),
    file("controls.js", include_str!("../assets/controls.js")),
    file("early.js", include_str!("../assets/early.js")),
    file("elements.js", include_str!("../assets/elements.js")),
    file("feed.js", include_str!("../assets/feed.js")),
    file("frame.js", include_str!("../assets/frame.js")),
    file("gestures.js", include_str!("../assets/gestures.js")),
    file("icon.svg", include_str!("../assets/icon.svg")),
    file("index.html", include_str!("../assets/index.html")),
    file("legends.js", include_str!("../assets/legends.js")),
    file("lines.js", include_str!("../assets/lines.js")),
    file("live.js", include_str!("../assets/live.js")),
    file("marks.js", include_str!("../assets/marks.js")),
    file("overview.js", include_str!("../assets/overview.js")),
    file("own_file.js", include_str!("../assets/own_file.js")),
    file("panels.js", include_str!("../assets/panels.js")),
    file("plot.js", include_str!("../assets/plot.js")),
    file("points.js", include_str!("../assets/points.js")),
    file("ratios.js", include_str!("../assets/ratios.js")),
    file("readout.js", include_str!("../assets/readout.js")),
    file("source.js", include_str!("../assets/source.js")),
    file("state.js", include_str!("../assets/state.js")),
    file("status.js", include_str!("../assets/status.js")),
    file("table.js", include_str!("../assets/table.js")),
    file("tally.js", include_str!("../assets/tally.js")),
    file("view.css", include_str!("../assets/view.css")),
    file("view.js", include_str!("../assets/view.js")),
    file("words.js", include_str!("../assets/words.js")),
    file("uPlot.js", include_str!("../../report/vendor/uplot/uPlot.iife.min.js")),
    file("uPlot.css", include_str!("../../report/vendor/uplot/uPlot.min.css")),
];

/// The file of this name.
pub fn named(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

const fn file(name: &'static str, text: &'static str) -> Asset {
    Asset { name, text }
}

impl Asset {
    /// What it is, by its name.
    pub fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/assets")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(ASSETS.iter().any(|asset| asset.name == name), "{name} is not served");
        }
    }
}
