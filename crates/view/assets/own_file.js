// Answers the page from its own file, which `flashlab view --html` wrote (page_file.rs).
//
// A recording in it has its slowest IOs, all of them if they are few, and otherwise a coarse pyramid. A view all of whose IOs are in the
// file is counted IO by IO, as exactly as the server does; any other in whole cells of the pyramid.

import { decode } from './frame.js';
import { parse } from './state.js';
import { lowerEdge, SUMS, Tally } from './tally.js';

const FINEST = { time: 0, offsetTime: 0, offset: 0 };
const POINTS_MOST = 100_000;
const isWrite = (kind) => (kind & 0x80) !== 0;
const isFailed = (kind) => (kind & 0x40) !== 0;

export class OwnFile {
  /** `heads` of the recordings, and of each the IOs, and the pyramid or null, as base64 of gzip. */
  constructor({ heads, contents }) {
    this.heads = heads;
    this.contents = contents.map(async ({ ios, pyramid }) => new Content(await unpack(ios), pyramid && await unpack(pyramid)));
  }

  async recordings() {
    await Promise.all(this.contents);
    return this.heads;
  }

  async panels(query) {
    const { head, content, state, fields } = await this.asked(query);
    const width = Math.min(4096, Math.max(1, Number(fields.get('width'))));
    // Runs follow one another: where not every IO is there, a run is its time.
    const run = content.isWhole(state) ? null : head.runs.find((one) => one.run === state.run);
    if (run) state.time = timeOf(run, head.runs, state.time);
    const windows = windowsOf(state, content.overview);
    return content.isWhole(state) ? countIos(content, state, windows, width) : countCells(content, state, windows, width);
  }

  async ios(query, { sort, isDescending, start, count }) {
    const { content, state } = await this.asked(query);
    const { time_ns: [from, to] } = windowsOf(state, content.overview);
    const found = content.ios.filter((io) => io.time_ns >= from && io.time_ns < to && isShown(io, state));
    found.sort((a, b) => (a[sort] - b[sort]) * (isDescending ? -1 : 1));
    const rows = found.slice(start, start + count).map((io) => content.columns.map((column) => io[column]));
    return { matching: found.length, is_bounded: !content.isWhole(state), columns: content.columns, rows };
  }

  async asked(query) {
    const fields = new URLSearchParams(query);
    const id = Number(fields.get('recording'));
    return { head: this.heads[id], content: await this.contents[id], state: parse(query), fields };
  }
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return decode(await new Response(stream).arrayBuffer());
}

/** What the file has of a recording. */
class Content {
  constructor({ overview, complete_from_ns: completeFrom, columns, arrays }, pyramid) {
    Object.assign(this, { overview, completeFrom, columns, pyramid });
    const of = Object.fromEntries([...columns, 'kind'].map((name) => [name, arrays[`io_${name}`]]));
    of.time_ns = added(of.time_ns);
    this.ios = Array.from(of.time_ns, (none, index) => {
      const io = Object.fromEntries(columns.map((name) => [name, of[name]?.[index]]));
      io.kind = of.kind[index];
      io.mode = isWrite(io.kind) ? 'write' : 'read';
      return io;
    });
    if (!pyramid) return;
    this.leaves = table(pyramid.arrays, 'leaf', pyramid.leaf_shift);
    this.blocks = table(pyramid.arrays, 'block', pyramid.block_shift);
    this.sumColumns = added(pyramid.arrays.sum_columns);
    this.sums = pyramid.arrays.sums;
    // A column without reads, or writes, has no shortest one.
    for (let at = 0; at < this.sums.length; at += SUMS.length) {
      for (const mode of [0, 1]) if (this.sums[at + mode] === 0) this.sums[at + 4 + mode] = Infinity;
    }
  }

  /** Whether each IO of a view is in the file. */
  isWhole(state) {
    return !this.pyramid || (state.response !== null && state.response[0] >= this.completeFrom);
  }
}

