// Draws the charts of the page, and makes its tables sortable.
//
// The charts come from one JSON document (crate report, charts.rs): for each an x axis, a y axis,
// series over common x values, and marks. This script decides nothing about their content. Text
// goes into the page as text nodes only, never as HTML.
'use strict';

// While printing, how wide charts are in CSS pixels: what A4 and Letter have room for.
const PAPER_WIDTH = 620;
let paperWidth = null;

const drawings = JSON.parse(document.getElementById('charts').textContent);
const charts = [];

// ---- Figures in words -------------------------------------------------------------------------

const TIME = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
const SIZE = [[1, 'B'], [1024, 'KiB'], [1024 ** 2, 'MiB'], [1024 ** 3, 'GiB'], [1024 ** 4, 'TiB']];
const RATE = [[1, 'B/s'], [1e3, 'kB/s'], [1e6, 'MB/s'], [1e9, 'GB/s']];

function scaled(value, units, digits) {
  let [size, unit] = units[0];
  for (const step of units) if (Math.abs(value) >= step[0] * 0.9995) [size, unit] = step;
  return Number((value / size).toPrecision(digits)) + '\u00a0' + unit;
}

function inUnit(value, unit, digits = 3) {
  if (value == null) return '';
  if (unit === 'ns') return scaled(value, TIME, digits);
  if (unit === 'bytes') return scaled(value, SIZE, Math.max(4, digits));
  if (unit === 'bytes/s') return scaled(value, RATE, digits);
  if (unit === 'share') return Number((value * 100).toPrecision(digits)) + '\u00a0%';
  if (unit === 'tail') return untilInWords(value);
  if (unit === 'ratio') return Number(value.toPrecision(digits)) + '×';
  return Number(value.toPrecision(12)).toLocaleString('en').replaceAll(',', '\u202f');
}

// The share that is not beyond: with the more digits, the smaller the share beyond is.
function untilInWords(beyond) {
  const digits = beyond > 0 && beyond < 1 ? 1 + Math.max(1, Math.ceil(-Math.log10(beyond))) : 3;
  return inUnit(1 - beyond, 'share', Math.max(2, digits));
}

function xInWords(drawing, index) {
  return drawing.x.labels[index] ?? inUnit(drawing.values[index], drawing.x.unit);
}

// ---- Colours ----------------------------------------------------------------------------------

// The style sheet holds the colours; a canvas needs them resolved for the theme that is shown.
const probe = document.createElement('span');
probe.hidden = true;
document.body.append(probe);

function colour(name, alpha = 1) {
  probe.style.color = `var(--${name})`;
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
  return `rgba(${r},${g},${b},${alpha})`;
}

// ---- Axes -------------------------------------------------------------------------------------

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const LABEL_PIXELS = 64;

// Powers of two of bytes, or doublings of the smallest value, thinned out until their labels have room.
function doublings(chart, low, high) {
  const first = chart.drawing.x.unit === 'bytes' ? 2 ** Math.ceil(Math.log2(low)) : chart.drawing.values[0];
  const room = Math.max(2, Math.floor(chart.plotWidth() / LABEL_PIXELS));
  const steps = Math.log2(high / low);
  if (steps < 2) return chart.drawing.values.filter((value) => value >= low && value <= high);
  const stride = Math.ceil(steps / room);
  const splits = [];
  for (let step = 0; first * 2 ** step <= high * 1.0001; step += stride) {
    if (first * 2 ** step >= low) splits.push(first * 2 ** step);
  }
  return splits;
}

function ordinals(chart, low, high) {
  const room = Math.max(2, Math.floor(chart.plotWidth() / 40));
  const stride = Math.ceil((high - low) / room) || 1;
  const count = chart.drawing.values.length;
  return [...Array(count).keys()].filter((n) => n % stride === 0 && n >= low && n <= high);
}

function xScale(drawing) {
  if (drawing.x.scale === 'log2') {
    return { time: false, distr: 3, log: 2, range: (u, low, high) => [low / 1.15, high * 1.15] };
  }
  if (drawing.x.scale === 'log10') {
    return { time: false, distr: 3, log: 10, range: (u, low, high) => [low / 1.05, high * 1.05] };
  }
  const margin = drawing.x.scale === 'ordinal' ? 0.4 : 0;
  return {
    time: false,
    range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low - margin, high + margin]),
  };
}

