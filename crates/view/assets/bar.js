// The bar at the top: drag mode, zoom, reset, help, theme; and the keys that hold for the whole page.

import { forgetBitmaps } from './cells.js';
import { forget } from './colours.js';
import { choice } from './controls.js';
import { button, byId } from './elements.js';
import { parse } from './state.js';

/** Builds the buttons at the top, and takes the keys of the page. */
export function tools(page) {
  const showMode = choice(byId('mode'), 'What a drag does', [['select', 'Select'], ['pan', 'Pan']], (mode) => page.setMode(mode));
  page.setMode = (mode) => {
    page.mode = mode;
    document.body.dataset.mode = mode;
    showMode(mode);
  };
  page.setMode(page.mode);
  byId('zoom').replaceChildren(
    button('', 'Zoom out over time', () => page.zoom('time', 2, 0.5, performance.now()), '−'),
    button('', 'Zoom in over time', () => page.zoom('time', 0.5, 0.5, performance.now()), '+'),
  );
  byId('reset').addEventListener('click', () => page.reset());
  byId('theme').addEventListener('click', () => switchTheme(page));
  byId('help-open').addEventListener('click', () => byId('help').showModal());
  byId('help').addEventListener('click', (event) => { if (event.target === byId('help')) byId('help').close(); });
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', () => redraw(page));
  addEventListener('popstate', () => {
    clearTimeout(page.historyTimer);
    page.state = parse(location.hash);
    page.apply(performance.now());
  });
  addEventListener('keydown', (event) => key(page, event));
  addEventListener('pointerdown', (event) => { if (!event.target.closest('.plot')) page.hover(null); });
}

function key(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return;
  const acts = {
    m: () => page.update({ marks: !page.state.marks }),
    p: () => page.setMode(page.mode === 'pan' ? 'select' : 'pan'),
    0: () => page.reset(),
    '?': () => byId('help').showModal(),
  };
  if (!acts[event.key]) return;
  acts[event.key]();
  event.preventDefault();
}

function switchTheme(page) {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
  try {
    localStorage.setItem('flashlab-theme', root.dataset.theme);
  } catch {
    // A browser may refuse storage; the choice then lasts as long as the page.
  }
  redraw(page);
}

function redraw(page) {
  forget();
  for (const { data } of page.feeds.values()) forgetBitmaps(data);
  page.theme++;
  page.invalidate();
}
