// How much longer each other recording takes than the first one in view, with the intervals of `flashlab compare`. They need each IO, so
// that they are asked for when the view rests, and only for views with few enough IOs.

import { byId, element, letter, swatch } from './elements.js';
import { source } from './source.js';
import { duration } from './words.js';

const REST_MS = 600; // A view that still moves is not asked for.
const VERDICTS = { faster: 'faster', slower: 'slower', equal: 'equal within 10 %', cannot_be_told: 'cannot be told' };

const factor = (ratio) => (ratio >= 100 ? ratio.toFixed(0) : ratio.toPrecision(3));

export class Ratios {
  constructor(page) {
    Object.assign(this, { page, timer: 0, asked: 0 });
  }

  /** The view changed. */
  later() {
    clearTimeout(this.timer);
    this.asked++; // An answer that is still to come is outdated.
    delete document.body.dataset.comparing;
    if (!source.ratios || this.page.visible.length < 2) {
      byId('ratios').hidden = true;
      return;
    }
    document.body.dataset.comparing = 'yes';
    this.timer = setTimeout(() => this.show(), REST_MS);
  }

  async show() {
    const { asked } = this;
    const [first, ...others] = this.page.visible;
    const query = this.page.queryOf(first);
    let content;
    try {
      const answers = await Promise.all(others.map((other) => source.ratios(query, other.id)));
      const rows = others.flatMap((other, index) => ['read', 'write'].flatMap((kind) => (answers[index][kind] ? [[other, kind, answers[index][kind]]] : [])));
      content = rows.length ? this.table(first, rows) : element('p', 'detail', 'No two of them have reads, or writes, in this view.');
    } catch (error) {
      content = element('p', 'detail', error.message);
    }
    // The view may have moved meanwhile.
    if (asked !== this.asked) return;
    delete document.body.dataset.comparing;
    byId('ratios-content').replaceChildren(content);
    byId('ratios').hidden = false;
  }

  table(first, rows) {
    const head = element('tr', '', ...['', ...rows[0][2].map(({ statistic }) => statistic)].map((text) => Object.assign(element('th', '', text), { scope: 'col' })));
    const lines = rows.map(([other, kind, ratios]) => {
      const name = element('span', 'key', letter(other), ' over ', letter(first), swatch(kind === 'read' ? 'dot' : 'square', kind), kind === 'read' ? 'reads' : 'writes');
      const cells = ratios.map(({ first_ns: from, other_ns: to, ratio, low, high, verdict }) => {
        const cell = element('td', '', `${factor(ratio)}×`, element('span', 'detail', ` ${factor(low)} to ${high === null ? 'unknown' : factor(high)}, ${VERDICTS[verdict]}`));
        cell.title = `${duration(from)} and ${duration(to)}; the interval holds at 95 %`;
        return cell;
      });
      return element('tr', '', Object.assign(element('th', '', name), { scope: 'row' }), ...cells);
    });
    return element('table', '', element('thead', '', head), element('tbody', '', ...lines));
  }
}
