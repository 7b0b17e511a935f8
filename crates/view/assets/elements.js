// Elements of the page. Text from outside goes into it as text nodes only, never as HTML.

import { recordingColour } from './colours.js';

export const byId = (id) => document.getElementById(id);

export function element(tag, className = '', ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function button(className, label, act, ...children) {
  const made = element('button', className, ...children);
  made.type = 'button';
  if (label) made.setAttribute('aria-label', label);
  if (label) made.title = label;
  made.addEventListener('click', act);
  return made;
}

/** The sign of a recording among several: its letter on its colour. */
export function letter(recording) {
  const made = swatch('letter', recordingColour(recording.index));
  made.textContent = recording.letter;
  return made;
}

/** The sign of a series: a line, whole or dashed, or a filled shape. */
export function swatch(style, colour) {
  const made = element('i', `swatch ${style}`);
  made.style.setProperty('--line', `var(--${colour})`);
  made.setAttribute('aria-hidden', 'true');
  return made;
}
