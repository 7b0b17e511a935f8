// The page of `flashlab view`: holds the view, paints it at once from what is there, and asks the server for the rest.
//
// 1. Input changes the view (`update`). The panels are painted in the next frame: what was fetched is stretched to the new axes.
// 2. Each recording's feed asks for the new view. Its answer is painted in the frame after it arrives.
// 3. The view is written into the address when the input has ended.
//
// For tests: `data-state` of the body is loading, ready (nothing finer is to come) or error; `data-painted` counts the paints of
// fetched answers; `data-milliseconds` is the time from the last input to its painted first answer, `data-refined-milliseconds` to
// the exact one, `data-frame-milliseconds` to the stretched picture; `data-comparing` is there while recordings are compared.

import { tools } from './bar.js';
import { rgb } from './colours.js';
import { chips, filters, notesOf, notice } from './controls.js';
import { button, byId, element, letter } from './elements.js';
import { Feed } from './feed.js';
import { attach } from './gestures.js';
import { legends } from './legends.js';
import { follow } from './live.js';
import { Overview } from './overview.js';
import { PANELS } from './panels.js';
import { Plot, plotWidth } from './plot.js';
import { Ratios } from './ratios.js';
import { hide, show } from './readout.js';
import { source } from './source.js';
import { EVERYTHING, hashOf, parse, query, WINDOWS } from './state.js';
import { areQuantilesNarrow, showStatus } from './status.js';
import { IoTable } from './table.js';
import { counted } from './words.js';

const HISTORY_MS = 350; // A pause of the input this long ends one step of the history.
const MOVING_MS = 120; // A pause of the input this long ends a movement: what was stretched is painted anew.
const LEAST_EXTENT = { time: 10_000, offset: 16_384 }; // The axis of a recording whose IOs are all at one time or offset.
const LEAST_SPAN = { time: 100, offset: 512, response: 0.02 }; // The deepest zoom: 100 ns, a sector, a fiftieth of an octave.

class Page {
  constructor() {
    this.state = parse(location.hash);
    this.mode = matchMedia('(pointer: coarse)').matches ? 'pan' : 'select';
    this.recordings = [];
    this.feeds = new Map();
    this.baselines = new Map();
    this.plots = [];
    this.theme = 0;
    this.wheeled = null;
    this.frame = 0;
    this.fresh = null;
  }

  async start() {
    try {
      this.take(await source.recordings());
    } catch (error) {
      document.body.dataset.state = 'error';
      notice('failure', element('p', '', error.message), button('tool', '', () => location.reload(), 'Retry'));
      return;
    }
    document.title = `${this.recordings.map(({ name }) => name.split('/').pop()).join(', ')} · flashlab view`;
    byId('source').textContent = this.recordings.length === 1 ? `${this.recordings[0].name} · ${this.recordings[0].verb} on ${this.recordings[0].target}` : counted(this.recordings.length, 'recording');
    const reported = this.recordings.filter((one) => one.has_report);
    byId('source').append(...reported.flatMap((one) => [' · ', Object.assign(element('a', '', this.recordings.length === 1 ? 'report' : `report of ${one.letter}`), { href: `report/${one.id}/` })]));
    byId('source').title = this.recordings.map(({ name, target }) => `${name} on ${target}`).join('\n');
    notesOf(this.recordings);
    for (const { id } of this.recordings) this.feeds.set(id, new Feed(id, (feed, what) => this.reported(feed, what)));
    this.showFilters = filters(this);
    this.table = new IoTable(this);
    this.ratios = new Ratios(this);
    tools(this);
    this.overview = new Overview(this);
    this.arrange();
    this.chooseNamedMark();
    this.apply(performance.now());
    if (this.recordings.some((one) => one.is_growing)) follow(this);
  }

  take(recordings) {
    // The plots hold them: one that grew stays the same object.
    this.recordings = recordings.map((one, index) => Object.assign(this.recordings[index] ?? { index, letter: 'ABCDEFGH'[index] ?? `${index + 1}` }, one));
    this.extents = null;
  }

  // ---- What is in view --------------------------------------------------------------------------

  get visible() {
    return this.recordings.filter(({ id }) => !this.state.hidden.includes(id));
  }

  get isStacked() {
    return this.state.layout === 'stacked';
  }

  get isOneOfSeveral() {
    return this.recordings.length > 1;
  }

