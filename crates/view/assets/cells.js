// Pictures of what a recording's answer holds: cells as a bitmap, and the extremes of its columns.
//
// A bitmap has one pixel for each cell and is drawn stretched, so that a pan or zoom needs no new bitmap. Where a cell would be
// smaller than a pixel of the screen, cells are added up first: none is lost.

import { LEVELS, MIXES, ramp } from './colours.js';

/** What each heat map counts: its array, and where its columns and rows lie. A row's edges are in the panel's coordinates. */
export const MAPS = {
  time_response: { columns: timeAxis, rows: responseAxis },
  time_offset: { columns: offsetTimeAxis, rows: offsetAxis },
  offset_response: { columns: offsetAxis, rows: responseAxis },
};

function timeAxis({ time }) {
  return { start: time.start_ns, step: time.step_ns };
}

/** Offset over time may have wider columns than the others over time. */
function offsetTimeAxis({ time, offset_time: own }) {
  return timeAxis({ time: own ?? time });
}

function offsetAxis({ offset }) {
  return { start: offset.start_bytes, step: offset.step_bytes };
}

function responseAxis({ bins_per_octave: bins }) {
  return { start: 0, step: 1 / bins };
}

const powerOfTwo = (ratio) => 2 ** Math.max(0, Math.ceil(Math.log2(ratio) - 1e-9));

/**
 * The bitmap of a heat map whose pixels are no smaller than the screen's, cached on the data.
 * `scale` is screen pixels for each unit of the axes; `recording` and `strength` are as of `ramp`.
 */
export function bitmap(data, map, scale, recording, strength) {
  const axes = { x: MAPS[map].columns(data), y: MAPS[map].rows(data) };
  const join = { x: powerOfTwo(1 / (axes.x.step * scale.x)), y: powerOfTwo(1 / (axes.y.step * scale.y)) };
  const key = `${map} ${join.x} ${join.y} ${recording} ${strength}`;
  data.bitmaps ??= new Map();
  if (!data.bitmaps.has(key)) {
    // The last few zooms' bitmaps are kept.
    if (data.bitmaps.size > 11) data.bitmaps.delete(data.bitmaps.keys().next().value);
    data.bitmaps.set(key, made(data.arrays[map], axes, join, ramp(recording, strength)));
  }
  return data.bitmaps.get(key);
}

/** The theme changed. */
export function forgetBitmaps(data) {
  data?.bitmaps?.clear();
}

function bounds(cells) {
  const box = { left: Infinity, right: -1, bottom: Infinity, top: -1 };
  for (let at = 0; at < cells.length; at += 4) {
    if (cells[at] < box.left) box.left = cells[at];
    if (cells[at] > box.right) box.right = cells[at];
    if (cells[at + 1] < box.bottom) box.bottom = cells[at + 1];
    if (cells[at + 1] > box.top) box.top = cells[at + 1];
  }
  return box;
}

function made(cells, axes, join, pixels) {
  if (cells.length === 0) return null;
  const box = bounds(cells);
  const left = Math.floor(box.left / join.x);
  const bottom = Math.floor(box.bottom / join.y);
  const width = Math.floor(box.right / join.x) - left + 1;
  const height = Math.floor(box.top / join.y) - bottom + 1;
  const reads = new Uint32Array(width * height);
  const writes = new Uint32Array(width * height);
  for (let at = 0; at < cells.length; at += 4) {
    const index = (height - 1 - Math.floor(cells[at + 1] / join.y) + bottom) * width + Math.floor(cells[at] / join.x) - left;
    reads[index] += cells[at + 2];
    writes[index] += cells[at + 3];
  }
  let most = 1;
  for (let index = 0; index < reads.length; index++) most = Math.max(most, reads[index] + writes[index]);
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext('2d').putImageData(inked(reads, writes, most, width, height, pixels), 0, 0);
  return {
    canvas, most, reads, writes, width, height,
    stepX: axes.x.step * join.x, stepY: axes.y.step * join.y,
    left: axes.x.start + left * join.x * axes.x.step,
    bottom: axes.y.start + bottom * join.y * axes.y.step,
  };
}

function inked(reads, writes, most, width, height, pixels) {
  const image = new ImageData(width, height);
  ink(new Uint32Array(image.data.buffer), reads, writes, most, pixels, 0);
  return image;
}

/** Colours counts on a logarithmic scale from `floor` (one IO) to 1 (the most). */
export function ink(target, reads, writes, most, pixels, floor) {
  const perLog = most > 1 ? ((1 - floor) * (LEVELS - 1)) / Math.log(most) : 0;
  for (let index = 0; index < target.length; index++) {
    const count = reads[index] + writes[index];
    if (count === 0) continue;
    const level = Math.round(floor * (LEVELS - 1) + Math.log(count) * perLog);
    const mix = Math.round((writes[index] / count) * (MIXES - 1));
    target[index] = pixels[mix * LEVELS + level];
  }
}

/** Reads and writes of the cell at a point of the axes, with its edges, or null. */
export function cellAt(picture, x, y) {
  const column = Math.floor((x - picture.left) / picture.stepX);
  const row = Math.floor((y - picture.bottom) / picture.stepY);
  if (column < 0 || row < 0 || column >= picture.width || row >= picture.height) return null;
  const index = (picture.height - 1 - row) * picture.width + column;
  return {
    x: [picture.left + column * picture.stepX, picture.left + (column + 1) * picture.stepX],
    y: [picture.bottom + row * picture.stepY, picture.bottom + (row + 1) * picture.stepY],
    reads: picture.reads[index],
    writes: picture.writes[index],
  };
}

