// Input on a plot: wheel, pinch, drag and keys become zooms, pans and windows of the page.
//
// - The wheel zooms the horizontal axis at the pointer; over the labels of the vertical axis, or with Alt, that one. With Shift it pans.
//   A wheel that began to scroll the page outside of a plot goes on to scroll it.
// - A drag chooses a window (mode "select") or pans (mode "pan", or with Shift or the middle button). Two fingers pinch.
// - Keys: arrows pan, + and - zoom (with Alt the vertical axis), Enter inspects, Escape ends that.

const SCROLL_REST_MS = 350; // Wheel events closer together belong to one scroll of the page.
const CLICK_PIXELS = 4; // A shorter drag is a click.
const THIN_PIXELS = 14; // A drag thinner than this chooses a window in one direction only.
const PAN_STEP = 0.1; // Share of the view an arrow key moves.
const ZOOM_STEP = 0.7; // Share of the view that + leaves.

let scrolledAt = -Infinity;
addEventListener('wheel', () => { scrolledAt = performance.now(); }, { passive: true });

const WINDOWED = ['time', 'offset', 'response'];

export function attach(plot, page) {
  const { host, panel } = plot;
  const pointers = new Map();
  let drag = null;

  const isWindow = (axis) => WINDOWED.includes(panel[axis]);
  const local = (event) => {
    const box = plot.u.over.getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top, width: box.width, height: box.height };
  };
  const clamp = (value, most) => Math.min(most, Math.max(0, value));

  host.addEventListener('wheel', (event) => {
    const isScroll = event.timeStamp - scrolledAt < SCROLL_REST_MS && plot !== page.wheeled;
    if (isScroll && !event.ctrlKey) return;
    const at = local(event);
    const isVertical = isWindow('y') && (event.altKey || at.left < 0);
    const axis = isVertical ? 'y' : 'x';
    if (!isWindow(axis)) return;
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const isPan = event.shiftKey || Math.abs(dx) > Math.abs(dy);
    let isDone;
    if (isPan) {
      isDone = page.pan(panel[axis], (dx || dy) / (isVertical ? -at.height : at.width), event.timeStamp);
    } else {
      const about = isVertical ? 1 - clamp(at.top / at.height, 1) : clamp(at.left / at.width, 1);
      isDone = page.zoom(panel[axis], Math.exp(Math.max(-200, Math.min(200, dy)) * (event.ctrlKey ? 0.01 : 0.0022)), about, event.timeStamp);
    }
    // Where there is nothing to zoom the page scrolls.
    if (!isDone && !event.ctrlKey && page.wheeled !== plot) return;
    page.wheeled = plot;
    clearTimeout(page.wheelRest);
    page.wheelRest = setTimeout(() => { page.wheeled = null; }, SCROLL_REST_MS);
    event.preventDefault();
    event.stopPropagation();
  }, { passive: false });

  host.addEventListener('pointerdown', (event) => {
    if (event.button === 2 || !plot.u) return;
    pointers.set(event.pointerId, local(event));
    host.setPointerCapture(event.pointerId);
    if (pointers.size === 2) {
      drag = { kind: 'pinch', moved: true };
      plot.brush.hidden = true;
      return;
    }
    const isPan = page.mode === 'pan' || event.shiftKey || event.button === 1;
    const start = local(event);
    drag = { kind: isPan ? 'pan' : 'brush', start, last: start, moved: false, isOnGutter: start.left < 0 };
    if (event.button === 1) event.preventDefault();
  });

  host.addEventListener('pointermove', (event) => {
    if (!plot.u) return;
    const now = local(event);
    if (!pointers.has(event.pointerId)) return page.hover(plot, now);
    if (drag?.kind === 'pinch') return pinch(event, now);
    pointers.set(event.pointerId, now);
    if (!drag) return;
    drag.moved ||= Math.hypot(now.left - drag.start.left, now.top - drag.start.top) > CLICK_PIXELS;
    if (!drag.moved) return;
    if (drag.kind === 'pan') {
      if (isWindow('x') && !drag.isOnGutter) page.pan(panel.x, (drag.last.left - now.left) / now.width, event.timeStamp);
      if (isWindow('y') && (drag.isOnGutter || page.isZoomed(panel.y))) page.pan(panel.y, (now.top - drag.last.top) / now.height, event.timeStamp);
      drag.last = now;
    } else {
      showBrush(now);
    }
    page.hover(plot, now);
  });

  const end = (event) => {
    const wasIn = pointers.delete(event.pointerId);
    if (!wasIn || pointers.size > 0 || !drag) return;
    const { kind, moved } = drag;
    const box = kind === 'brush' && moved ? chosen(local(event)) : null;
    drag = null;
    plot.brush.hidden = true;
    if (box && event.type === 'pointerup') choose(box, event.timeStamp);
    else if (!moved) click(local(event));
  };
  host.addEventListener('pointerup', end);
  host.addEventListener('pointercancel', end);
  host.addEventListener('pointerleave', (event) => { if (event.pointerType === 'mouse') page.hover(null); });
  host.addEventListener('dblclick', (event) => { page.unzoom([panel.x, panel.y], event.timeStamp); });

  /** A click on a mark in its lane shows it. */
  function click(place) {
    const [mark] = plot.marksAt(place.left, place.top);
    if (mark) page.chooseMark(mark);
    else page.hover(plot, place);
  }

  function pinch(event, now) {
    const before = [...pointers.values()];
    pointers.set(event.pointerId, now);
    const after = [...pointers.values()];
    const spread = (two, side) => Math.max(30, Math.abs(two[0][side] - two[1][side]));
    const middle = (two, side) => (two[0][side] + two[1][side]) / 2;
    if (!isWindow('x')) return;
    page.pan(panel.x, (middle(before, 'left') - middle(after, 'left')) / now.width, event.timeStamp);
    page.zoom(panel.x, spread(before, 'left') / spread(after, 'left'), clamp(middle(after, 'left') / now.width, 1), event.timeStamp);
  }

  /** The rectangle of a brush in CSS pixels, with which of its axes it narrows. */
  function chosen(now) {
    const { start } = drag;
    const lefts = [start.left, now.left].map((value) => clamp(value, now.width)).sort((a, b) => a - b);
    const tops = [start.top, now.top].map((value) => clamp(value, now.height)).sort((a, b) => a - b);
    const [wide, high] = [lefts[1] - lefts[0], tops[1] - tops[0]];
    const x = isWindow('x') && !drag.isOnGutter && (wide >= THIN_PIXELS || high < THIN_PIXELS) && wide > 0;
    const y = isWindow('y') && high > 0 && (high >= THIN_PIXELS || !x);
    return { lefts: x ? lefts : [0, now.width], tops: y ? tops : [0, now.height], x, y };
  }

  function showBrush(now) {
    const { lefts, tops } = chosen(now);
    plot.brush.hidden = false;
    Object.assign(plot.brush.style, { left: `${lefts[0]}px`, top: `${tops[0]}px`, width: `${lefts[1] - lefts[0]}px`, height: `${tops[1] - tops[0]}px` });
  }

  function choose({ lefts, tops, x, y }, since) {
    const low = plot.at(lefts[0], tops[1]);
    const high = plot.at(lefts[1], tops[0]);
    page.choose({ ...(x ? { [panel.x]: [low.x, high.x] } : {}), ...(y ? { [panel.y]: [low.y, high.y] } : {}) }, since);
  }

  // ---- Keys -------------------------------------------------------------------------------------

  let inspected = null; // Where the readout is, in CSS pixels, and the corner of a window that is chosen.

  host.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || !plot.u) return;
    if (inspected ? inspect(event) : act(event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  host.addEventListener('blur', stop);

  function stop() {
    inspected = null;
    plot.brush.hidden = true;
    plot.host.classList.remove('inspected');
    page.hover(null);
  }

  function act({ key, code, shiftKey, altKey, timeStamp }) {
    const steps = { ArrowLeft: ['x', -1], ArrowRight: ['x', 1], ArrowDown: ['y', -1], ArrowUp: ['y', 1] };
    if (steps[key]) {
      const [axis, sign] = steps[key];
      return isWindow(axis) && page.isZoomed(panel[axis]) && (page.pan(panel[axis], sign * PAN_STEP * (shiftKey ? 5 : 1), timeStamp), true);
    }
    // Alt changes what a key writes, but not its code.
    const isIn = '+='.includes(key) || (altKey && /Equal|Add/.test(code));
    const isOut = '-_'.includes(key) || (altKey && /Minus|Subtract/.test(code));
    if (isIn || isOut) {
      const axis = altKey && isWindow('y') ? 'y' : 'x';
      return isWindow(axis) && (page.zoom(panel[axis], isIn ? ZOOM_STEP : 1 / ZOOM_STEP, 0.5, timeStamp), true);
    }
    if (altKey) return false;
    if (key === 'Home') return page.unzoom([panel.x, panel.y], timeStamp), true;
    if (key === 'Enter') {
      const { clientWidth, clientHeight } = plot.u.over;
      inspected = { left: clientWidth / 2, top: clientHeight / 2, corner: null };
      plot.host.classList.add('inspected');
      page.hover(plot, inspected, true);
      return true;
    }
    return false;
  }

  function inspect({ key, shiftKey, timeStamp }) {
    const { clientWidth, clientHeight } = plot.u.over;
    const step = shiftKey ? 40 : 4;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[key]) {
      // Up and down go from one cell with IOs to the next, unless a window is chosen.
      const next = moves[key][1] && plot.isMap && !inspected.corner && !shiftKey ? plot.next(inspected.left, inspected.top, Math.sign(moves[key][1])) : null;
      inspected.left = clamp(inspected.left + moves[key][0], clientWidth);
      inspected.top = next ?? clamp(inspected.top + moves[key][1], clientHeight);
    } else if (key === ' ') {
      const now = { ...inspected, width: clientWidth, height: clientHeight };
      if (inspected.corner) {
        drag = { start: inspected.corner, isOnGutter: false };
        const box = chosen(now);
        drag = null;
        stop();
        choose(box, timeStamp);
        return true;
      }
      inspected.corner = now;
    } else if (key === 'Escape' || key === 'Enter') {
      stop();
      return true;
    } else {
      return false;
    }
    if (inspected.corner) {
      drag = { start: inspected.corner, isOnGutter: false };
      showBrush({ ...inspected, width: clientWidth, height: clientHeight });
      drag = null;
    }
    page.hover(plot, inspected, true);
    return true;
  }
}
