// Filters, chips, notices and the buttons of the bar.

import { button, byId, element, letter, swatch } from './elements.js';
import { EVERYTHING } from './state.js';
import { counted, duration, grouped, offsetRange, responseRange, timeRange } from './words.js';

const SHOWN_ITEMS = 100; // A list of more is narrowed by the search.

function choice(host, label, options, act) {
  const buttons = options.map(([value, ...content]) => {
    const made = button('', '', () => act(value), ...content);
    made.dataset.value = value;
    return made;
  });
  host.classList.add('choice');
  host.setAttribute('role', 'group');
  host.setAttribute('aria-label', label);
  host.replaceChildren(...buttons);
  return (value) => buttons.forEach((one) => one.setAttribute('aria-pressed', one.dataset.value === value));
}

/** A button that opens a panel below it. It closes by Escape, by a click elsewhere and by leaving it. */
function menu(label, ...content) {
  const made = element('details', 'menu');
  const summary = element('summary', 'tool', label);
  const sheet = element('div', 'sheet', ...content);
  made.append(summary, sheet);
  made.addEventListener('toggle', () => {
    sheet.style.left = '0';
    const beyond = sheet.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
    if (beyond > 0) sheet.style.left = `${-beyond}px`;
  });
  made.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !made.open) return;
    made.open = false;
    summary.focus();
    event.stopPropagation();
  });
  made.addEventListener('focusout', (event) => { if (event.relatedTarget && !made.contains(event.relatedTarget)) made.open = false; });
  document.addEventListener('pointerdown', (event) => { if (!made.contains(event.target)) made.open = false; });
  return made;
}

function select(label, options, act) {
  const made = element('select', 'tool');
  made.setAttribute('aria-label', label);
  made.append(...options.map(([value, text]) => Object.assign(element('option', '', text), { value })));
  made.addEventListener('change', () => act(made.value));
  return made;
}

function checkbox(checked, act, ...content) {
  const input = element('input');
  input.type = 'checkbox';
  input.checked = checked;
  input.addEventListener('change', () => act(input.checked));
  return element('label', 'check', input, ...content);
}

/** Builds the filters. Returns a function that shows the state in them. */
export function filters(page) {
  const form = byId('filters');
  form.addEventListener('submit', (event) => event.preventDefault());
  const kinds = element('div');
  const showKind = choice(kinds, 'Reads and writes', [['', 'All'], ['read', swatch('dot', 'read'), 'Reads'], ['write', swatch('square', 'write'), 'Writes']], (modes) => page.update({ modes }));
  const sizes = sizeMenu(page);
  const errors = select('Errors', [['', 'All IOs'], ['none', 'Without failed IOs'], ['only', 'Failed IOs only']], (value) => page.update({ errors: value }));
  const processes = Math.max(0, ...page.recordings.map(({ process_count: count }) => count));
  const process = select('Process', [['', 'All processes'], ...Array.from({ length: Math.min(processes, 1024) }, (none, index) => [`${index}`, `Process ${index}`])], (value) => page.update({ process: value === '' ? null : Number(value) }));
  process.hidden = processes < 2;
  const runs = runMenu(page);
  const marks = markMenu(page);
  const parts = [kinds, sizes.host, errors, process, runs, marks.host];
  let showLayout = () => {};
  let recordings = { show: () => {} };
  if (page.recordings.length > 1) {
    const layout = element('div');
    showLayout = choice(layout, 'Layout of the recordings', [['stacked', 'Stacked'], ['overlay', 'Overlaid']], (value) => page.update({ layout: value }));
    recordings = recordingKeys(page);
    parts.push(layout, recordings.host);
  }
  form.replaceChildren(...parts);
  return (state) => {
    showKind(state.modes);
    showLayout(state.layout);
    sizes.show(state);
    recordings.show(state);
    errors.value = state.errors;
    process.value = state.process ?? '';
    marks.show(state);
  };
}

function sizeMenu(page) {
  const classes = new Map();
  for (const { size_classes: own } of page.recordings) {
    for (const one of own) classes.set(one.class, { ...one, ios: one.ios + (classes.get(one.class)?.ios ?? 0) });
  }
  const sorted = [...classes.values()].sort((a, b) => a.class - b.class);
  const all = sorted.map((one) => one.class);
  const toggle = (which, isOn) => {
    const now = page.state.sizes.length ? page.state.sizes : all;
    const next = isOn ? [...now, which].sort((a, b) => a - b) : now.filter((other) => other !== which);
    page.update({ sizes: next.length === all.length ? [] : next });
  };
  const boxes = sorted.map((one) => [one.class, checkbox(true, (isOn) => toggle(one.class, isOn), element('span', '', one.name), element('span', 'detail', counted(one.ios, 'IO')))]);
  const host = menu('Sizes', ...boxes.map(([, label]) => label));
  host.hidden = sorted.length < 2;
  const show = ({ sizes }) => {
    for (const [which, label] of boxes) {
      const input = label.firstChild;
      input.checked = sizes.length === 0 || sizes.includes(which);
      // At least one size stays.
      input.disabled = input.checked && (sizes.length === 1 || all.length === 1);
    }
  };
  return { host, show };
}

