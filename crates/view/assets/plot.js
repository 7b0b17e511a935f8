// One set of axes: uPlot draws axes and lines, and this adds heat maps, points, extremes and marks, all on its canvas.
//
// Coordinates: time in ns, offset in bytes, response time in log2(ns), the tail in -log10(share beyond).

import { bitmap, cellAt, extremes, filledRows, paintExtremes } from './cells.js';
import { colour, recordingColour } from './colours.js';
import { element } from './elements.js';
import { anchor } from './lines.js';
import { byKind, LANE, paintBands, paintLanes } from './marks.js';
import { nearestPoint, paintPoints, pointsNear, slowestPoint } from './points.js';
import { duration, ticks } from './words.js';

const RIGHT = 14;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const GUTTER = 66; // Room for the labels of the vertical axis: "500 MB/s", "collection".
const NARROW_GUTTER = 62;
const NARROW = 450; // A plot of fewer CSS pixels has the narrow one: a phone's.
const BELOW = 22; // Room for the labels of the horizontal axis.
const TOP = 7;
const STRETCHED_POINTS = 3000; // More points than this take longer than a frame to paint.
const OVERLAID = 2.5; // Up to this number of recordings over each other keep their full colours.
const NONE = [];
const NEAR = 5; // CSS pixels to the side in which the keyboard finds points.
const MANY_RECORDINGS = 3; // Above each other; more have no lanes of marks, only bands.

export class Plot {
  /** `shown`: the recordings in it. `page` gives ranges, data and marks. */
  constructor(panel, shown, page, isLast) {
    Object.assign(this, { panel, shown, page, isLast, u: null, key: '', width: 0, isSeen: true, pictures: new Map() });
    this.host = element('div', 'plot');
    this.host.tabIndex = 0;
    this.host.setAttribute('role', 'application');
    const names = shown.length < page.recordings.length ? ` of ${shown.map(({ name }) => name).join(', ')}` : '';
    this.host.setAttribute('aria-label', `${panel.title}${names}`);
    this.host.setAttribute('aria-describedby', 'keys');
    this.hairX = element('i', 'hair x');
    this.hairY = element('i', 'hair y');
    this.brush = element('i', 'brush');
    this.spot = element('i', 'spot');
    for (const one of [this.hairX, this.hairY, this.brush, this.spot]) one.hidden = true;
  }

  get isMap() {
    return this.panel.map !== undefined;
  }

  get lanes() {
    if (!this.panel.hasLanes || !this.page.state.marks || (this.page.isStacked && this.page.visible.length > MANY_RECORDINGS)) return 0;
    return byKind(this.marks()).length;
  }

  marks() {
    if (!this.page.state.marks) return NONE;
    if (this.shown.length === 1) return this.shown[0].marks;
    return (this.named ??= this.nameMarks());
  }

  /** Where recordings lie over each other the text of a mark begins with the letter of its recording. */
  nameMarks() {
    const named = this.shown.flatMap(({ letter, marks }) => marks.map((mark) => ({ ...mark, text: `${letter}: ${mark.text}` })));
    return named.sort((a, b) => a.time_ns[0] - b.time_ns[0]);
  }

  /** Draws the view. The instance of uPlot is made anew when its series, its theme or its lanes change. */
  paint() {
    this.width ||= this.host.clientWidth;
    const { width } = this;
    if (width < 80) return;
    const lines = this.isMap ? null : this.panel.lines(this.shown, this.page);
    const lanes = this.lanes;
    const height = this.panel.height(this.shown.length, this.page) + lanes * LANE;
    const key = [lanes, this.page.theme, gutter(width), lines?.series.map(({ name, ink }) => name + ink).join()].join('|');
    if (key !== this.key) this.build(key, lines, lanes, width, height);
    else if (lines && lines.data !== this.data) this.u.setData(lines.data, false);
    this.data = lines?.data;
    this.series = lines?.series;
    const { u } = this;
    const [x, y] = [this.page.range(this.panel.x, this), this.page.range(this.panel.y, this, lines)];
    u.batch(() => {
      if (u.width !== width || u.height !== height) u.setSize({ width, height });
      u.setScale('x', { min: x[0], max: x[1] });
      u.setScale('y', { min: y[0], max: y[1] });
      u.redraw(false);
    });
  }