function xAxis(chart) {
  const { x } = chart.drawing;
  const axis = {
    label: x.label,
    size: 30,
    values: (u, splits) => splits.map((value) => (x.scale === 'ordinal' ? x.labels[value] : inUnit(value, x.unit))),
  };
  if (x.scale === 'log2') {
    axis.splits = (u, index, low, high) => doublings(chart, low, high);
    axis.filter = (u, splits) => splits;
  } else if (x.scale === 'log10') {
    axis.splits = (u, index, low, high) => logSplits(low, high);
    axis.filter = (u, splits) => splits;
  } else if (x.scale === 'ordinal') {
    axis.splits = (u, index, low, high) => ordinals(chart, low, high);
  }
  return axis;
}

// A distribution has the share beyond as its values. Its logarithmic axis ends at the top with the smallest, so that the line
// rises as that of the shares below does, and the tail has as much room as the rest.
function isTail(chart) {
  return chart.drawing.y.scale === 'tail';
}

// The top of the axis: nothing is beyond the slowest IO, and its line ends there.
function tailTop(chart) {
  const beyond = chart.drawing.series.flatMap((one) => one.values).filter((value) => value > 0);
  return Math.min(0.1, ...beyond) / 1.5;
}

function tailSplits(low) {
  const splits = [0.5];
  for (let beyond = 0.1; beyond >= low * 0.9999; beyond /= 10) splits.push(beyond);
  return splits.reverse();
}

function yScale(chart) {
  if (isTail(chart) && chart.logarithmic) {
    return { distr: 3, log: 10, dir: -1, range: () => [tailTop(chart), 1] };
  }
  // The names of marks stand above the values.
  const above = chart.drawing.marks.length > 0 ? 0.12 : 0;
  if (chart.logarithmic) {
    return { distr: 3, log: 10, range: (u, low, high) => logRange(low, high, above) };
  }
  return { range: (u, low, high) => [0, (high ?? 1) * (1.05 + above)] };
}

// A little air around the values, and never less than a third of a decade, so that noise is not
// blown up to look like an effect.
function logRange(low, high, above) {
  if (low == null || !(low > 0)) return [1, 10];
  const middle = Math.sqrt(low * high);
  const factor = Math.max(Math.sqrt(high / low) * 1.15, 1.5);
  return [middle / factor, middle * factor ** (1 + 2 * above)];
}

// The decades between two values, with 2 and 5 in between when there are few.
function logSplits(low, high) {
  const decades = Math.log10(high / low);
  const within = decades > 3 ? [1] : decades > 1.2 ? [1, 3] : decades > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const splits = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of within) {
      const value = digit * 10 ** power;
      if (value >= low * 0.9999 && value <= high * 1.0001) splits.push(value);
    }
  }
  return splits;
}

function yAxis(chart) {
  const { y } = chart.drawing;
  const unit = isTail(chart) && !chart.logarithmic ? 'share' : y.unit;
  const axis = { label: y.label, size: 68, values: (u, splits) => splits.map((value) => inUnit(value, unit)) };
  if (isTail(chart) && chart.logarithmic) {
    axis.splits = (u, index, low) => tailSplits(low);
    axis.filter = (u, splits) => splits;
  } else if (chart.logarithmic) {
    axis.splits = (u, index, low, high) => logSplits(low, high);
    axis.filter = (u, splits) => splits;
  }
  return axis;
}

// Sizes have ticks at powers of two.
const DOUBLINGS = Array.from({ length: 63 }, (none, power) => 2 ** power);

function styled(axis, unit) {
  return {
    font: FONT,
    labelFont: FONT,
    labelSize: 22,
    labelGap: 4,
    gap: 6,
    stroke: colour('muted'),
    grid: { stroke: colour('rule'), width: 1 },
    ticks: { show: false },
    ...(unit === 'bytes' ? { incrs: DOUBLINGS } : {}),
    ...axis,
  };
}

// ---- Series -----------------------------------------------------------------------------------

// Dots are the smaller, the more there are of them.
const FEW_DOTS = 100;
const MANY_DOTS = 2000;
const dotSize = (count) => (count > MANY_DOTS ? 3 : count > FEW_DOTS ? 4.5 : 7);

