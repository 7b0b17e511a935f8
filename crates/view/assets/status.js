// What the page says about the view: the count of IOs, failures, the quantiles of response time.

import { notice } from './controls.js';
import { button, byId, element, letter, swatch } from './elements.js';
import { counted, duration, grouped, percentile } from './words.js';

/** The state of the page: how many IOs are in view, what failed, the table of quantiles. */
export function showStatus(page) {
  const feeds = page.visible.map(({ id }) => page.feeds.get(id));
  const failed = feeds.filter(({ error }) => error);
  const isWorking = feeds.some((feed) => feed.isWorking);
  document.body.dataset.state = failed.length ? 'error' : isWorking ? 'loading' : 'ready';
  byId('panels').setAttribute('aria-busy', isWorking);
  showFailures(page, failed);
  byId('panels').classList.toggle('outdated', failed.some((feed) => feed.data && feed.data.query !== feed.query));
  const data = feeds.map((feed) => feed.data).filter(Boolean);
  showCount(page, feeds, data, isWorking);
  if (data.every((one) => page.quantilesOf?.has(one)) && page.quantilesOf?.size === data.length && page.quantilesOf.layout === page.layout) return;
  page.quantilesOf = Object.assign(new Set(data), { layout: page.layout });
  showQuantiles(page);
}

function showCount(page, feeds, data, isWorking) {
  const sum = (kind) => data.reduce((total, { ios }) => total + (ios[kind] ?? 0), 0);
  const [reads, writes, failures] = ['read', 'write', 'failed'].map(sum);
  const parts = [];
  if (data.length || page.visible.every(({ ios }) => ios === 0)) {
    const isAbout = data.some((one) => !one.is_exact);
    parts.push(element('b', '', `${isAbout ? 'about ' : ''}${counted(reads + writes, 'IO')}`));
    if (reads && writes) parts.push(` ${counted(reads, 'read')}, ${counted(writes, 'write')}`);
    else if (reads || writes) parts.push(reads ? ' all reads' : ' all writes');
    if (failures) parts.push(element('span', 'failed', ` ${grouped(failures)} failed`));
  }
  if (feeds.some((feed) => feed.isRefining)) parts.push(element('span', 'refining', 'refining'));
  else if (isWorking && !data.length) parts.push(element('span', 'refining', 'loading'));
  const made = element('span', '', ...parts);
  if (made.textContent !== byId('count').textContent) byId('count').replaceChildren(made);
}

function showFailures(page, failed) {
  page.failure?.remove();
  page.failure = null;
  if (failed.length === 0) return;
  const retry = button('tool', '', () => page.ask(performance.now(), true), 'Retry');
  const texts = [...new Set(failed.map(({ error }) => error))];
  page.failure = notice('failure', ...texts.map((text) => element('p', '', text)), retry);
}

function showQuantiles(page) {
  const rows = page.visible.flatMap((recording) => ['read', 'write'].flatMap((kind) => {
    const own = page.data(recording)?.distribution[kind];
    return own ? [[recording, kind, own]] : [];
  }));
  const section = byId('quantiles');
  section.hidden = rows.length === 0;
  if (section.hidden) return;
  const shares = rows[0][2].quantiles.map(([share]) => share);
  const names = ['IOs', 'min', ...shares.map((share) => (share === 0.5 ? 'median' : percentile(1 - share))), 'max', 'mean'];
  const lines = rows.map(([recording, kind, own]) => {
    const values = [own.min_ns, ...own.quantiles.map(([, ns]) => ns), own.max_ns, own.mean_ns];
    const title = [swatch(kind === 'read' ? 'dot' : 'square', kind), kind === 'read' ? 'reads' : 'writes'];
    if (page.isOneOfSeveral) title.unshift(letter(recording), ...(areQuantilesNarrow(page) ? [] : [element('span', '', recording.name)]));
    return [element('span', 'key', ...title), grouped(page.data(recording).ios[kind]), ...values.map((ns) => (ns === null ? '–' : duration(ns)))];
  });
  section.querySelector('table').replaceChildren(...quantileTable(['', ...names], lines, areQuantilesNarrow(page)));
}

/** One recording's quantiles have room in the right column. */
export function areQuantilesNarrow(page) {
  return page.visible.length <= 1;
}

/** A table with a row for each of `lines`, or with a column for each. */
function quantileTable(names, lines, isUpright) {
  const cells = isUpright ? names.map((name, index) => [name, ...lines.map((line) => line[index])]) : [names, ...lines];
  const rows = cells.map((row, at) => element('tr', '', ...row.map((content, index) => {
    const made = element(at === 0 || index === 0 ? 'th' : 'td', '', content);
    if (made.tagName === 'TH' && content !== '') made.scope = at === 0 ? 'col' : 'row';
    return made;
  })));
  return [element('thead', '', rows[0]), element('tbody', '', ...rows.slice(1))];
}
