// The style sheet's colours, resolved for the theme that is shown, and the scales of the heat maps.

const probe = document.createElement('span');
probe.hidden = true;
document.body.append(probe);
let known = new Map();

/** [r, g, b] of a custom property, 0 to 255. */
export function rgb(name) {
  if (!known.has(name)) {
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number));
  }
  return known.get(name);
}

export const colour = (name, alpha = 1) => `rgba(${rgb(name).join(',')},${alpha})`;

/** The theme changed: every colour is resolved anew. */
export function forget() {
  known = new Map();
  ramps.clear();
}

/** The colour of a recording among several: its place in the list. */
export const recordingColour = (index) => `run${index % 8}`;

// ---- Scales -----------------------------------------------------------------------------------

const toLinear = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const toByte = (c) => Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)));

function toOklab(bytes) {
  const [r, g, b] = bytes.map(toLinear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s].map(toByte);
}

const mixed = (from, to, share) => from.map((value, index) => value + (to[index] - value) * share);

export const LEVELS = 64;
export const MIXES = 9;
const ramps = new Map();

function stops(name) {
  return ['low', 'middle', 'high'].map((part) => toOklab(rgb(`${name}-${part}`)));
}

function along([low, middle, high], share) {
  return share < 0.5 ? mixed(low, middle, share * 2) : mixed(middle, high, share * 2 - 1);
}

/**
 * Colours as the pixels of an ImageData: `MIXES` rows from reads only to writes only, each of `LEVELS` from one IO to the most.
 * A recording that others lie over has one scale for both, the paler, the smaller `strength` is.
 */
export function ramp(recording, strength = 1) {
  const key = `${recording} ${strength}`;
  if (!ramps.has(key)) {
    const pixels = new Uint32Array(MIXES * LEVELS);
    const own = recording && [0.3, 0.65, 1].map((share) => mixed(toOklab(rgb('card')), toOklab(rgb(recording)), share * strength));
    const [reads, writes] = own ? [own, own] : [stops('read'), stops('write')];
    for (let mix = 0; mix < MIXES; mix++) {
      for (let level = 0; level < LEVELS; level++) {
        const share = level / (LEVELS - 1);
        const [r, g, b] = fromOklab(mixed(along(reads, share), along(writes, share), mix / (MIXES - 1)));
        pixels[mix * LEVELS + level] = (255 << 24) | (b << 16) | (g << 8) | r;
      }
    }
    ramps.set(key, pixels);
  }
  return ramps.get(key);
}

/** A horizontal gradient for a legend. */
export function gradient(name) {
  const parts = Array.from({ length: 7 }, (none, index) => `rgb(${fromOklab(along(stops(name), index / 6)).join(',')})`);
  return `linear-gradient(90deg, ${parts.join(',')})`;
}