function lineOptions(series, covered) {
  const stroke = colour(series.colour);
  const mixed = series.points !== series.colour;
  const dot = { show: true, size: mixed ? 9 : 7, width: mixed ? 2 : 1.5, stroke, fill: colour(series.points), space: 0 };
  switch (series.style) {
    case 'dots':
      return { paths: () => null, points: { ...dot, size: dotSize(series.values.length), width: 0, fill: colour(series.points, 0.75) } };
    case 'dashed':
      return { stroke, width: 1.75, dash: [7, 5], points: { show: false } };
    case 'solid':
      return { stroke, width: 1.75 + 2 * covered, points: { show: false } };
    default:
      return { stroke, width: 2, points: dot };
  }
}

function tailValues(chart, values) {
  if (!chart.logarithmic) return values.map((beyond) => (beyond == null ? null : 1 - beyond));
  const top = tailTop(chart);
  return values.map((beyond) => (beyond == null ? null : Math.max(beyond, top)));
}

// uPlot wants the series in a row; a band is two more of them, unseen, with the space between filled.
function columns(chart) {
  const data = [chart.drawing.values];
  const series = [{}];
  const bands = [];
  chart.indices = chart.drawing.series.map((one, index) => {
    const show = !chart.hidden.has(index);
    const own = [data.length];
    data.push(isTail(chart) ? tailValues(chart, one.values) : one.values);
    // A line that others may cover is as much wider.
    const covered = chart.drawing.series.slice(index + 1).filter((other) => other.style === 'solid').length;
    series.push({ label: one.name, show, spanGaps: true, ...lineOptions(one, covered) });
    if (one.band) {
      own.push(data.length, data.length + 1);
      bands.push({ series: [data.length + 1, data.length], fill: colour(one.colour, 0.16) });
      for (const edge of one.band) {
        data.push(edge);
        series.push({ show, spanGaps: true, width: 0, stroke: 'transparent', points: { show: false } });
      }
    }
    return own;
  });
  return { data, series, bands };
}

// ---- Marks ------------------------------------------------------------------------------------

function drawMarks(chart, u) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  ctx.strokeStyle = colour('muted', 0.9);
  ctx.fillStyle = colour('ink');
  ctx.lineWidth = ratio;
  let taken = -Infinity;
  let row = 0;
  for (const [position, name] of chart.drawing.marks) {
    const x = u.valToPos(Math.max(position, u.scales.x.min), 'x', true);
    if (position > u.scales.x.max) continue;
    if (position > u.scales.x.min) dashedLine(ctx, x, bbox.top, x, bbox.top + bbox.height, ratio);
    const width = ctx.measureText(name).width;
    const left = Math.max(bbox.left + 3 * ratio, Math.min(x + 5 * ratio, bbox.left + bbox.width - width - 4 * ratio));
    row = left < taken ? row + 1 : 0;
    taken = left + width + 6 * ratio;
    label(ctx, name, left, bbox.top + (13 + 15 * row) * ratio, width, ratio);
  }
  drawLevel(chart, u, ratio);
  ctx.restore();
}

function drawLevel(chart, u, ratio) {
  const { level } = chart.drawing;
  if (!level || !(level[0] > u.scales.y.min && level[0] < u.scales.y.max)) return;
  const { ctx, bbox } = u;
  const y = u.valToPos(level[0], 'y', true);
  dashedLine(ctx, bbox.left, y, bbox.left + bbox.width, y, ratio);
  const width = ctx.measureText(level[1]).width;
  label(ctx, level[1], bbox.left + bbox.width - width - 6 * ratio, y - 5 * ratio, width, ratio);
}

