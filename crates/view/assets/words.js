// Figures in words, and the ticks of axes.

const TIME = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
const SIZE = [[1, 'B'], [1024, 'KiB'], [1024 ** 2, 'MiB'], [1024 ** 3, 'GiB'], [1024 ** 4, 'TiB']];
const RATE = [[1, 'B/s'], [1e3, 'kB/s'], [1e6, 'MB/s'], [1e9, 'GB/s']];
const COUNT = [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G']];
const NBSP = '\u00a0';
const THIN = '\u202f';

function unitOf(value, units) {
  let found = units[0];
  for (const step of units) if (Math.abs(value) >= step[0] * 0.9995) found = step;
  return found;
}

function scaled(value, units, digits) {
  const [size, unit] = unitOf(value, units);
  const figure = Number((value / size).toPrecision(digits));
  return unit ? `${figure}${NBSP}${unit}` : `${figure}`;
}

export function grouped(count) {
  return Math.round(count).toLocaleString('en').replaceAll(',', THIN);
}

/** A number and its noun: "1 IO", "2 IOs". */
export function counted(count, noun) {
  return `${grouped(count)}${NBSP}${noun}${count === 1 ? '' : 's'}`;
}

export const duration = (ns, digits = 3) => scaled(ns, TIME, digits);
export const size = (bytes, digits = 4) => scaled(bytes, SIZE, digits);
export const byteRate = (rate, digits = 3) => scaled(rate, RATE, digits);
export const figure = (value, digits = 3) => (value === 0 ? '0' : Math.abs(value) < 1000 ? `${Number(value.toPrecision(digits))}` : scaled(value, COUNT, digits));
export const ioRate = (rate) => `${grouped(rate)}${NBSP}IO/s`;

/** The share of IOs at most so slow, from the share beyond: p99.9 for 0.001. */
export function percentile(beyond) {
  if (beyond >= 1) return 'p0';
  const digits = Math.max(0, Math.ceil(-Math.log10(beyond) - 1e-9) - 2);
  return `p${Number((100 * (1 - beyond)).toFixed(digits + 1))}`;
}

function decimals(step, unit) {
  return Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
}

/** A point on an axis of time, as precise as `step` needs. */
export function instant(ns, step) {
  const [unit, name] = unitOf(Math.max(Math.abs(ns), step), TIME);
  return fixed(ns / unit, Math.min(9, decimals(step, unit))) + NBSP + name;
}

function fixed(value, digits) {
  const [whole, part] = value.toFixed(digits).split('.');
  const text = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return part ? `${text}.${part}` : text;
}

function range(units, low, high, step) {
  const [unit, name] = unitOf(Math.max(Math.abs(low), Math.abs(high)), units);
  const digits = Math.min(9, decimals(step, unit));
  return `${fixed(low / unit, digits)} to ${fixed(high / unit, digits)}${NBSP}${name}`;
}

/** "41.2 to 43.0 s", with three digits for the difference. */
export const timeRange = (low, high) => range(TIME, low, high, Math.max(1, (high - low) / 100));

export function responseRange(low, high) {
  return high / low > 3 ? `${duration(low)} to ${duration(high)}` : range(TIME, low, high, Math.max(1, (high - low) / 10));
}

export function offsetRange(low, high) {
  return `${offset(low, high - low)} to ${offset(high, high - low)}`;
}

/** An offset as precise as a window of `span` bytes needs; in a smaller unit when the larger would have a long fraction. */
export function offset(bytes, span) {
  let best = SIZE[0];
  for (const [unit, name] of SIZE) {
    if (bytes >= unit && span / unit >= 0.005) best = [unit, name];
  }
  const digits = Math.min(2, decimals(Math.max(1, span / 100), best[0]));
  const exact = bytes / best[0];
  return (Number.isInteger(exact) ? fixed(exact, 0) : fixed(exact, best[0] === 1 ? 0 : digits)) + NBSP + best[1];
}

// ---- Ticks: [positions, labels] ----------------------------------------------------------------

function niceStep(span, count) {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((digit) => digit * power >= raw * 0.9999);
}

function every(step, low, high) {
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && ticks.length < 60; n++) ticks.push(n * step);
  return ticks;
}

