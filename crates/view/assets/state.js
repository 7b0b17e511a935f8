// What is in view: the windows, the filters and the layout. It lives in the hash of the address, so that a view can be sent
// and the browser's history goes back through the views.

export const WINDOWS = ['time', 'offset', 'response'];
const UNITS = { time: 'time_ns', offset: 'offset_bytes', response: 'response_ns' };

export const EVERYTHING = Object.freeze({
  time: null, offset: null, response: null, // Half-open windows, or null for all.
  modes: '', // 'read', 'write', or '' for both.
  sizes: Object.freeze([]), // Size classes; none named: all.
  errors: '', // 'none', 'only', or '' for all IOs.
  process: null,
  run: null,
  layout: 'stacked', // Or 'overlay'.
  hidden: Object.freeze([]), // Recordings that are not shown.
  marks: true,
});

function windowOf(text) {
  const [low, high] = (text ?? '').split(',').map(Number);
  return Number.isFinite(low) && Number.isFinite(high) && low >= 0 && low < high ? [Math.floor(low), Math.ceil(high)] : null;
}

function numbers(text) {
  return (text ?? '').split(',').filter((part) => /^\d+$/.test(part)).map(Number);
}

export function parse(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const oneOf = (name, allowed, otherwise) => (allowed.includes(fields.get(name)) ? fields.get(name) : otherwise);
  return {
    ...Object.fromEntries(WINDOWS.map((name) => [name, windowOf(fields.get(UNITS[name]))])),
    modes: oneOf('modes', ['read', 'write'], ''),
    sizes: numbers(fields.get('sizes')),
    errors: oneOf('errors', ['none', 'only'], ''),
    process: numbers(fields.get('process'))[0] ?? null,
    run: numbers(fields.get('run'))[0] ?? null,
    layout: oneOf('layout', ['stacked', 'overlay'], 'stacked'),
    hidden: numbers(fields.get('hidden')),
    marks: fields.get('marks') !== '0',
  };
}

/** The filters and windows, as the server takes them. */
export function query(state) {
  const parts = [];
  for (const name of WINDOWS) if (state[name]) parts.push(`${UNITS[name]}=${state[name].join(',')}`);
  if (state.modes) parts.push(`modes=${state.modes}`);
  if (state.sizes.length) parts.push(`sizes=${state.sizes.join(',')}`);
  if (state.errors) parts.push(`errors=${state.errors}`);
  if (state.process !== null) parts.push(`process=${state.process}`);
  if (state.run !== null) parts.push(`run=${state.run}`);
  return parts.join('&');
}

export function hashOf(state) {
  const parts = [query(state)];
  if (state.layout !== 'stacked') parts.push(`layout=${state.layout}`);
  if (state.hidden.length) parts.push(`hidden=${state.hidden.join(',')}`);
  if (!state.marks) parts.push('marks=0');
  return parts.filter(Boolean).join('&');
}

/** Whether the IOs in view are fewer than the recording has. */
export function isNarrowed(state) {
  return query(state) !== '';
}
