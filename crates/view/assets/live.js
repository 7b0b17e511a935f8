// A recording that grows: it is asked for every second, and a view that shows its end goes with it.

import { filters } from './controls.js';
import { byId } from './elements.js';
import { source } from './source.js';
import { hashOf } from './state.js';

const LIVE_MS = 1000; // How often a recording that grows is asked for.

/** Asks until no recording grows any more. */
export function follow(page) {
  page.choices = choicesOf(page);
  byId('live').hidden = false;
  const again = async () => {
    try {
      // A page that nobody sees costs the measurement nothing.
      if (!document.hidden) grew(page, await source.recordings());
    } catch {
      // The panels' own requests say that the server is gone.
    }
    if (page.recordings.some((one) => one.is_growing)) page.liveTimer = setTimeout(again, LIVE_MS);
    else byId('live').hidden = true;
  };
  page.liveTimer = setTimeout(again, LIVE_MS);
}

/** What the filters offer, as text. */
function choicesOf({ recordings }) {
  return JSON.stringify(recordings.map(({ size_classes: classes, process_count: processes, runs, marks }) => [classes.map((one) => one.class), processes, runs.length > 1, marks.length > 0]));
}

/** The recordings as they are now. */
function grew(page, recordings) {
  const before = page.end;
  page.take(recordings);
  for (const plot of page.plots) plot.named = null;
  // New sizes or runs; a menu that is open stays.
  const choices = choicesOf(page);
  if (choices !== page.choices && !document.querySelector('.menu[open]')) {
    page.choices = choices;
    page.showFilters = filters(page);
    page.showFilters(page.state);
  }
  const by = page.end - before;
  const { time } = page.state;
  if (by <= 0) return;
  if (time && time[1] >= before) {
    page.state = { ...page.state, time: [time[0] + by, time[1] + by] };
    history.replaceState(null, '', `#${hashOf(page.state)}`);
    page.apply(performance.now());
  } else if (!time) {
    page.since = null;
    page.invalidate();
    page.ask(performance.now(), true);
  }
}