  /** How colours of recordings that lie over each other mix: light ones add up in the dark. */
  get blending() {
    return rgb('page')[0] > 128 ? 'multiply' : 'screen';
  }

  get zoomOfHeight() {
    return Math.min(1.5, Math.max(0.9, innerHeight / 1000));
  }

  data(recording) {
    return this.feeds.get(recording.id)?.data ?? null;
  }

  /** The answer for the whole recording, when one is known. */
  baseline(recording) {
    return this.baselines.get(recording.id) ?? null;
  }

  /** The whole range of an axis, in its coordinates, with a margin. */
  full(dimension) {
    this.extents ??= {};
    this.extents[dimension] ??= this.extent(dimension);
    return this.extents[dimension];
  }

  extent(dimension) {
    const own = this.recordings.filter(({ ios }) => ios > 0).map((one) => one[{ time: 'time_ns', offset: 'offset_bytes', response: 'response_ns' }[dimension]]);
    if (own.length === 0) return { time: [0, 1e9], offset: [0, 2 ** 30], response: [Math.log2(1e4), Math.log2(1e7)] }[dimension];
    const low = Math.min(...own.map((range) => range[0]));
    const high = Math.max(...own.map((range) => range[1]));
    if (dimension === 'response') {
      const [from, to] = [Math.log2(Math.max(1, low)), Math.log2(Math.max(1, high))];
      const margin = Math.max(0.5, (to - from) * 0.03);
      return [from - margin, to + margin];
    }
    const margin = Math.max((high - low) * 0.006, high - low < LEAST_EXTENT[dimension] ? LEAST_EXTENT[dimension] / 2 : 0);
    return [low - margin, high + margin];
  }

  /** When the last IO of all recordings began. */
  get end() {
    return Math.max(0, ...this.recordings.map(({ time_ns: [, end] }) => end));
  }

  /** The range of an axis in view, in its coordinates. */
  range(dimension, plot, lines) {
    if (WINDOWS.includes(dimension)) {
      const own = this.state[dimension];
      return own ? (dimension === 'response' ? own.map((ns) => Math.log2(Math.max(1, ns))) : own) : this.full(dimension);
    }
    if (dimension === 'tail') return [0, Math.min(6.2, Math.max(2, lines.top * 1.02))];
    return [0, (lines.top || 1) * 1.1];
  }

  isZoomed(dimension) {
    return Boolean(this.state[dimension]);
  }

  runs() {
    const found = new Map();
    for (const { runs } of this.recordings) {
      for (const run of runs) {
        const key = `${run.run} ${run.name}`;
        const same = found.get(key);
        if (same) found.set(key, { ...same, ios: same.ios + run.ios, time_ns: [Math.min(same.time_ns[0], run.time_ns[0]), Math.max(same.time_ns[1], run.time_ns[1])] });
        else found.set(key, run);
      }
    }
    return [...found.values()];
  }

  queryOf(recording) {
    return [`recording=${recording.id}`, query(this.state)].filter(Boolean).join('&');
  }

  // ---- Changes of the view ----------------------------------------------------------------------

  /** Changes the view. A gesture is one step of the history, however many changes it makes. */
  update(patch, { since = performance.now(), isGesture = false } = {}) {
    this.state = { ...this.state, ...patch };
    clearTimeout(this.historyTimer);
    if (isGesture) this.historyTimer = setTimeout(() => this.remember(), HISTORY_MS);
    else this.remember();
    this.apply(since);
  }

  remember() {
    const hash = hashOf(this.state);
    if (hash !== location.hash.slice(1)) history.pushState(null, '', `#${hash}`);
  }

  apply(since) {
    const layout = `${this.state.layout} ${this.visible.map(({ id }) => id)}`;
    if (layout !== this.layout) this.arrange();
    this.isChanged = true;
    this.since = since;
    this.isMoving = true;
    clearTimeout(this.movingTimer);
    this.movingTimer = setTimeout(() => { this.isMoving = false; this.invalidate(); }, MOVING_MS);
    this.invalidate();
    this.ask(since);
    this.table.later();
    this.ratios.later();
  }

  ask(since, again = false) {
    const width = this.width();
    for (const recording of this.recordings) {
      const feed = this.feeds.get(recording.id);
      if (this.state.hidden.includes(recording.id) || recording.ios === 0) feed.stop();
      else feed.show(`${this.queryOf(recording)}&width=${width}`, since, again);
    }
    showStatus(this);
  }