function dashedLine(ctx, x0, y0, x1, y1, ratio) {
  ctx.beginPath();
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

// On a patch of the background, so that dots beneath it do not make it unreadable.
function label(ctx, text, x, y, width, ratio) {
  const ink = ctx.fillStyle;
  ctx.fillStyle = colour('card', 0.85);
  ctx.fillRect(x - 2 * ratio, y - 11 * ratio, width + 4 * ratio, 15 * ratio);
  ctx.fillStyle = ink;
  ctx.fillText(text, x, y);
}

// ---- Read-out ---------------------------------------------------------------------------------

function element(tag, className, text = '') {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function showReadout(chart, u) {
  const { idx, left, top } = u.cursor;
  const { readout, drawing } = chart;
  const rows = idx == null || left < 0 ? [] : readoutRows(chart, idx);
  readout.hidden = rows.length === 0;
  if (readout.hidden) return;
  readout.replaceChildren(element('b', '', `${drawing.x.label} ${xInWords(drawing, idx)}`), ...rows);
  const flip = left > u.over.clientWidth / 2;
  readout.style.left = `${left + u.over.offsetLeft + (flip ? -14 : 14)}px`;
  readout.style.top = `${Math.max(0, top) + u.over.offsetTop}px`;
  readout.style.transform = flip ? 'translate(-100%, -50%)' : 'translate(0, -50%)';
}

function readoutRows(chart, idx) {
  const { series, y } = chart.drawing;
  return series.flatMap((one, index) => {
    const value = one.values[idx];
    if (value == null || chart.hidden.has(index)) return [];
    const row = element('div', 'row');
    row.append(swatch(one), element('span', 'name', one.name), element('span', 'value', inUnit(value, y.unit)));
    if (one.band && one.band[0][idx] !== one.band[1][idx]) {
      row.append(element('span', 'band', one.band.map((edge) => inUnit(edge[idx], y.unit)).join(' – ')));
    }
    return [row];
  });
}

function swatch(series) {
  const made = element('i', `swatch ${series.style}`);
  made.style.setProperty('--line', `var(--${series.colour})`);
  made.style.setProperty('--dot', `var(--${series.points})`);
  return made;
}

// ---- A chart ----------------------------------------------------------------------------------

function options(chart, columns) {
  const { drawing } = chart;
  return {
    width: chart.width(),
    height: chart.figure.classList.contains('wide') ? 380 : 290,
    scales: { x: xScale(drawing), y: yScale(chart) },
    axes: [styled(xAxis(chart), drawing.x.unit), styled(yAxis(chart), drawing.y.unit)],
    series: columns.series,
    bands: columns.bands,
    legend: { show: false },
    padding: [10, 24, 0, 0],
    cursor: { drag: { x: true, y: false }, points: { size: 9 }, y: false },
    hooks: {
      draw: [(u) => drawMarks(chart, u), () => { chart.figure.dataset.drawn = 'true'; }],
      setCursor: [(u) => showReadout(chart, u)],
      setScale: [(u, key) => { if (key === 'x') noteZoom(chart, u); }],
    },
  };
}

function noteZoom(chart, u) {
  const { values } = chart.drawing;
  const { min, max } = u.scales.x;
  chart.zoomed = min > values[0] || max < values[values.length - 1];
  chart.reset.hidden = !chart.zoomed;
  if (chart.zoomed) chart.range = { min, max };
}

function draw(chart) {
  chart.u?.destroy();
  const made = columns(chart);
  const range = chart.zoomed ? chart.range : null;
  chart.u = new uPlot(options(chart, made), made.data, chart.plot);
  chart.u.root.append(chart.readout);
  if (range) chart.u.setScale('x', range);
}

function resetZoom(chart) {
  chart.zoomed = false;
  chart.u.setData(chart.u.data, true);
  chart.plot.focus({ preventScroll: true });
}

function toggle(chart, index, button) {
  const show = chart.hidden.has(index);
  if (show) chart.hidden.delete(index); else chart.hidden.add(index);
  button.setAttribute('aria-pressed', show);
  for (const column of chart.indices[index]) chart.u.setSeries(column, { show });
}

function legend(chart) {
  const buttons = chart.drawing.series.map((one, index) => {
    const button = element('button', 'key');
    button.type = 'button';
    button.setAttribute('aria-pressed', true);
    button.append(swatch(one), one.name);
    button.addEventListener('click', () => toggle(chart, index, button));
    return button;
  });
  return [...buttons, element('span', 'push'), chart.reset, scaleButton(chart)];
}

function scaleButton(chart) {
  const button = element('button', 'tool');
  button.type = 'button';
  const name = () => { button.textContent = chart.logarithmic ? 'log axis' : 'linear axis'; };
  button.setAttribute('aria-label', 'Switch the vertical axis between logarithmic and linear');
  button.addEventListener('click', () => {
    chart.logarithmic = !chart.logarithmic;
    name();
    draw(chart);
  });
  name();
  return button;
}

function onKey(chart, event) {
  const { u, drawing } = chart;
  const last = drawing.values.length - 1;
  const now = u.cursor.idx ?? -1;
  const stride = event.shiftKey ? Math.ceil(last / 20) : 1;
  const next = { ArrowRight: now + stride, ArrowLeft: now - stride, Home: 0, End: last }[event.key];
  if (event.key === 'Escape') {
    resetZoom(chart);
  } else if (next !== undefined) {
    const index = Math.min(last, Math.max(0, next));
    u.setCursor({ left: u.valToPos(drawing.values[index], 'x'), top: u.over.clientHeight / 2 });
  } else {
    return;
  }
  event.preventDefault();
}

function begin(id, drawing) {
  const figure = document.getElementById(id);
  const plot = figure.querySelector('.plot');
  const reset = element('button', 'tool', 'reset zoom');
  reset.type = 'button';
  reset.hidden = true;
  const readout = element('div', 'readout');
  readout.hidden = true;
  readout.setAttribute('aria-live', 'polite');
  const chart = {
    figure, plot, drawing, reset, readout,
    hidden: new Set(),
    logarithmic: drawing.y.scale === 'log10' || drawing.y.scale === 'tail',
    zoomed: false,
    width: () => paperWidth ?? Math.max(240, plot.clientWidth),
    plotWidth: () => Math.max(120, plot.clientWidth - 90),
  };
  reset.addEventListener('click', () => resetZoom(chart));
  plot.addEventListener('keydown', (event) => onKey(chart, event));
  plot.addEventListener('blur', () => chart.u.setCursor({ left: -10, top: -10 }));
  figure.querySelector('.legend').append(...legend(chart));
  draw(chart);
  charts.push(chart);
  new ResizeObserver(() => {
    if (chart.u.width !== chart.width()) chart.u.setSize({ width: chart.width(), height: chart.u.height });
  }).observe(plot);
}

// ---- Theme and print --------------------------------------------------------------------------

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

function redraw() {
  charts.forEach(draw);
}

document.getElementById('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : systemIsDark.matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    localStorage.setItem('flashlab-theme', root.dataset.theme);
  } catch {
    // Pages from a file may have no storage; the choice then lasts as long as the page.
  }
  redraw();
});
systemIsDark.addEventListener('change', redraw);

