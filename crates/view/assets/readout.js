// The readout: what lies at the pointer, or at the cross of the keyboard.

import { byId, element, letter, swatch } from './elements.js';
import { valueAt } from './lines.js';
import { byteRate, counted, duration, figure, grouped, instant, ioRate, offset, offsetRange, percentile, responseRange, size, timeRange } from './words.js';

const box = byId('readout');
const SHOWN_MARKS = 3;

const VALUES = {
  time: (value, span) => instant(value, span / 1000),
  offset: (value, span) => offset(value, span),
  response: (value) => duration(2 ** value),
};
const RANGES = {
  time: timeRange,
  offset: offsetRange,
  response: (low, high) => responseRange(2 ** low, 2 ** high),
};
const FIGURES = { rate: ioRate, 'bytes/s': byteRate, count: (value) => figure(value), share: (value) => grouped(value), tail: (value) => percentile(10 ** -value) };

function row(mark, name, value) {
  const made = element('div', 'row');
  if (mark) made.append(mark);
  made.append(element('span', 'name', name), element('span', 'value', value));
  return made;
}

function cellRows(plot, cell) {
  return [
    row(null, plot.panel.x, RANGES[plot.panel.x](...cell.x)),
    row(null, plot.panel.y, RANGES[plot.panel.y](...cell.y)),
    row(swatch('dot', 'read'), 'reads', grouped(cell.reads)),
    row(swatch('square', 'write'), 'writes', grouped(cell.writes)),
  ];
}

function pointRows({ point, data: { arrays } }) {
  const kind = arrays.point_kind[point];
  return [
    row(swatch(kind & 1 ? 'square' : 'dot', kind & 1 ? 'write' : 'read'), kind & 1 ? 'write' : 'read', size(arrays.point_size[point])),
    row(null, 'response', duration(arrays.point_response[point], 4)),
    row(null, 'time', instant(arrays.point_time[point], 1000)),
    row(null, 'offset', `${size(arrays.point_offset[point])} (${grouped(arrays.point_offset[point])})`),
    ...(kind & 2 ? [row(swatch('cross', 'ink'), 'failed', 'yes')] : []),
  ];
}

function mapRows(plot, left, top) {
  return plot.shown.flatMap((recording) => {
    const found = plot.found(recording, left, top);
    const isEmpty = !found || (found.cell && found.cell.reads + found.cell.writes === 0);
    if (isEmpty) return [];
    const title = plot.shown.length > 1 ? [heading(recording)] : [];
    return [...title, ...(found.cell ? cellRows(plot, found.cell) : pointRows(found))];
  });
}

function heading(recording) {
  return element('div', 'row title', letter(recording), element('span', '', recording.name));
}

function lineRows(plot, x, isShare) {
  const { data, series } = plot;
  return series.flatMap((one, index) => {
    const value = valueAt(data[0], data[index + 1], x);
    if (value === null || value === undefined || !one.name) return [];
    const words = isShare ? `${figure(value * 100)}\u00a0%` : FIGURES[plot.panel.y](value);
    return [row(swatch(one.dash ? 'dashed' : 'solid', one.ink), one.name, words)];
  });
}

function markRows(plot, x) {
  if (plot.panel.x !== 'time') return [];
  const near = 3 / (plot.place().perX / devicePixelRatio);
  const found = plot.marks().filter(({ time_ns: [from, to] }) => x >= from - near && x <= to + near);
  const rows = found.slice(0, SHOWN_MARKS).map((mark) => element('div', 'mark', mark.text));
  if (found.length > SHOWN_MARKS) rows.push(element('div', 'mark', `and ${counted(found.length - SHOWN_MARKS, 'mark')} more`));
  return rows;
}

export function hide() {
  box.hidden = true;
}

/** Shows what lies at a place of a plot in CSS pixels. By the keyboard it is read out. */
export function show(plot, { left, top }, isSpoken) {
  const { u, panel } = plot;
  const { clientWidth, clientHeight } = u.over;
  const { x } = plot.at(left, top);
  const above = top < 0 ? plot.marksAt(left, top) : [];
  if (left < 0 || left > clientWidth || (top < 0 && above.length === 0) || top > clientHeight) return hide();
  const span = u.scales.x.max - u.scales.x.min;
  const isShare = panel.id === 'histogram' && plot.shown.length > 1;
  if (above.length) return place(plot, left, top, isSpoken, above.slice(0, SHOWN_MARKS).map(({ text, time_ns: time }) => element('div', '', element('b', '', text), row(null, 'time', timeRange(...time)), row(null, 'click', 'shows it'))));
  const rows = plot.isMap ? mapRows(plot, left, top) : lineRows(plot, x, isShare);
  const marks = markRows(plot, x);
  if (plot.isMap && rows.length === 0) {
    if (marks.length === 0 && !isSpoken) return hide();
    rows.push(row(null, panel.x, VALUES[panel.x](x, span)), element('div', 'row', element('span', 'name', 'no IO here')));
  } else if (!plot.isMap) {
    rows.unshift(element('b', '', VALUES[panel.x](x, span)));
  }
  place(plot, left, top, isSpoken, [...rows, ...marks]);
}

/** Puts the readout next to a place of a plot, within the window. */
function place({ u }, left, top, isSpoken, content) {
  box.replaceChildren(...content);
  box.setAttribute('aria-live', isSpoken ? 'polite' : 'off');
  box.hidden = false;
  const plot = u.over.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = box;
  const pageX = plot.left + left;
  const isLeft = pageX + 18 + offsetWidth > document.documentElement.clientWidth;
  const at = Math.max(6, isLeft ? pageX - 16 - offsetWidth : pageX + 16);
  const down = Math.max(6, Math.min(innerHeight - offsetHeight - 6, plot.top + top - offsetHeight / 2));
  box.style.transform = `translate(${Math.round(at)}px, ${Math.round(down)}px)`;
}