  width() {
    const widths = this.plots.filter((plot) => plot.isMap).map((plot) => plotWidth(plot.host.clientWidth));
    return Math.round(Math.max(200, ...widths) * devicePixelRatio);
  }

  setWindow(dimension, [low, high], since) {
    const full = this.full(dimension);
    const span = Math.max(LEAST_SPAN[dimension], Math.min(full[1] - full[0], high - low));
    if (span >= (full[1] - full[0]) * 0.9999) return { [dimension]: null };
    const middle = (low + high) / 2;
    let from = high - low === span ? low : middle - span / 2;
    from = Math.max(full[0], Math.min(full[1] - span, from));
    if (dimension === 'response') return { response: [Math.floor(2 ** from), Math.ceil(2 ** (from + span))] };
    const start = Math.max(0, Math.round(from));
    return { [dimension]: [start, start + Math.max(1, Math.round(Math.min(from, 0) + span))] };
  }

  /** Narrows (factor below 1) or widens an axis about a share of it. False when nothing changes. */
  zoom(dimension, factor, about, since) {
    const [low, high] = this.range(dimension);
    const at = low + (high - low) * about;
    return this.change(this.setWindow(dimension, [at - (at - low) * factor, at + (high - at) * factor]), since);
  }

  pan(dimension, share, since) {
    const [low, high] = this.range(dimension);
    const by = (high - low) * share;
    return this.isZoomed(dimension) && this.change(this.setWindow(dimension, [low + by, high + by]), since);
  }

  change(patch, since) {
    const isSame = Object.entries(patch).every(([name, value]) => `${this.state[name]}` === `${value}`);
    if (!isSame) this.update(patch, { since, isGesture: true });
    return !isSame;
  }

  /** Windows chosen by a drag: { time: [low, high] } in coordinates. */
  choose(windows, since) {
    const patches = Object.entries(windows).map(([dimension, window]) => this.setWindow(dimension, window));
    this.update(Object.assign({}, ...patches), { since });
  }

  chooseRun({ run, time_ns: time }) {
    this.update({ run, ...this.setWindow('time', time) });
  }

  /** Shows a mark with some time before and after it. */
  chooseMark({ time_ns: [from, to] }) {
    const margin = Math.max((to - from) * 0.25, 1e6);
    this.update({ ...this.setWindow('time', [from - margin, to + margin]), marks: true });
  }

  /** A link of a report names its recording, and the mark to begin with by the first words of its text. */
  chooseNamedMark() {
    const fields = new URLSearchParams(location.hash.slice(1));
    const words = fields.get('mark');
    const own = this.recordings.filter(({ id }) => !fields.has('recording') || `${id}` === fields.get('recording'));
    const found = words && own.flatMap(({ marks }) => marks).find(({ text }) => text.startsWith(words));
    if (found) this.chooseMark(found);
    // A link names a run alone: its time is what it looks like.
    const run = this.state.run !== null && !this.state.time && own.flatMap(({ runs }) => runs).find((one) => one.run === this.state.run);
    if (run) this.chooseRun(run);
  }

  unzoom(dimensions, since) {
    const patch = Object.fromEntries(dimensions.filter((dimension) => this.state[dimension]).map((dimension) => [dimension, null]));
    if (Object.keys(patch).length) this.update(patch, { since });
  }

  reset() {
    const { layout, hidden, marks } = this.state;
    this.update({ ...EVERYTHING, layout, hidden, marks });
  }

  // ---- Panels -----------------------------------------------------------------------------------

  arrange() {
    this.layout = `${this.state.layout} ${this.visible.map(({ id }) => id)}`;
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
    const columns = { left: element('div', 'column'), right: element('div', 'column') };
    for (const panel of PANELS) {
      const figure = element('figure', 'panel');
      figure.id = panel.id;
      const head = element('figcaption', '', element('h2', '', panel.title), element('div', 'legend'));
      figure.append(head);
      const groups = panel.isPerRecording && this.isStacked ? this.visible.map((one) => [one]) : [this.visible];
      for (const group of groups) {
        const plot = new Plot(panel, group, this, group === groups[groups.length - 1]);
        if (groups.length > 1) figure.append(element('p', 'recording', letter(group[0]), group[0].name));
        figure.append(plot.host);
        attach(plot, this);
        this.plots.push(plot);
        this.watch(plot);
      }
      figure.append(element('p', 'empty'));
      columns[panel.column].append(figure);
    }
    const quantiles = byId('quantiles');
    if (areQuantilesNarrow(this)) columns.right.append(quantiles);
    else byId('ios').before(quantiles);
    byId('panels').replaceChildren(this.overview.host, columns.left, columns.right);
    this.legendsShown = null;
    legends(this);
  }