  build(key, lines, lanes, width, height) {
    this.u?.destroy();
    this.key = key;
    const data = lines?.data ?? [[0, 1], [null, null]];
    const series = lines ? lines.series.map((one) => this.line(one)) : [{ scale: 'y', paths: () => null, points: { show: false } }];
    this.u = new uPlot({
      width, height,
      scales: { x: { time: false, auto: false }, y: { auto: false, dir: 1 } },
      axes: [this.axis('x', this.isLast ? BELOW : 6), this.axis('y', gutter(width))],
      series: [{}, ...series],
      legend: { show: false },
      cursor: { show: false },
      padding: [TOP + lanes * LANE, RIGHT, 0, 0],
      hooks: { drawClear: [() => this.below()], draw: [() => this.above()] },
    }, data, this.host);
    this.u.over.append(this.hairX, this.hairY, this.brush, this.spot);
    this.host.dataset.drawn = 'true';
  }

  line({ ink, dash, isStepped, isFilled, width }) {
    return {
      scale: 'y', stroke: colour(ink), width: width ?? 1.5, dash, points: { show: false }, spanGaps: false,
      ...(isStepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      ...(isFilled ? { fill: colour(ink, 0.1) } : {}),
    };
  }

  axis(name, size) {
    const isHorizontal = name === 'x';
    const made = (u) => {
      const { min, max } = u.scales[name];
      const pixels = (isHorizontal ? u.bbox.width : u.bbox.height) / devicePixelRatio;
      return ticks(this.panel[name], min, max, pixels || 100, isHorizontal);
    };
    return {
      scale: name, size, font: FONT, gap: 5, stroke: colour('muted'),
      grid: { stroke: colour('rule'), width: 1 }, ticks: { show: false },
      splits: (u) => made(u)[0], values: (u) => (isHorizontal ? fitting(u, ...made(u), this.isLast) : made(u)[1]), filter: (u, splits) => splits,
    };
  }

  /** From coordinates to pixels of the canvas, or of the plot's own rectangle. */
  place(isOwn = false) {
    const { u } = this;
    const { left, top, width, height } = u.bbox;
    const { x, y } = u.scales;
    const perX = width / (x.max - x.min);
    const perY = height / (y.max - y.min);
    const [fromX, fromY] = isOwn ? [0, height] : [left, top + height];
    return {
      x: (value) => fromX + (value - x.min) * perX,
      y: (value) => fromY - (value - y.min) * perY,
      xs: [x.min, x.max], ys: [y.min, y.max], width, height, perX, perY,
    };
  }

  below() {
    if (this.panel.x === 'time' && this.u.scales.x.min !== null) paintBands(this.u.ctx, this.marks(), this.place(), this.u.bbox, devicePixelRatio, this.shown.length);
  }

  above() {
    const { u, page } = this;
    if (u.scales.x.min === null) return;
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const place = this.place();
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const slowest = this.isMap ? this.shown.map((recording) => this.paintMap(recording, place, ratio)).filter(Boolean) : [];
    if (slowest.length) this.paintSlowest(slowest.reduce((a, b) => (b.value > a.value ? b : a)), ratio);
    if (!this.isMap && this.shown.length > 1) this.paintLetters(place, ratio);
    ctx.restore();
    if (this.lanes) paintLanes(ctx, this.marks(), place, bbox, ratio);
    page.painted(this);
  }

  /** Paints the heat map or the points of a recording. Returns the slowest IO that it shows. */
  paintMap(recording, place, ratio) {
    const { u: { ctx, bbox }, page, panel: { map, y } } = this;
    const data = page.data(recording);
    if (!data) return null;
    const own = this.ownColour(recording);
    const inks = own ? [own, own] : ['read', 'write'];
    // Where recordings lie over each other both are seen.
    ctx.globalCompositeOperation = own ? page.blending : 'source-over';
    ctx.imageSmoothingEnabled = false;
    let slowest = null;
    if (data.points > 0) {
      const { canvas, xs, ys } = this.points(recording, data, place, ratio, inks, own);
      ctx.drawImage(canvas, place.x(xs[0]), place.y(ys[1]), place.x(xs[1]) - place.x(xs[0]), place.y(ys[0]) - place.y(ys[1]));
      if (y === 'response') slowest = slowestPoint(data, map, place);
    } else {
      const picture = this.picture(recording);
      if (!picture) return null;
      const left = place.x(picture.left);
      const right = place.x(picture.left + picture.width * picture.stepX);
      const bottom = place.y(picture.bottom);
      const top = place.y(picture.bottom + picture.height * picture.stepY);
      ctx.drawImage(picture.canvas, left, top, right - left, bottom - top);
      if (y === 'response') slowest = paintExtremes(ctx, extremes(data, map), picture, place, ratio, inks.map((ink) => colour(own ?? `${ink}-edge`)));
    }
    ctx.globalCompositeOperation = 'source-over';
    // Among equals none is the slowest.
    const kinds = Object.values(data.distribution).filter(Boolean);
    const areEqual = data.ios.read + data.ios.write > 1 && kinds.every(({ min_ns: min, max_ns: max }) => min !== null && min === max && max === kinds[0].max_ns);
    return slowest && !areEqual ? { ...slowest, ink: own ?? inks[slowest.kind] } : null;
  }

  /** The points as a picture. While the view moves the last one is stretched: a picture of 100,000 takes longer than a frame. */
  points(recording, data, { xs, ys, width, height }, ratio, inks, own) {
    const last = this.pictures.get(recording.id);
    const isOfNow = last && last.data === data && last.width === width && last.height === height && last.theme === this.page.theme;
    const isInPlace = isOfNow && `${last.xs},${last.ys}` === `${xs},${ys}`;
    if (isInPlace || (isOfNow && data.points > STRETCHED_POINTS && this.page.isMoving)) return last;
    const image = paintPoints(data, this.panel.map, this.place(true), ratio, inks, own, this.strength);
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext('2d').putImageData(image, 0, 0);
    const made = { canvas, xs, ys, width, height, data, theme: this.page.theme };
    this.pictures.set(recording.id, made);
    return made;
  }

  /** How strong the colours of recordings are that lie over each other: many would add up to black. */
  get strength() {
    return Math.min(1, OVERLAID / this.shown.length);
  }

  /** Recordings that lie over each other have one colour each; alone, reads and writes have theirs. */
  ownColour(recording) {
    return this.shown.length > 1 ? recordingColour(recording.index) : undefined;
  }

  picture(recording) {
    const data = this.page.data(recording);
    if (!data || !this.isMap) return null;
    const { perX, perY } = this.place();
    return bitmap(data, this.panel.map, { x: perX, y: perY }, this.ownColour(recording), this.strength);
  }

  /** A ring around the slowest IO in view, and its response time. */
  paintSlowest({ x, y, value, ink }, ratio) {
    const { ctx, bbox } = this.u;
    if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) return;
    ctx.strokeStyle = colour('ink');
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.arc(x, y, 5 * ratio, 0, 7);
    ctx.stroke();
    ctx.fillStyle = colour(ink);
    ctx.fillRect(x - 1.5 * ratio, y - 1.5 * ratio, 3 * ratio, 3 * ratio);
    const text = duration(2 ** value);
    ctx.font = `600 ${11.5 * ratio}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    const width = ctx.measureText(text).width;
    const isLeft = x + width + 14 * ratio > bbox.left + bbox.width;
    const at = isLeft ? x - width - 10 * ratio : x + 10 * ratio;
    const base = Math.min(Math.max(y, bbox.top + 8 * ratio), bbox.top + bbox.height - 8 * ratio);
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.fillStyle = colour('card', 0.85);
    ctx.fillRect(at - 3 * ratio, base - 8 * ratio, width + 6 * ratio, 16 * ratio);
    ctx.fillStyle = colour('ink');
    ctx.fillText(text, at, base + 0.5 * ratio);
  }

  /** Names the recordings of lines by their letters, on the lines. */
  paintLetters(place, ratio) {
    const { u: { ctx }, panel, data, series } = this;
    ctx.font = `700 ${10 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    this.shown.forEach((recording, order) => {
      // On the line of reads or of writes, whichever are more.
      const ios = this.page.data(recording)?.ios;
      const kind = ios && ios.write > ios.read ? 1 : 0;
      const index = series.findIndex((one) => one.recording === recording && (one.kind ?? kind) === kind);
      const spot = index < 0 ? null : anchor(panel.y, data[0], data[index + 1], place, (order + 0.5) / this.shown.length);
      if (!spot) return;
      const [x, y] = [place.x(spot[0]), Math.min(Math.max(place.y(spot[1]), place.y(place.ys[1]) + 8 * ratio), place.y(place.ys[0]) - 8 * ratio)];
      ctx.fillStyle = colour(recordingColour(recording.index));
      ctx.fillRect(x - 6.5 * ratio, y - 6.5 * ratio, 13 * ratio, 13 * ratio);
      ctx.fillStyle = colour('card');
      ctx.fillText(recording.letter, x, y + 0.5 * ratio);
    });
  }

  /** The marks in the lane at a place above the plot. */
  marksAt(left, top) {
    if (this.lanes === 0 || top >= -TOP / 2) return [];
    const marks = this.marks();
    const kinds = byKind(marks);
    const [, own] = kinds[Math.floor((top + TOP + kinds.length * LANE - 2) / LANE)] ?? [];
    const { x } = this.at(left, 0);
    const near = 4 / (this.place().perX / devicePixelRatio);
    return own?.filter(({ time_ns: [from, to] }) => x >= from - near && x <= to + near) ?? [];
  }

  // ---- What lies at a place ---------------------------------------------------------------------

  /** Coordinates of a place of the plot in CSS pixels. */
  at(left, top) {
    const { u } = this;
    return { x: u.posToVal(left, 'x'), y: u.posToVal(top, 'y') };
  }

  /** The cell or single IO of a recording at a place in CSS pixels. */
  found(recording, left, top) {
    const data = this.page.data(recording);
    if (!data || !this.isMap) return null;
    const ratio = devicePixelRatio;
    if (data.points > 0) {
      const point = nearestPoint(data, this.panel.map, this.place(true), left * ratio, top * ratio, 14 * ratio);
      return point === null ? null : { point, data };
    }
    const picture = this.picture(recording);
    const { x, y } = this.at(left, top);
    const cell = picture && cellAt(picture, x, y);
    return cell && { cell };
  }

  /** The top of the next cell or point with IOs above (-1) or below (1) a place, in CSS pixels; null beyond the last. */
  next(left, top, direction) {
    const ratio = devicePixelRatio;
    const place = this.place(true);
    const tops = this.shown.flatMap((recording) => {
      const data = this.page.data(recording);
      if (!data) return [];
      if (data.points > 0) return pointsNear(data, this.panel.map, place, left * ratio, NEAR * ratio);
      const picture = this.picture(recording);
      return picture ? filledRows(picture, this.at(left, top).x).map(place.y) : [];
    }).map((pixels) => pixels / ratio);
    const beyond = tops.filter((one) => (one - top) * direction > 0.5 && one >= 0 && one <= this.u.over.clientHeight);
    return beyond.length ? beyond.reduce((a, b) => ((b - a) * direction < 0 ? b : a)) : null;
  }

  hair(position) {
    const { u, panel } = this;
    if (!u) return;
    const set = (hair, dimension, scale, property) => {
      const value = position?.[dimension];
      hair.hidden = value === undefined || value < u.scales[scale].min || value > u.scales[scale].max;
      if (!hair.hidden) hair.style.transform = `translate${property}(${Math.round(u.valToPos(value, scale))}px)`;
    };
    set(this.hairX, panel.x, 'x', 'X');
    set(this.hairY, panel.y, 'y', 'Y');
  }

  destroy() {
    this.u?.destroy();
    this.host.remove();
  }
}

const gutter = (width) => (width < NARROW ? NARROW_GUTTER : GUTTER);

/** How wide a plot's own rectangle becomes in a host of this width. */
export const plotWidth = (width) => width - gutter(width) - RIGHT;

/** Labels without those that would be cut at the right edge. */
function fitting(u, splits, labels, isShown) {
  if (!isShown) return labels.map(() => '');
  const { min, max } = u.scales.x;
  const width = u.bbox.width / devicePixelRatio;
  return labels.map((label, index) => (((splits[index] - min) / (max - min)) * width + label.length * 3.2 > width + RIGHT ? '' : label));
}