/** The middles of the rows that have IOs in the column at x, in coordinates. */
export function filledRows({ reads, writes, width, height, left, bottom, stepX, stepY }, x) {
  const column = Math.floor((x - left) / stepX);
  if (column < 0 || column >= width) return [];
  const rows = [];
  for (let row = 0; row < height; row++) {
    const at = (height - 1 - row) * width + column;
    if (reads[at] + writes[at] > 0) rows.push(bottom + (row + 0.5) * stepY);
  }
  return rows;
}

// ---- Extremes ---------------------------------------------------------------------------------

/** Per column the lowest and highest log2(ns) of reads and of writes: from the server over time, from the cells over offset. */
export function extremes(data, map) {
  data.edges ??= {};
  data.edges[map] ??= (map === 'time_response' && fromServer(data)) || fromCells(data, map);
  return data.edges[map];
}

function fromServer(data) {
  const values = Float64Array.from(data.arrays.extremes, Math.log2);
  // With filters the pyramid has none; then the cells' will do.
  if (values.every(Number.isNaN)) return null;
  return { values, ...timeAxis(data), count: values.length / 4 };
}

function fromCells(data, map) {
  const { start, step } = MAPS[map].columns(data);
  const rows = MAPS[map].rows(data);
  const count = (map === 'time_response' ? data.time : data.offset).count;
  const values = new Float64Array(count * 4).fill(NaN);
  const cells = data.arrays[map];
  // The slowest of all is known exactly, the others to a bin.
  const most = ['read', 'write'].map((kind) => Math.log2(data.distribution[kind]?.max_ns ?? 0));
  for (let at = 0; at < cells.length; at += 4) {
    const bottom = rows.start + cells[at + 1] * rows.step;
    for (const kind of [0, 1]) {
      if (cells[at + 2 + kind] === 0) continue;
      const y = most[kind] >= bottom && most[kind] < bottom + rows.step ? most[kind] : bottom + 0.5 * rows.step;
      const slot = cells[at] * 4 + kind * 2;
      if (!(values[slot] <= y)) values[slot] = y;
      if (!(values[slot + 1] >= y)) values[slot + 1] = y;
    }
  }
  return { values, start, step, count };
}

const BODY_CELLS = 7; // Of the 25 cells around it. An extreme with fewer is apart from the body.

function isApart({ reads, writes, width, height, left, bottom, stepX, stepY }, x, y) {
  const column = Math.floor((x - left) / stepX);
  const row = height - 1 - Math.floor((y - bottom) / stepY);
  let filled = 0;
  for (let dy = -2; dy <= 2; dy++) {
    if (row + dy < 0 || row + dy >= height) continue;
    for (let dx = -2; dx <= 2; dx++) {
      const at = (row + dy) * width + column + dx;
      if (column + dx >= 0 && column + dx < width && reads[at] + writes[at] > 0) filled++;
    }
  }
  return filled < BODY_CELLS;
}

/**
 * Paints the extremes of each column in full contrast, apart from the body at least 2 pixels wide and 3 high: reads as upright
 * marks, writes as level ones. `place` maps coordinates to pixels of the canvas. Returns the slowest: {x, y, kind, value}.
 */
export function paintExtremes(ctx, edges, picture, place, ratio, inks) {
  const { values, start, step, count } = edges;
  const first = Math.max(0, Math.floor((place.xs[0] - start) / step));
  const last = Math.min(count - 1, Math.ceil((place.xs[1] - start) / step));
  let slowest = null;
  for (const kind of [0, 1]) {
    const apart = new Path2D();
    const within = new Path2D();
    const [wide, high] = kind === 0 ? [2 * ratio, 4 * ratio] : [4 * ratio, 2 * ratio];
    const mark = (x, value, at) => {
      if (isApart(picture, at, value)) apart.rect(x - wide / 2, place.y(value) - high / 2, wide, high);
      else within.rect(x - ratio / 2, place.y(value) - 0.75 * ratio, ratio, 1.5 * ratio);
    };
    let column = NaN;
    let bottom = Infinity;
    let top = -Infinity;
    let at = 0;
    const flush = () => {
      if (top === -Infinity) return;
      mark(column, top, at);
      if (bottom !== top) mark(column, bottom, at);
    };
    for (let index = first; index <= last; index++) {
      const min = values[index * 4 + kind * 2];
      const max = values[index * 4 + kind * 2 + 1];
      if (!(max >= min)) continue;
      const centre = start + (index + 0.5) * step;
      const x = Math.round(place.x(centre) / ratio) * ratio;
      if (x !== column) {
        flush();
        [column, bottom, top, at] = [x, min, max, centre];
      } else {
        if (max > top) at = centre;
        bottom = Math.min(bottom, min);
        top = Math.max(top, max);
      }
      if (!slowest || max > slowest.value) slowest = { x, y: place.y(max), kind, value: max };
    }
    flush();
    ctx.fillStyle = inks[kind];
    ctx.globalAlpha = 0.5;
    ctx.fill(within);
    ctx.globalAlpha = 1;
    ctx.fill(apart);
  }
  return slowest;
}
