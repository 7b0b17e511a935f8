// The legends of the panels.

import { gradient } from './colours.js';
import { byId, element, letter, swatch } from './elements.js';
import { PANELS } from './panels.js';
import { isNarrowed } from './state.js';

/** Shows the legends of all panels, when they changed. */
export function legends(page) {
  const areDense = page.visible.some((one) => !(page.data(one)?.points > 0));
  const now = [page.layout, areDense, page.theme, isNarrowed(page.state)].join();
  if (now === page.legendsShown) return;
  page.legendsShown = now;
  for (const panel of PANELS) {
    const legend = byId(panel.id).querySelector('.legend');
    const parts = [];
    if (panel.map) {
      if (page.visible.length === 1 || page.isStacked) parts.push(key('dot', 'read', 'reads', areDense && 'read'), key('square', 'write', 'writes', areDense && 'write'));
      else parts.push(...page.visible.map((one) => element('span', 'key', letter(one), element('span', '', one.name))));
    } else if (panel.id !== 'in-flight') {
      const ink = page.isOneOfSeveral ? ['muted', 'muted'] : ['read', 'write'];
      parts.push(key('solid', ink[0], 'reads'), key('dashed', ink[1], 'writes'));
      if (panel.id === 'distribution' && !page.isOneOfSeveral && isNarrowed(page.state)) parts.push(key('solid', 'whole', 'whole recording'));
    }
    legend.replaceChildren(...parts);
  }
}

function key(style, ink, name, scale) {
  const made = element('span', 'key', swatch(style, ink), name);
  if (scale) {
    const bar = element('i', 'scale');
    bar.style.background = gradient(scale);
    bar.title = 'Colour: IOs in a cell, from one to the most, on a logarithmic scale';
    made.append(bar);
  }
  return made;
}
