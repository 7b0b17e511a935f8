//! A picture of single pages by how long ago their blocks were written to.

use flashlab_analysis::inference::{Axis, Picture, Style};

use super::Trace;

impl Trace {
    /// What each write cost over how many other places were written to since the last write to its own; behind a buffer, what the
    /// write cost that waited for it, as `logs` open ones say.
    pub(super) fn picture(&self, logs: usize) -> Picture {
        let mut last: Vec<u64> = Vec::new();
        let mut since = |(at, place): (usize, &Option<u64>)| {
            let place = (*place)?;
            let found = last.iter().position(|&other| other == place);
            let others = found.map(|index| {
                last.remove(index);
                last.len() - index
            });
            last.push(place);
            others.filter(|_| at >= self.begin).map(|others| (at, others))
        };
        let since: Vec<(usize, usize)> = self.places.iter().enumerate().filter_map(&mut since).collect();
        let dear = self.dear();
        let shifted = |shift: usize| {
            let cost = move |&(at, others): &(usize, usize)| Some((others, *self.costs.get(at + shift)?));
            since.iter().filter_map(cost)
        };
        let wrong = |shift: usize| {
            shifted(shift).filter(|&(others, cost)| (cost >= dear) != (others >= logs)).count()
        };
        let shift = (0..=self.latest).min_by_key(|&shift| wrong(shift)).unwrap_or(0);
        Picture::new(
            "Single pages in different blocks of one die: a write is fast if fewer other blocks were written to since the last write \
             to its own than the device has log blocks.",
            Axis::linear("other blocks written to since", ""),
            Axis::logarithmic("response time", "ns"),
        )
        .draw("writes", Style::Dots, shifted(shift).map(|(others, cost)| (others as f64, cost)).collect())
        .mark(logs as f64 - 0.5, format!("{logs} open"))
    }
}