/** A menu with a list that a search narrows. `words` gives number, text and detail of an item. */
function searchMenu(label, noun, items, words, act, ...head) {
  const search = element('input');
  search.type = 'search';
  search.placeholder = `Search ${noun}s`;
  search.setAttribute('aria-label', `Search ${noun}s`);
  const list = element('ul', 'list');
  const host = menu(label, ...head, search, list);
  const fill = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = items().filter((item) => words(item).slice(0, 2).join(' ').toLowerCase().includes(wanted));
    const rows = found.slice(0, SHOWN_ITEMS).map((item) => {
      const [number, text, detail] = words(item);
      const choose = () => {
        host.open = false;
        act(item);
      };
      return element('li', '', button('item', '', choose, element('span', 'number', number), element('span', 'text', text), element('span', 'detail', detail)));
    });
    if (found.length > SHOWN_ITEMS) rows.push(element('li', 'detail', `and ${grouped(found.length - SHOWN_ITEMS)} more: search for them`));
    if (found.length === 0) rows.push(element('li', 'detail', `no ${noun} has this in its name`));
    list.replaceChildren(...rows);
  };
  search.addEventListener('input', fill);
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') list.querySelector('button')?.click();
    if (event.key === 'ArrowDown') list.querySelector('button')?.focus();
  });
  list.addEventListener('keydown', (event) => {
    const item = event.target.closest('li');
    const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling }[event.key];
    if (next === undefined) return;
    (next?.querySelector('button') ?? search).focus();
    event.preventDefault();
  });
  host.querySelector('summary').addEventListener('click', () => { if (!host.open) fill(); });
  host.addEventListener('toggle', () => { if (host.open) search.focus({ preventScroll: true }); });
  return host;
}

function runMenu(page) {
  const host = searchMenu('Runs', 'run', () => page.runs(), ({ run, name, ios }) => [`${run}`, name, counted(ios, 'IO')], (run) => page.chooseRun(run));
  host.hidden = page.runs().length < 2;
  return host;
}

function markMenu(page) {
  const all = () => page.visible.flatMap(({ letter: own, marks }) => marks.map((mark) => ({ ...mark, text: page.isOneOfSeveral ? `${own}: ${mark.text}` : mark.text })));
  const shown = checkbox(true, (marks) => page.update({ marks }), element('span', '', 'Show marks'), element('kbd', '', 'm'));
  const host = searchMenu('Marks', 'mark', all, ({ kind, text, time_ns: [from] }) => [kind, text, duration(from)], (mark) => page.chooseMark(mark), shown);
  host.classList.add('wide');
  host.hidden = page.recordings.every((one) => one.marks.length === 0);
  return { host, show: ({ marks }) => { shown.firstChild.checked = marks; } };
}

/** The legend of several recordings: each can be hidden. */
function recordingKeys(page) {
  const keys = page.recordings.map((recording) => {
    const made = button('key', '', () => {
      const { hidden } = page.state;
      const next = hidden.includes(recording.id) ? hidden.filter((id) => id !== recording.id) : [...hidden, recording.id];
      if (next.length < page.recordings.length) page.update({ hidden: next });
    }, letter(recording), element('span', '', recording.name));
    made.title = `${recording.name}: ${counted(recording.ios, 'IO')} of ${recording.target}`;
    return made;
  });
  const host = element('div', 'keys', ...keys);
  host.setAttribute('role', 'group');
  host.setAttribute('aria-label', 'Recordings');
  const show = ({ hidden }) => keys.forEach((key, index) => key.setAttribute('aria-pressed', !hidden.includes(page.recordings[index].id)));
  return { host, show };
}

// ---- Chips ------------------------------------------------------------------------------------

function windowWords(page, { time, offset, response }) {
  const words = [];
  if (time) words.push([`time ${timeRange(...time)}`, { time: null }]);
  if (offset) words.push([`offset ${offsetRange(...offset)}`, { offset: null }]);
  if (response) {
    const [low, high] = page.full('response');
    const [from, to] = response.map(Math.log2);
    const text = to >= high - 0.01 ? `at least ${duration(response[0])}` : from <= low + 0.01 ? `below ${duration(response[1])}` : responseRange(...response);
    words.push([`response ${text}`, { response: null }]);
  }
  return words;
}

export function chips(page) {
  const { state } = page;
  const words = windowWords(page, state);
  if (state.modes) words.push([state.modes === 'read' ? 'reads only' : 'writes only', { modes: '' }]);
  if (state.sizes.length) {
    const names = state.sizes.map((which) => page.recordings.flatMap(({ size_classes: own }) => own).find((one) => one.class === which)?.name ?? `class ${which}`);
    words.push([names.join(', '), { sizes: EVERYTHING.sizes }]);
  }
  if (state.errors) words.push([state.errors === 'only' ? 'failed IOs only' : 'without failed IOs', { errors: '' }]);
  if (state.process !== null) words.push([`process ${state.process}`, { process: null }]);
  if (state.run !== null) words.push([`run ${state.run} ${page.runs().find(({ run }) => run === state.run)?.name ?? ''}`.trim(), { run: null }]);
  byId('chips').replaceChildren(...words.map(([text, patch]) => element('li', '', button('chip', `Remove: ${text}`, () => page.update(patch), text, element('span', 'remove', '×')))));
  byId('reset').disabled = words.length === 0;
}

// ---- Notices ----------------------------------------------------------------------------------

export function notice(kind, ...content) {
  const made = element('div', `notice ${kind}`, ...content);
  if (kind === 'failure') made.setAttribute('role', 'alert');
  byId('notices').append(made);
  return made;
}

export function notesOf(recordings) {
  for (const { name, notes } of recordings) {
    if (notes.length === 0) continue;
    const list = element('ul', '', ...notes.map((text) => element('li', '', text)));
    const made = notice('note', element('h2', '', recordings.length > 1 ? `About ${name}` : 'About this recording'), list);
    made.append(button('remove', 'Hide this notice', () => made.remove(), '×'));
  }
}

export { choice };