function timeTicks(low, high, pixels) {
  let step = Math.max(1, niceStep(high - low, Math.max(2, pixels / 90)));
  const label = (ns) => (ns === 0 ? '0' : instant(ns, step));
  const widest = label(high).length * 7 + 24;
  step = Math.max(1, niceStep(high - low, Math.max(2, pixels / widest)));
  const ticks = every(step, Math.max(0, low), high);
  // One unit on the whole axis, the one of its end.
  const [unit, name] = unitOf(Math.max(Math.abs(low), Math.abs(high)), TIME);
  const digits = Math.min(9, decimals(step, unit));
  return [ticks, ticks.map((ns) => (ns === 0 ? '0' : fixed(ns / unit, digits) + NBSP + name))];
}

const LONG_LABEL = 10; // Letters for which the vertical axis has room.

function offsetTicks(low, high, pixels, gap) {
  const step = Math.max(1, 2 ** Math.ceil(Math.log2((high - low) / Math.max(2, pixels / gap))));
  const ticks = every(step, Math.max(0, low), high);
  const labels = ticks.map((bytes) => (bytes === 0 ? '0' : offset(bytes, step)));
  if (labels.every((label) => label.length <= LONG_LABEL)) return [ticks, labels];
  // Far from 0 and close together: the first in words, the others from it.
  return [ticks, ticks.map((bytes, index) => (index === 0 ? size(bytes) : `+${size(bytes - ticks[0])}`))];
}

/** On an axis of log2(ns). */
function responseTicks(low, high, pixels, gap) {
  const decades = (high - low) * Math.log10(2);
  const [from, to] = [2 ** low, 2 ** high];
  if (decades < 0.35) {
    const ticks = every(Math.max(1, niceStep(to - from, Math.max(2, pixels / gap))), from, to);
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    return [ticks.map(Math.log2), ticks.map((ns) => instant(ns, step))];
  }
  const room = pixels / gap / decades;
  const within = room > 6 ? [1, 2, 3, 5, 7] : room > 3.2 ? [1, 2, 5] : room > 1.7 ? [1, 3] : [1];
  const stride = Math.max(1, Math.ceil(0.8 / room));
  const ticks = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
    if (power % stride) continue;
    for (const digit of within) {
      const ns = digit * 10 ** power;
      if (ns >= from * 0.9999 && ns <= to * 1.0001) ticks.push(ns);
    }
  }
  return [ticks.map(Math.log2), ticks.map((ns) => duration(ns))];
}

function linearTicks(low, high, pixels, gap, word) {
  const ticks = every(niceStep(high - low || 1, Math.max(1.5, pixels / gap)), low, high);
  return [ticks, ticks.map(word)];
}

/** On an axis of -log10(share beyond): 0 is p0, 1 is p90, 2 is p99. */
function tailTicks(low, high) {
  const ticks = [];
  if (low <= -Math.log10(0.5)) ticks.push(-Math.log10(0.5));
  for (let tick = Math.max(1, Math.ceil(low)); tick <= high; tick++) ticks.push(tick);
  return [ticks, ticks.map((tick) => percentile(10 ** -tick))];
}

export function ticks(dimension, low, high, pixels, isHorizontal) {
  const gap = isHorizontal ? 84 : 34;
  switch (dimension) {
    case 'time': return timeTicks(low, high, pixels);
    case 'offset': return offsetTicks(low, high, pixels, isHorizontal ? 90 : 34);
    case 'response': return responseTicks(low, high, pixels, isHorizontal ? 62 : 30);
    case 'tail': return tailTicks(low, high);
    case 'bytes/s': return linearTicks(low, high, pixels, gap, (value) => (value === 0 ? '0' : byteRate(value)));
    default: return linearTicks(low, high, pixels, gap, (value) => figure(value));
  }
}