  watch(plot) {
    this.observer ??= new ResizeObserver(() => {
      for (const one of this.plots) one.width = 0; // Read anew when it is painted.
      this.invalidate();
      clearTimeout(this.resizeTimer);
      this.resizeTimer = setTimeout(() => this.ask(performance.now()), 200);
    });
    this.observer.observe(plot.host);
    this.sight ??= new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) target.plot.isSeen = isIntersecting;
      this.invalidate();
    });
    plot.host.plot = plot;
    this.sight.observe(plot.host);
  }

  // ---- Painting ---------------------------------------------------------------------------------

  invalidate() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isChanged) {
        this.isChanged = false;
        this.showFilters(this.state);
        chips(this);
      }
      legends(this);
      this.overview.paint();
      // While the view moves only what is on the screen is painted.
      for (const plot of this.plots) if (plot.isSeen || !plot.u || !this.isMoving) plot.paint();
      this.showEmpty();
      this.hoverAgain();
      const fresh = this.fresh;
      this.fresh = null;
      const { since } = this;
      this.since = null;
      // uPlot draws in a microtask; the frame after it is the first in which everything is on the screen.
      requestAnimationFrame(() => {
        const now = performance.now();
        if (since) document.body.dataset.frameMilliseconds = Math.round(now - since);
        if (fresh) this.shown(fresh, now);
      });
    });
  }

  shown({ since, isRefined }, now) {
    const { dataset } = document.body;
    dataset.painted = Number(dataset.painted) + 1;
    dataset[isRefined ? 'refinedMilliseconds' : 'milliseconds'] = Math.round(now - since);
    performance.mark('painted');
  }

  painted() {}

  showEmpty() {
    for (const panel of PANELS) {
      const figure = byId(panel.id);
      const shown = this.visible;
      const isKnown = shown.every((one) => one.ios === 0 || this.data(one));
      const count = shown.reduce((sum, one) => sum + (this.data(one) ? this.data(one).ios.read + this.data(one).ios.write : 0), 0);
      const isEmpty = isKnown && count === 0;
      figure.classList.toggle('is-empty', isEmpty);
      if (isEmpty) figure.querySelector('.empty').textContent = shown.every(({ ios }) => ios === 0) ? 'The recording has no IO yet.' : 'No IO is in this view.';
    }
  }

  hover(plot, place, isSpoken = false) {
    this.hovered = plot && { plot, place, isSpoken };
    const position = {};
    if (plot) {
      const { x, y } = plot.at(place.left, place.top);
      const isInside = place.left >= 0 && place.left <= plot.u.over.clientWidth && place.top >= 0 && place.top <= plot.u.over.clientHeight;
      if (isInside) Object.assign(position, { [plot.panel.y]: y, [plot.panel.x]: x });
    }
    for (const one of this.plots) one.hair(plot ? position : null);
    if (plot && !plot.brush.hidden && !isSpoken) hide();
    else if (plot) show(plot, place, isSpoken);
    else hide();
  }

  hoverAgain() {
    if (!this.hovered || !this.plots.includes(this.hovered.plot)) return;
    queueMicrotask(() => { if (this.hovered) this.hover(this.hovered.plot, this.hovered.place, this.hovered.isSpoken); });
  }

  // ---- Answers ----------------------------------------------------------------------------------

  reported(feed, what) {
    if (what === 'whole') {
      this.baselines.set(feed.id, feed.baseline);
      this.invalidate();
    }
    if (what === 'data') {
      const recording = this.recordings.find(({ id }) => id === feed.id);
      if (feed.data.query.startsWith(`recording=${feed.id}&width=`)) this.baselines.set(recording.id, feed.data);
      else if (this.isBaselineOld(recording) && !feed.data.could_be_finer) feed.whole(`recording=${feed.id}&width=${this.width()}`);
      this.fresh = feed.data;
      this.invalidate();
    }
    showStatus(this);
  }

  /** A recording that grows has its whole read anew when it is a tenth longer. */
  isBaselineOld(recording) {
    const known = this.baselines.get(recording.id);
    return !known || recording.time_ns[1] > known.window.time_ns[1] * 1.1;
  }

}

const page = new Page();
globalThis.flashlab = page;
page.start();
