// The panels: title, axes, what is drawn, and how high.

import * as lines from './lines.js';

const fixed = (height) => () => height;

/** Heat maps of several recordings above each other share the room, but each keeps enough to be read. */
function map(height, least) {
  return (shown, page) => Math.max(least, Math.round((height * page.zoomOfHeight) / (page.isStacked ? Math.max(1, Math.sqrt(page.visible.length) * 0.85) : 1)));
}

export const PANELS = [
  { id: 'time-response', column: 'left', title: 'Response time over time', x: 'time', y: 'response', map: 'time_response', hasLanes: true, isPerRecording: true, height: map(330, 170) },
  { id: 'time-offset', column: 'left', title: 'Offset over time', x: 'time', y: 'offset', map: 'time_offset', isPerRecording: true, height: map(210, 130) },
  { id: 'iops', column: 'left', title: 'IOs per second', x: 'time', y: 'rate', lines: lines.iops, height: fixed(118) },
  { id: 'throughput', column: 'left', title: 'Throughput', x: 'time', y: 'bytes/s', lines: lines.throughput, height: fixed(118) },
  { id: 'in-flight', column: 'left', title: 'IOs in flight, mean', x: 'time', y: 'count', lines: lines.flight, height: fixed(104) },
  { id: 'offset-response', column: 'right', title: 'Response time over offset', x: 'offset', y: 'response', map: 'offset_response', isPerRecording: true, height: map(290, 170) },
  { id: 'distribution', column: 'right', title: 'Distribution', x: 'response', y: 'tail', lines: lines.distribution, height: fixed(286) },
  { id: 'histogram', column: 'right', title: 'Histogram', x: 'response', y: 'share', lines: lines.histogram, height: fixed(170) },
];