/** Numbers from their differences. */
function added(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

/** Cells of columns over time: in each column the keys are stored as differences. */
function table(arrays, name, shift) {
  const [sizes, keys] = [arrays[`${name}_cells`], arrays[`${name}_keys`]];
  const starts = [0];
  for (const size of sizes) {
    const from = starts[starts.length - 1];
    for (let at = from + 1; at < from + size; at++) keys[at] += keys[at - 1];
    starts.push(from + size);
  }
  return { step: 2 ** shift, shift, columns: added(arrays[`${name}_columns`]), starts, keys, counts: arrays[`${name}_counts`] };
}

/** The part of a window in which a run was. */
function timeOf(run, runs, window) {
  const [from, to] = run.time_ns;
  if (runs.some((one) => one !== run && one.time_ns[0] < to && from < one.time_ns[1])) throw new Error('This file has not every IO, so that it cannot show one of runs at the same time alone. Open the run itself with flashlab view.');
  const start = Math.max(from, window?.[0] ?? 0);
  return [start, Math.max(start + 1, Math.min(to, window?.[1] ?? Infinity))];
}

/** The windows of a view, cut to what the recording has. */
function windowsOf(state, { time_end_ns: timeEnd, offset_bytes: offsets, response_ns: responses }) {
  const cut = (window, [from, to]) => {
    if (!window) return [from, to];
    if (window[0] < to && from < window[1]) return [Math.max(window[0], from), Math.min(window[1], to)];
    return [window[0], window[0] + 1];
  };
  return {
    time_ns: cut(state.time, [0, Math.max(1, timeEnd)]),
    offset_bytes: cut(state.offset, [offsets[0], offsets[1] + 1]),
    response_ns: cut(state.response, [responses[0], responses[1] + 1]),
  };
}

function hasKind(kind, { modes, sizes, errors }) {
  return (!modes || modes === (isWrite(kind) ? 'write' : 'read'))
    && (!errors || (errors === 'only') === isFailed(kind))
    && (sizes.length === 0 || sizes.includes(kind & 0x3f));
}

/** Whether an IO is in view, its time left aside. */
function isShown(io, state) {
  const isIn = (window, value) => !window || (value >= window[0] && value < window[1]);
  return hasKind(io.kind, state) && isIn(state.offset, io.offset_bytes) && isIn(state.response, Math.max(0, io.response_ns))
    && (state.process === null || io.process === state.process) && (state.run === null || io.run === state.run);
}

function countIos({ ios }, state, windows, width) {
  const tally = new Tally(windows, width, FINEST);
  const points = [];
  for (const io of ios) {
    if (!isShown(io, state)) continue;
    const response = Math.max(0, io.response_ns);
    tally.addFlight(io.time_ns, io.time_ns + response);
    if (io.time_ns < windows.time_ns[0] || io.time_ns >= windows.time_ns[1]) continue;
    const point = { time: io.time_ns, response, offset: io.offset_bytes, size: io.size_bytes, isWrite: isWrite(io.kind), isFailed: isFailed(io.kind) };
    tally.addIo(point);
    points.push(point);
  }
  return tally.answer(windows, { isExact: true, hasSums: true, points: points.length < POINTS_MOST ? points : null });
}

function countCells(content, state, windows, width) {
  if (state.process !== null) throw new Error('This file has not every IO, so that it cannot show one process alone. Open the run itself with flashlab view.');
  const { leaves, blocks, pyramid } = content;
  const hasOffset = state.offset !== null;
  const tally = new Tally(windows, width, { time: (hasOffset ? blocks : leaves).shift, offsetTime: blocks.shift, offset: pyramid.offset_shift });
  const kinds = Array.from({ length: 256 }, (none, kind) => hasKind(kind, state));
  const isShownBin = (bin) => bin >= tally.bins[0] && bin < tally.bins[1];
  if (!hasOffset) {
    eachColumn(leaves, tally.time, (column, key, count) => {
      const [kind, bin] = [key >>> 10, key & 0x3ff];
      if (kinds[kind] && isShownBin(bin)) tally.addTimeResponse(column, bin, isWrite(kind) ? 1 : 0, count);
    });
  }
  eachColumn(blocks, tally.offsetTime, (offsetColumn, key, count) => {
    const [kind, bin] = [key & 0xff, (key >>> 8) & 0x3ff];
    const row = tally.offset.column((key >>> 18) * 2 ** pyramid.offset_shift);
    if (row < 0 || !kinds[kind] || !isShownBin(bin)) return;
    tally.addOffset(offsetColumn, row, bin, isWrite(kind) ? 1 : 0, count);
    if (!hasOffset) return;
    const column = tally.time.column(tally.offsetTime.start + offsetColumn * tally.offsetTime.step);
    if (column >= 0) tally.addTimeResponse(column, bin, isWrite(kind) ? 1 : 0, count);
  });
  const hasSums = !hasOffset && !state.response && !state.modes && !state.errors && state.sizes.length === 0;
  if (hasSums) addSums(content, tally);
  const widened = {
    time_ns: [tally.time.start, Math.min(tally.time.end, Math.max(content.overview.time_end_ns, tally.time.start + 1))],
    offset_bytes: [tally.offset.start, tally.offset.end],
    response_ns: tally.bins.map(lowerEdge),
  };
  return tally.answer(widened, { isExact: !hasOffset && !state.time && !state.response, hasSums });
}

function eachColumn({ columns, step, starts, keys, counts }, grid, see) {
  for (let at = 0; at < columns.length; at++) {
    const column = grid.column(columns[at] * step);
    if (column < 0) continue;
    for (let cell = starts[at]; cell < starts[at + 1]; cell++) see(column, keys[cell], counts[cell]);
  }
}

function addSums({ leaves, sumColumns, sums }, tally) {
  const grid = tally.time;
  sumColumns.forEach((leaf, index) => {
    const start = leaf * leaves.step;
    const column = grid.column(start);
    const at = index * SUMS.length;
    if (column >= 0) tally.addSums(column, sums, at, grid.start + (column + 1) * grid.step - start - leaves.step);
    else if (start < grid.start) tally.inFlightBefore += sums[at + SUMS.indexOf('begun')] - sums[at + SUMS.indexOf('completed')];
  });
}
