// The lines of the panels that have some: aligned values for uPlot, with the colour, the dash and the name of each.

import { recordingColour } from './colours.js';

const DASH = [5, 3];

/** Computes once for the same answers. */
function remembered(compute) {
  let last = { key: [], value: null };
  return (shown, page) => {
    const key = shown.flatMap((recording) => [recording, page.data(recording), page.baseline(recording)]);
    key.push(page.isOneOfSeveral);
    if (key.length !== last.key.length || key.some((one, index) => one !== last.key[index])) last = { key, value: compute(shown, page) };
    return last.value;
  };
}

/** Series with their own x values, put on common ones. */
function aligned(series) {
  if (series.length === 0) return { data: [[0, 1], [null, null]], series: [{ name: '', ink: 'muted' }], top: 1 };
  const isShared = series.every(({ x }) => x === series[0].x);
  const data = isShared ? [series[0].x, ...series.map(({ y }) => y)] : uPlot.join(series.map(({ x, y }) => [x, y]));
  let top = 0;
  for (const { y } of series) for (const value of y) if (value > top) top = value;
  return { data, series, top };
}

/** The colour and the dash of the reads or the writes of a recording. */
function style(recording, shown, page, kind) {
  const ink = page.isOneOfSeveral ? recordingColour(recording.index) : ['read', 'write'][kind];
  const what = ['reads', 'writes'][kind];
  return { ink, dash: kind === 1 ? DASH : undefined, kind, recording, name: shown.length > 1 ? `${recording.name}, ${what}` : what };
}

function present(recording, shown, page) {
  const data = page.data(recording);
  return data ? [0, 1].filter((kind) => [data.ios.read, data.ios.write][kind] > 0).map((kind) => [data, kind, style(recording, shown, page, kind)]) : [];
}

/** Columns over time as steps: an edge more than there are columns. */
function steps({ time, arrays: { rate } }, slot) {
  const { start_ns: start, step_ns: step, count } = time;
  const y = new Array(count + 1);
  for (let index = 0; index < count; index++) {
    const value = rate[index * 5 + slot];
    y[index] = Number.isNaN(value) ? null : value;
  }
  y[count] = count > 0 ? y[count - 1] : null;
  return { x: Array.from({ length: count + 1 }, (none, index) => start + index * step), y };
}

function overTime(slots) {
  return remembered((shown, page) => aligned(shown.flatMap((recording) => (slots
    ? present(recording, shown, page).map(([data, kind, made]) => ({ ...steps(data, slots[kind]), ...made, isStepped: true }))
    : inFlight(recording, shown, page)))));
}

function inFlight(recording, shown, page) {
  const data = page.data(recording);
  if (!data) return [];
  const ink = page.isOneOfSeveral ? recordingColour(recording.index) : 'flight';
  return [{ ...steps(data, 4), ink, isStepped: true, isFilled: shown.length === 1, recording, name: shown.length > 1 ? recording.name : 'mean in flight' }];
}

export const iops = overTime([0, 1]);
export const throughput = overTime([2, 3]);
export const flight = overTime(null);

/**
 * The distribution: log2(ns) and -log10 of the share beyond. Between bins that have IOs it is level. The slowest IO ends the line
 * half an IO above.
 */
function tail(data, kind) {
  const pairs = data.arrays[['cdf_read', 'cdf_write'][kind]];
  const own = data.distribution[['read', 'write'][kind]];
  const count = [data.ios.read, data.ios.write][kind];
  if (!own || pairs.length === 0) return null;
  const last = -Math.log10(0.5 / Math.max(1, count));
  const bin = 1 / data.bins_per_octave;
  // Without a known minimum the line begins at the first bin's lower edge.
  const x = [own.min_ns === null ? Math.log2(Math.max(1, pairs[0])) - bin : Math.log2(Math.max(1, own.min_ns))];
  const y = [0];
  const push = (atX, atY) => {
    x.push(Math.max(atX, x[x.length - 1] + 1e-9)); // uPlot needs ascending values.
    y.push(atY);
  };
  for (let at = 0; at < pairs.length; at += 2) {
    const beyond = 1 - pairs[at + 1];
    const place = Math.log2(Math.max(1, pairs[at]));
    const before = y[y.length - 1];
    if (place - x[x.length - 1] > bin * 1.5) push(place - bin, before);
    push(place, beyond > 0 ? Math.min(last, -Math.log10(beyond)) : last);
  }
  return { x, y };
}

export const distribution = remembered((shown, page) => {
  const whole = shown.length > 1 ? [] : shown.flatMap((recording) => {
    const data = page.baseline(recording);
    if (!data || data === page.data(recording)) return [];
    return [0, 1].map((kind) => ({ ...tail(data, kind), ink: 'whole', width: 1, dash: kind === 1 ? DASH : undefined, isWhole: true, recording, name: `${['reads', 'writes'][kind]}, whole recording` })).filter(({ x }) => x);
  });
  const own = shown.flatMap((recording) => present(recording, shown, page).map(([data, kind, made]) => ({ ...tail(data, kind), ...made, width: 1.75 })).filter(({ x }) => x));
  return aligned([...whole, ...own]);
});

export const histogram = remembered((shown, page) => aligned(shown.flatMap((recording) => present(recording, shown, page).map(([data, kind, made]) => {
  const bins = data.arrays.histogram;
  const first = bins[0];
  const count = bins[bins.length - 3] - first + 1;
  const all = shown.length > 1 ? data.ios.read + data.ios.write : 1;
  const y = new Array(count + 2).fill(0);
  for (let at = 0; at < bins.length; at += 3) y[bins[at] - first + 1] = bins[at + 1 + kind] / all;
  const x = y.map((none, index) => (first + index - 1) / data.bins_per_octave);
  return { x, y, ...made, isStepped: true, isFilled: shown.length === 1 };
}))));

/** The value of a series at x: that of the step in which x lies, or of the nearest point before. Beyond its ends it has none. */
export function valueAt(xs, ys, x) {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle - 1;
  }
  // Where series have different x values, those of the others are undefined.
  let next = low;
  while (next < xs.length && ys[next] === undefined) next++;
  if (next === xs.length) return null;
  while (low > 0 && ys[low] === undefined) low--;
  return xs[low] <= x ? ys[low] ?? null : null;
}

/** Where a line in view has its name: over time at a share of the width, on a tail at a share of the height, else at its peak. */
export function anchor(dimension, xs, ys, { xs: [low, high], ys: [, top] }, share) {
  if (dimension !== 'tail' && dimension !== 'share') {
    const isKnown = (y) => y !== undefined && y !== null;
    const from = Math.max(low, xs[ys.findIndex(isKnown)] ?? Infinity);
    const to = Math.min(high, xs[ys.findLastIndex(isKnown)] ?? -Infinity);
    const x = from + (to - from) * share;
    const y = from <= to ? valueAt(xs, ys, x) : null;
    return y === null ? null : [x, y];
  }
  let best = null;
  for (let index = 0; index < xs.length; index++) {
    const y = ys[index];
    if (y === undefined || y === null || xs[index] < low || xs[index] > high) continue;
    if (dimension === 'tail' && y >= top * (0.3 + 0.5 * share)) return [xs[index], y];
    if (!best || y > best[1]) best = [xs[index], y];
  }
  return best;
}
