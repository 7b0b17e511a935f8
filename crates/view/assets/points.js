// Single IOs: as shapes where there are few, by how many lie on a pixel where there are more.

import { ink } from './cells.js';
import { ramp, rgb } from './colours.js';

const COORDINATES = {
  time_response: ['point_time', 'logs'],
  time_offset: ['point_time', 'point_offset'],
  offset_response: ['point_offset', 'logs'],
};

/** The two coordinates of each point in a panel. */
export function pointCoordinates(data, map) {
  data.logs ??= Float64Array.from(data.arrays.point_response, (ns) => Math.log2(Math.max(1, ns)));
  const pick = (name) => (name === 'logs' ? data.logs : data.arrays[name]);
  return COORDINATES[map].map(pick);
}

/** Offsets of the pixels of each shape: reads round, writes square with a hole, failed IOs a cross. */
function stamps(radius) {
  const made = [[], [], []];
  const hole = radius > 2 ? radius - 2 : 0;
  for (let y = -radius - 1; y <= radius + 1; y++) {
    for (let x = -radius - 1; x <= radius + 1; x++) {
      const reach = Math.max(Math.abs(x), Math.abs(y));
      if (x * x + y * y <= radius * radius + 1) made[0].push([x, y]);
      if (reach <= radius && (hole === 0 || reach > hole)) made[1].push([x, y]);
      if (Math.abs(Math.abs(x) - Math.abs(y)) <= (radius > 2 ? 1 : 0)) made[2].push([x, y]);
    }
  }
  return made;
}

const pack = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;

const DENSE_POINTS = 4_000; // More points than this are painted by the count on each pixel, fewer as shapes.
const DENSE_FLOOR = 0.4; // Where on the scale a pixel with one point begins, so that a lone point is seen.

/** Radius in screen pixels: the fewer points, the larger. */
function pointRadius(count, ratio) {
  return Math.max(1, Math.round((count > 1_000 ? 1.5 : count > 300 ? 2 : 3) * ratio));
}

/** The points as an image of the plot's size. */
export function paintPoints(data, map, place, ratio, names, recording, strength) {
  const image = new ImageData(place.width, place.height);
  const target = new Uint32Array(image.data.buffer);
  const isDense = data.points > DENSE_POINTS;
  const shapes = stamps(isDense ? Math.max(1, Math.round(ratio)) : pointRadius(data.points, ratio));
  const [xs, ys] = pointCoordinates(data, map);
  const kinds = data.arrays.point_kind;
  if (isDense) paintDensity(target, xs, ys, kinds, place, Math.round(ratio), ramp(recording, strength), map === 'time_offset' ? null : names.map((name) => pack(rgb(recording ? name : `${name}-edge`))));
  else paintShapes(target, xs, ys, kinds, place, shapes, names.map((name) => pack(rgb(name))));
  // Where most failed their crosses would hide all else; the count says it.
  if (data.ios.failed > DENSE_POINTS) return image;
  const black = pack(rgb('ink'));
  for (let index = 0; index < xs.length; index++) if (kinds[index] & 2) stamp(target, place, xs[index], ys[index], shapes[2], black);
  return image;
}

function stamp(target, { x, y, width, height }, atX, atY, shape, ink) {
  const centreX = Math.round(x(atX));
  const centreY = Math.round(y(atY));
  for (const [dx, dy] of shape) {
    const column = centreX + dx;
    const row = centreY + dy;
    if (column >= 0 && row >= 0 && column < width && row < height) target[row * width + column] = ink;
  }
}

function paintShapes(target, xs, ys, kinds, place, shapes, inks) {
  for (let index = 0; index < xs.length; index++) {
    const kind = kinds[index] & 1;
    if (!(kinds[index] & 2)) stamp(target, place, xs[index], ys[index], shapes[kind], inks[kind]);
  }
}

/**
 * Each point fills a square of the screen, 2 pixels wide; where several lie it is the darker (in the dark the lighter). With `edges`
 * a point that has none around it has that colour and is 3 pixels wide: an outlier. Over offsets and time alone is no outlier.
 */
function paintDensity(target, xs, ys, kinds, place, ratio, pixels, edges) {
  const { width, height, perX, perY } = place;
  const side = 2 * Math.max(1, ratio);
  const fromX = place.x(0) - side / 2 + 0.5;
  const fromY = place.y(0) - side / 2 + 0.5;
  const counts = [new Uint32Array(target.length), new Uint32Array(target.length)];
  for (let index = 0; index < xs.length; index++) {
    const left = Math.floor(fromX + xs[index] * perX);
    const top = Math.floor(fromY - ys[index] * perY);
    if (left < 0 || top < 0 || left + side > width || top + side > height) continue;
    const own = counts[kinds[index] & 1];
    const end = (top + side) * width + left;
    for (let row = top * width + left; row < end; row += width) for (let at = row; at < row + side; at++) own[at]++;
  }
  const [reads, writes] = counts;
  let most = 1;
  for (let index = 0; index < target.length; index++) if (reads[index] + writes[index] > most) most = reads[index] + writes[index];
  ink(target, reads, writes, most, pixels, DENSE_FLOOR);
  if (!edges) return;
  const around = side * 1.5;
  for (let index = 0; index < xs.length; index++) {
    const left = Math.floor(fromX + xs[index] * perX);
    const top = Math.floor(fromY - ys[index] * perY);
    if (left < around || top < around || left + side + around > width || top + side + around > height) continue;
    const at = top * width + left;
    if (reads[at] + writes[at] > 1 || !isAlone(reads, writes, left - around, top - around, side + 2 * around, width, side * side)) continue;
    const wide = side + Math.max(1, ratio);
    for (let row = 0; row < wide; row++) target.fill(edges[kinds[index] & 1], at + row * width, at + row * width + wide);
  }
}

/** Whether a square has only the pixels of one point. */
function isAlone(reads, writes, left, top, side, width, pixels) {
  let found = 0;
  for (let row = top; row < top + side; row++) {
    for (let at = row * width + left; at < row * width + left + side; at++) if (reads[at] + writes[at] > 0 && ++found > pixels) return false;
  }
  return true;
}

/** The pixels from the top of the points near a column of pixels. */
export function pointsNear(data, map, place, x, reach) {
  const [xs, ys] = pointCoordinates(data, map);
  const tops = [];
  for (let index = 0; index < xs.length; index++) if (Math.abs(place.x(xs[index]) - x) <= reach) tops.push(place.y(ys[index]));
  return tops;
}

/** The slowest point in view: {x, y, kind, value} as of the extremes. */
export function slowestPoint(data, map, place) {
  const [xs, ys] = pointCoordinates(data, map);
  let best = -1;
  for (let index = 0; index < xs.length; index++) {
    if (xs[index] < place.xs[0] || xs[index] > place.xs[1] || ys[index] > place.ys[1]) continue;
    if (best < 0 || ys[index] > ys[best]) best = index;
  }
  return best < 0 ? null : { x: place.x(xs[best]), y: place.y(ys[best]), kind: data.arrays.point_kind[best] & 1, value: ys[best] };
}

/** The point nearest to a place on the screen, within `reach` pixels. */
export function nearestPoint(data, map, place, x, y, reach) {
  const [xs, ys] = pointCoordinates(data, map);
  let best = null;
  let distance = reach * reach;
  for (let index = 0; index < xs.length; index++) {
    const dx = place.x(xs[index]) - x;
    if (dx > reach || dx < -reach) continue;
    const dy = place.y(ys[index]) - y;
    if (dx * dx + dy * dy < distance) {
      distance = dx * dx + dy * dy;
      best = index;
    }
  }
  return best;
}
