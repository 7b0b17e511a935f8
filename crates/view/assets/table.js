// The table of the IOs in view: loaded when it is opened, sorted and paged by the server.

import { button, byId, element } from './elements.js';
import { source } from './source.js';
import { counted, duration, grouped, instant, size } from './words.js';

const PAGE = 200;
const SORTABLE = ['time_ns', 'response_ns', 'offset_bytes', 'size_bytes', 'run', 'process']; // The server's orders.
const NUMERIC = /_(ns|bytes)$|^(run|position|process|ios?|sector|size)$/;

const host = byId('ios');
const content = byId('ios-content');

/** "submit_ns" is shown as "submit": the unit stands with each value. */
const heading = (column) => (column === 'offset_bytes' ? 'offset (bytes)' : column.replace(/_(ns|bytes)$/, '').replaceAll('_', ' '));

function words(column, value) {
  if (value === null || value === undefined || value === '') return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return String(value);
  if (column === 'size_bytes') return size(value);
  if (/(submit|start|time|complete|finish)\w*_ns$/.test(column)) return instant(value, 1000);
  if (column.endsWith('_ns')) return duration(value, 4);
  return grouped(value);
}

export class IoTable {
  constructor(page) {
    Object.assign(this, { page, sort: 'response_ns', isDescending: true, start: 0, recording: page.recordings[0], controller: null, shown: null });
    host.addEventListener('toggle', () => this.view());
  }

  get query() {
    return this.page.queryOf(this.recording);
  }

  /** The view changed, or the table was opened. */
  view() {
    if (!host.open || this.shown === this.query) return;
    this.start = 0;
    this.load();
  }

  /** A view that still moves is not asked for. */
  later() {
    if (!host.open) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.view(), 250);
  }

  async load() {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    this.shown = this.query;
    content.setAttribute('aria-busy', 'true');
    if (!content.firstChild) content.append(element('p', 'detail', 'Loading the IOs …'));
    try {
      const answer = await source.ios(this.query, { sort: this.sort, isDescending: this.isDescending, start: this.start, count: PAGE }, controller.signal);
      if (this.controller === controller) this.fill(answer);
    } catch (error) {
      if (error.name === 'AbortError' || this.controller !== controller) return;
      this.shown = null;
      const isDefault = this.sort === 'response_ns' && this.isDescending;
      const ways = isDefault ? [] : [button('tool', '', () => this.slowestFirst(), 'Slowest first')];
      content.replaceChildren(element('p', 'notice failure', element('span', '', error.message), button('tool', '', () => this.load(), 'Retry'), ...ways));
    }
    content.removeAttribute('aria-busy');
  }

  fill({ matching, is_bounded: isBounded, columns, rows }) {
    const parts = [this.bar(matching, isBounded, rows.length)];
    if (rows.length) {
      const scroll = element('div', 'scroll', this.table(columns, rows));
      scroll.tabIndex = 0;
      scroll.setAttribute('role', 'region');
      scroll.setAttribute('aria-label', 'IOs in view');
      parts.push(scroll);
    }
    const had = content.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    content.replaceChildren(...parts);
    // A control that was used keeps the focus.
    if (had) [...content.querySelectorAll('[data-key]')].find(({ dataset }) => dataset.key === had)?.focus({ preventScroll: true });
  }

  bar(matching, isBounded, count) {
    const bar = element('div', 'bar');
    if (this.page.recordings.length > 1) bar.append(this.recordingChoice());
    const last = this.start + count;
    bar.append(element('span', 'count', count === 0 ? 'No IO is in view.' : `${grouped(this.start + 1)} to ${grouped(last)}${matching === null ? '' : ` of ${isBounded ? 'at least ' : ''}${counted(matching, 'IO')}`}`));
    const turn = (key, label, text, start, isOff) => {
      const made = button('tool', label, () => { this.start = start; this.load(); }, text);
      made.disabled = isOff;
      made.dataset.key = key;
      return made;
    };
    bar.append(turn('previous', 'Previous page', '‹', Math.max(0, this.start - PAGE), this.start === 0), turn('next', 'Next page', '›', this.start + PAGE, matching === null ? count < PAGE : last >= matching));
    if (!source.exportOf) return bar;
    bar.append(element('span', 'push'), element('span', 'detail', 'Export'));
    for (const [format, name] of [['csv', 'CSV'], ['arrow', 'Arrow'], ['parquet', 'Parquet']]) {
      const link = element('a', 'tool', name);
      link.href = source.exportOf(this.query, format);
      link.download = '';
      bar.append(link);
    }
    return bar;
  }

  recordingChoice() {
    const made = element('select', 'tool');
    made.setAttribute('aria-label', 'Recording');
    made.dataset.key = 'recording';
    made.append(...this.page.recordings.map(({ id, name }) => Object.assign(element('option', '', name), { value: id })));
    made.value = this.recording.id;
    made.addEventListener('change', () => {
      this.recording = this.page.recordings.find(({ id }) => id === Number(made.value));
      this.start = 0;
      this.load();
    });
    return made;
  }

  table(columns, rows) {
    const isNumeric = columns.map((column, index) => NUMERIC.test(column) || typeof rows[0][index] === 'number');
    const head = element('tr');
    columns.forEach((column, index) => {
      const cell = element('th', isNumeric[index] ? 'number' : '');
      cell.scope = 'col';
      if (column === this.sort) cell.setAttribute('aria-sort', this.isDescending ? 'descending' : 'ascending');
      if (SORTABLE.includes(column)) {
        const made = button('', '', () => this.sortBy(column), heading(column));
        made.title = `Sort by ${column}`;
        made.dataset.key = `sort ${column}`;
        cell.append(made);
      } else {
        cell.append(heading(column));
      }
      head.append(cell);
    });
    const body = element('tbody');
    for (const row of rows) {
      const made = element('tr');
      row.forEach((value, index) => {
        const cell = element('td', isNumeric[index] ? 'number' : '', words(columns[index], value));
        if (typeof value === 'number' && NUMERIC.test(columns[index])) cell.title = `${value}`;
        made.append(cell);
      });
      body.append(made);
    }
    return element('table', '', element('thead', '', head), body);
  }

  slowestFirst() {
    Object.assign(this, { sort: 'response_ns', isDescending: true, start: 0 });
    this.load();
  }

  sortBy(column) {
    this.isDescending = column === this.sort ? !this.isDescending : true;
    this.sort = column;
    this.start = 0;
    this.load();
  }
}
