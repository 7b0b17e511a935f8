// Marks of a recording: bands behind the panels over time, and lanes above the first.

import { colour } from './colours.js';

export const KINDS = ['start-up phase', 'pause', 'fault', 'collection', 'finding'];
export const LANE = 16; // Height of a lane in CSS pixels.
const NARROW = 3; // CSS pixels. A band that is narrower is the darker, so that it is seen.
const CROWDED = 0.12; // Share of the columns; bands that fill more are fainter, so that the data stays in front.
const FEWEST_LETTERS = 14; // A text of which fewer letters fit is left out.

const markColour = (kind) => `mark${Math.max(0, KINDS.indexOf(kind))}`;

/** The marks of each kind that there is, by time. */
const known = new WeakMap();
export function byKind(marks) {
  if (!known.has(marks)) {
    const kinds = new Map(KINDS.map((kind) => [kind, []]));
    for (const mark of marks) kinds.get(mark.kind)?.push(mark);
    for (const own of kinds.values()) own.sort((a, b) => a.time_ns[0] - b.time_ns[0]);
    known.set(marks, [...kinds].filter(([, own]) => own.length > 0));
  }
  return known.get(marks);
}

/** The marks in view with their edges in pixels. Of those that begin on the same pixel the first and the longest are given. */
function inView(own, place, ratio) {
  const shown = [];
  let before = null;
  for (const mark of own) {
    const [from, to] = mark.time_ns;
    if (from >= place.xs[1]) break;
    if (to < place.xs[0]) continue;
    const left = place.x(Math.max(from, place.xs[0]));
    const right = place.x(Math.min(to, place.xs[1]));
    if (before && left < before.left + ratio && right <= Math.max(before.right, before.left + ratio)) continue;
    before = { mark, left, right };
    shown.push(before);
  }
  return shown;
}

/** Bands behind the data, the fainter the more recordings have some. */
export function paintBands(ctx, marks, place, box, ratio, recordings) {
  for (const [kind, own] of byKind(marks)) {
    const shown = inView(own, place, ratio);
    const crowd = Math.max(1, (shown.length * ratio) / (CROWDED * box.width));
    for (const { left, right } of shown) {
      ctx.fillStyle = colour(markColour(kind), Math.max(0.05, (right - left < NARROW * ratio ? 0.35 : 0.13) / recordings / crowd));
      ctx.fillRect(left, box.top, Math.max(ratio, right - left), box.height);
    }
  }
}

/** The lanes above a panel, one for each kind: a bar for each mark, with its text where there is room. */
export function paintLanes(ctx, marks, place, box, ratio) {
  const kinds = byKind(marks);
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
  ctx.textBaseline = 'middle';
  kinds.forEach(([kind, own], row) => {
    const y = (row * LANE + 2) * ratio;
    const height = (LANE - 3) * ratio;
    ctx.textAlign = 'right';
    ctx.fillStyle = colour('muted');
    ctx.fillText(kind === 'start-up phase' ? 'start-up' : kind, box.left - 7 * ratio, y + height / 2);
    ctx.textAlign = 'left';
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, 0, box.width, (kinds.length * LANE + 2) * ratio);
    ctx.clip();
    const shown = inView(own, place, ratio);
    shown.forEach(({ mark, left, right: end }, index) => {
      const right = Math.max(left + 3 * ratio, end);
      ctx.fillStyle = colour(markColour(kind), 0.28);
      ctx.fillRect(left, y, right - left, height);
      ctx.fillStyle = colour(markColour(kind));
      ctx.fillRect(left, y, 2.5 * ratio, height);
      const next = shown[index + 1]?.left ?? box.left + box.width;
      const text = shortened(ctx, mark.text, Math.max(right, next) - left - 8 * ratio);
      ctx.fillStyle = colour('ink');
      if (text) ctx.fillText(text, left + 6 * ratio, y + height / 2 + 0.5 * ratio);
    });
    ctx.restore();
  });
  ctx.restore();
}

function shortened(ctx, text, room) {
  if (room < 40) return '';
  if (ctx.measureText(text).width <= room) return text;
  let letters = Math.floor((room / ctx.measureText(text).width) * text.length) - 1;
  while (letters > 0 && ctx.measureText(`${text.slice(0, letters)}…`).width > room) letters--;
  return letters < FEWEST_LETTERS ? '' : `${text.slice(0, letters)}…`;
}
