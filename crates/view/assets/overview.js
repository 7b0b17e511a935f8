// The strip above the panels: the whole recording over time, from its fastest to its slowest IOs, and the window in view.
//
// A drag in the window moves it, a drag at an edge moves the edge, a drag elsewhere chooses another. Arrow keys move it.

import { extremes } from './cells.js';
import { colour, recordingColour } from './colours.js';
import { element } from './elements.js';
import { timeRange } from './words.js';

const HEIGHT = 38;
const GRIP = 7; // CSS pixels to both sides of an edge in which it is taken.
const KEY_STEP = 0.25; // Share of the window that an arrow key moves it.

export class Overview {
  constructor(page) {
    this.page = page;
    this.canvas = element('canvas');
    this.host = element('div', 'overview', this.canvas);
    this.host.tabIndex = 0;
    this.host.setAttribute('role', 'slider');
    this.host.setAttribute('aria-label', 'Window over time');
    this.host.setAttribute('aria-valuemin', '0');
    this.drag = null;
    this.host.addEventListener('pointerdown', (event) => this.begin(event));
    this.host.addEventListener('pointermove', (event) => this.move(event));
    for (const type of ['pointerup', 'pointercancel']) this.host.addEventListener(type, () => { this.drag = null; });
    this.host.addEventListener('dblclick', (event) => page.unzoom(['time'], event.timeStamp));
    this.host.addEventListener('keydown', (event) => this.key(event));
  }

  get scale() {
    const [low, high] = this.page.full('time');
    const { clientWidth: width } = this.host;
    return { low, high, width, x: (time) => ((time - low) / (high - low)) * width, time: (x) => low + (x / width) * (high - low) };
  }

  // ---- Input ------------------------------------------------------------------------------------

  begin(event) {
    if (event.button !== 0) return;
    const { x, time } = this.scale;
    const at = event.clientX - this.host.getBoundingClientRect().left;
    const window = this.page.range('time');
    const edges = window.map(x);
    const edge = this.page.isZoomed('time') ? edges.findIndex((one) => Math.abs(one - at) <= GRIP) : -1;
    if (edge >= 0) this.drag = { anchor: window[1 - edge] };
    else if (this.page.isZoomed('time') && at > edges[0] && at < edges[1]) this.drag = { from: time(at), window };
    else this.drag = { anchor: time(at) };
    this.host.setPointerCapture(event.pointerId);
  }

  move(event) {
    const { x, time, width } = this.scale;
    const at = Math.min(width, Math.max(0, event.clientX - this.host.getBoundingClientRect().left));
    if (!this.drag) {
      const isGrip = this.page.isZoomed('time') && this.page.range('time').map(x).some((one) => Math.abs(one - at) <= GRIP);
      this.host.style.cursor = isGrip ? 'ew-resize' : '';
      return;
    }
    const { anchor, from, window } = this.drag;
    if (window) {
      const by = time(at) - from;
      this.page.change(this.page.setWindow('time', window.map((edge) => edge + by)), event.timeStamp);
    } else if (Math.abs(x(anchor) - at) > 2) {
      this.page.change(this.page.setWindow('time', [Math.min(anchor, time(at)), Math.max(anchor, time(at))]), event.timeStamp);
    }
  }

  key(event) {
    const { page } = this;
    const { key, timeStamp } = event;
    if (key === 'ArrowLeft' || key === 'ArrowRight') page.pan('time', key === 'ArrowLeft' ? -KEY_STEP : KEY_STEP, timeStamp);
    else if (key === '+' || key === '=') page.zoom('time', 0.7, 0.5, timeStamp);
    else if (key === '-') page.zoom('time', 1 / 0.7, 0.5, timeStamp);
    else if (key === 'Home') page.unzoom(['time'], timeStamp);
    else return;
    event.preventDefault();
  }

  // ---- Painting ---------------------------------------------------------------------------------

  paint() {
    const { page, canvas, host } = this;
    const { width, x, high } = this.scale;
    if (width < 20) return;
    const ratio = devicePixelRatio;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = HEIGHT * ratio;
    }
    const window = page.range('time');
    host.setAttribute('aria-valuemax', Math.round(high / 1e6));
    host.setAttribute('aria-valuenow', Math.round(window[0] / 1e6));
    host.setAttribute('aria-valuetext', page.isZoomed('time') ? timeRange(...window) : 'the whole recording');
    const ctx = canvas.getContext('2d');
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, HEIGHT);
    const picture = this.picture(width, ratio);
    if (picture) ctx.drawImage(picture, 0, 0, width, HEIGHT);
    if (!page.isZoomed('time')) return;
    const [left, right] = window.map(x);
    ctx.fillStyle = colour('page', 0.72);
    ctx.fillRect(0, 0, left, HEIGHT);
    ctx.fillRect(right, 0, width - right, HEIGHT);
    ctx.fillStyle = colour('accent', 0.1);
    ctx.fillRect(left, 0, right - left, HEIGHT);
    ctx.fillStyle = colour('accent');
    for (const edge of [left, right]) {
      ctx.fillRect(edge - 0.75, 0, 1.5, HEIGHT);
      ctx.fillRect(edge - 2.5, HEIGHT / 2 - 7, 5, 14);
    }
  }

  /** The whole recordings, kept until one grows or the theme changes. */
  picture(width, ratio) {
    const { page } = this;
    const known = page.visible.filter((recording) => page.baseline(recording));
    const key = [width, ratio, page.theme, page.end, ...known.map((recording) => `${recording.id} ${page.baseline(recording).ios.read + page.baseline(recording).ios.write}`)].join();
    if (known.length === 0 || key === this.shown?.key) return this.shown?.canvas;
    const canvas = new OffscreenCanvas(width * ratio, HEIGHT * ratio);
    const ctx = canvas.getContext('2d');
    ctx.scale(ratio, ratio);
    for (const recording of known) this.envelope(ctx, recording, known.length > 1);
    this.shown = { key, canvas };
    return canvas;
  }

  envelope(ctx, recording, isOneOfSeveral) {
    const { page } = this;
    const { x, width } = this.scale;
    const [low, high] = page.full('response');
    const y = (value) => HEIGHT - 1 - ((value - low) / (high - low)) * (HEIGHT - 2);
    const { values, start, step, count } = extremes(page.baseline(recording), 'time_response');
    for (const kind of [0, 1]) {
      ctx.fillStyle = colour(isOneOfSeveral ? recordingColour(recording.index) : ['read', 'write'][kind], isOneOfSeveral ? 0.4 : 0.65);
      const wide = Math.max(1, Math.ceil((step / (this.scale.high - this.scale.low)) * width));
      for (let index = 0; index < count; index++) {
        const min = values[index * 4 + kind * 2];
        const max = values[index * 4 + kind * 2 + 1];
        if (max >= min) ctx.fillRect(Math.floor(x(start + index * step)), y(max), wide, Math.max(1.5, y(min) - y(max)));
      }
    }
  }
}