// Paper is white.
let themeOnScreen;
addEventListener('beforeprint', () => {
  themeOnScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = 'light';
  paperWidth = PAPER_WIDTH;
  redraw();
});
addEventListener('afterprint', () => {
  paperWidth = null;
  if (themeOnScreen) document.documentElement.dataset.theme = themeOnScreen;
  else delete document.documentElement.dataset.theme;
  redraw();
});

// ---- Tables -----------------------------------------------------------------------------------

function sortKey(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent;
  const number = Number(text);
  return text !== '' && !Number.isNaN(number) ? number : text;
}

function compareKeys(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'number') return -1;
  if (typeof b === 'number') return 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

function sortBy(table, heading) {
  const ascending = heading.getAttribute('aria-sort') !== 'ascending';
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
  const keyed = [...table.tBodies[0].rows].map((row) => [sortKey(row, heading.cellIndex), row]);
  keyed.sort(([a], [b]) => (ascending ? compareKeys(a, b) : compareKeys(b, a)));
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

for (const table of document.querySelectorAll('table.sortable')) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = element('button', '', heading.textContent);
    button.type = 'button';
    button.addEventListener('click', () => sortBy(table, heading));
    heading.replaceChildren(button);
  }
}

for (const [id, drawing] of Object.entries(drawings)) begin(id, drawing);

// `flashlab view` serves this page at report/N/ below its own: there, what has a view of its own links to it.
if (/^https?:/.test(location.protocol) && /\/report\/\d+\/$/.test(location.pathname)) {
  for (const host of document.querySelectorAll('[data-view]')) {
    const link = element('a');
    link.href = `../../#${host.dataset.view}&recording=${location.pathname.match(/(\d+)\/$/)[1]}`;
    link.title = 'Look at each IO';
    link.append(...host.childNodes);
    host.append(link);
  }
}
