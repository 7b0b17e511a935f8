// Counts IOs for the panels where no server does, as grid.rs, response_bins.rs, panels.rs and answer.rs do. The test
// `a_page_in_a_file_answers_as_the_server` compares both.

const PER_OCTAVE = 16; // Response bins.
const OFFSET_COLUMNS_MOST = 256;
const LEAST_OFFSET_SHIFT = 9; // A sector is the least that has an offset of its own.
const QUANTILES = [0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999];
const MANTISSAS = Array.from({ length: PER_OCTAVE }, (none, index) => Math.ceil(2 ** (index / PER_OCTAVE) * 2 ** 52) / 2 ** 52);

/** The bin of a response time: sixteen to an octave. */
export function responseBin(ns) {
  const number = Math.max(1, ns);
  const octave = number < 2 ** 32 ? 31 - Math.clz32(number) : 63 - Math.clz32(number / 2 ** 32);
  const mantissa = number / 2 ** octave;
  let part = PER_OCTAVE - 1;
  while (mantissa < MANTISSAS[part]) part--;
  return octave * PER_OCTAVE + part;
}

/** The smallest response time of a bin. */
export function lowerEdge(bin) {
  return bin === 0 ? 0 : Math.ceil(MANTISSAS[bin % PER_OCTAVE] * 2 ** Math.floor(bin / PER_OCTAVE));
}

/** Columns of equal width, a power of two, that begin at multiples of it. */
export class Grid {
  /** The finest over [start, end) with at most `most` columns, none narrower than 2^least. */
  constructor(start, end, most, least) {
    const last = Math.max(end, start + 1) - 1;
    let shift = least;
    while (Math.floor(last / 2 ** shift) - Math.floor(start / 2 ** shift) >= Math.max(1, most)) shift++;
    this.shift = shift;
    this.step = 2 ** shift;
    this.first = Math.floor(start / this.step);
    this.count = Math.floor(last / this.step) - this.first + 1;
  }

  get start() {
    return this.first * this.step;
  }

  get end() {
    return (this.first + this.count) * this.step;
  }

  /** The column of a position, or -1. */
  column(position) {
    const column = Math.floor(position / this.step) - this.first;
    return column >= 0 && column < this.count ? column : -1;
  }

  /** From a position to the end of its column. */
  toEnd(position) {
    return this.step - (position % this.step);
  }

  in(unit) {
    return { [`start_${unit}`]: this.start, [`step_${unit}`]: this.step, count: this.count };
  }
}

// What is summed in a column over time, in the order of a row of `Tally.sums`.
export const SUMS = ['reads', 'writes', 'read_bytes', 'written_bytes', 'read_min', 'write_min', 'read_max', 'write_max', 'read_sum', 'write_sum', 'failed', 'begun', 'completed', 'begun_to_end', 'completed_to_end'];
const AT = Object.fromEntries(SUMS.map((name, index) => [name, index]));

/** IOs counted in the panels of a view. */
export class Tally {
  /** Columns of each axis are at least 2^n wide, with the n that `least` has for it. */
  constructor(windows, width, least) {
    const { time_ns: time, offset_bytes: offset, response_ns: response } = windows;
    this.time = new Grid(...time, width, least.time);
    this.offsetTime = new Grid(...time, Math.ceil(width / 2), least.offsetTime);
    this.offset = new Grid(...offset, OFFSET_COLUMNS_MOST, Math.max(LEAST_OFFSET_SHIFT, least.offset));
    this.bins = [responseBin(response[0]), responseBin(response[1] - 1) + 1];
    const rows = this.rows;
    this.timeResponse = new Uint32Array(this.time.count * rows * 2);
    this.offsetResponse = new Uint32Array(this.offset.count * rows * 2);
    this.timeOffset = new Uint32Array(this.offsetTime.count * this.offset.count * 2);
    this.histogram = new Float64Array(rows * 2);
    this.sums = new Float64Array(this.time.count * SUMS.length);
    for (let at = 0; at < this.sums.length; at += SUMS.length) this.sums[at + AT.read_min] = this.sums[at + AT.write_min] = Infinity;
    this.inFlightBefore = 0;
  }

  get rows() {
    return this.bins[1] - this.bins[0];
  }

  addTimeResponse(column, bin, mode, count) {
    const row = bin - this.bins[0];
    this.timeResponse[(column * this.rows + row) * 2 + mode] += count;
    this.histogram[row * 2 + mode] += count;
  }

  addOffset(offsetColumn, row, bin, mode, count) {
    this.offsetResponse[(row * this.rows + bin - this.bins[0]) * 2 + mode] += count;
    this.timeOffset[(offsetColumn * this.offset.count + row) * 2 + mode] += count;
  }

  addIo({ time, response, offset, size, isWrite, isFailed }) {
    const column = this.time.column(time);
    const row = this.offset.column(offset);
    if (column < 0 || row < 0) return;
    const mode = isWrite ? 1 : 0;
    const bin = responseBin(response);
    this.addTimeResponse(column, bin, mode, 1);
    this.addOffset(this.offsetTime.column(time), row, bin, mode, 1);
    const { sums } = this;
    const at = column * SUMS.length + mode;
    sums[at + AT.reads] += 1;
    sums[at + AT.read_bytes] += size;
    sums[at + AT.read_sum] += response;
    sums[at + AT.read_min] = Math.min(sums[at + AT.read_min], response);
    sums[at + AT.read_max] = Math.max(sums[at + AT.read_max], response);
    if (isFailed) sums[column * SUMS.length + AT.failed] += 1;
  }

  addFlight(begin, completion) {
    const grid = this.time;
    if (completion < grid.start || begin >= grid.end) return;
    const column = grid.column(begin);
    if (column < 0) this.inFlightBefore += 1;
    else this.addToFlight(column * SUMS.length, AT.begun, AT.begun_to_end, grid.toEnd(begin));
    const last = grid.column(completion);
    if (last >= 0) this.addToFlight(last * SUMS.length, AT.completed, AT.completed_to_end, grid.toEnd(completion));
  }

  addToFlight(at, count, toEnd, ns) {
    this.sums[at + count] += 1;
    this.sums[at + toEnd] += ns;
  }

  /** Adds the sums of a part of a column that ends `toEnd` before the column does. `from` is where they begin in `more`. */
  addSums(column, more, from, toEnd) {
    const { sums } = this;
    const at = column * SUMS.length;
    SUMS.forEach((name, index) => {
      const value = more[from + index];
      if (name.endsWith('_min')) sums[at + index] = Math.min(sums[at + index], value);
      else if (name.endsWith('_max')) sums[at + index] = Math.max(sums[at + index], value);
      else sums[at + index] += value;
    });
    sums[at + AT.begun_to_end] += more[from + AT.begun] * toEnd;
    sums[at + AT.completed_to_end] += more[from + AT.completed] * toEnd;
  }

  /** The answer, as the server gives it. `points` are the IOs in view where they are few. */
  answer(windows, { isExact, hasSums, points = null }) {
    const [reads, writes] = [0, 1].map((mode) => this.histogram.reduce((sum, count, index) => sum + (index % 2 === mode ? count : 0), 0));
    const distributions = [reads, writes].map((count, mode) => this.distribution(mode, count, hasSums));
    const first = this.bins[0];
    const arrays = {
      time_response: cells(this.timeResponse, this.rows, first),
      offset_response: cells(this.offsetResponse, this.rows, first),
      time_offset: cells(this.timeOffset, this.offset.count, 0),
      histogram: this.histogramCells(),
      cdf_read: distributions[0]?.cdf ?? new Float64Array(0),
      cdf_write: distributions[1]?.cdf ?? new Float64Array(0),
      rate: this.rates(windows.time_ns, hasSums),
      extremes: this.extremes(hasSums),
    };
    if (points) {
      for (const [name, key] of [['point_time', 'time'], ['point_offset', 'offset'], ['point_response', 'response'], ['point_size', 'size']]) arrays[name] = Float64Array.from(points, (io) => io[key]);
      arrays.point_kind = Uint32Array.from(points, ({ isWrite, isFailed }) => (isWrite ? 1 : 0) | (isFailed ? 2 : 0));
    }
    return {
      is_exact: isExact,
      could_be_finer: false,
      window: windows,
      ios: { read: reads, write: writes, failed: hasSums ? this.sum('failed') : null },
      bins_per_octave: PER_OCTAVE,
      time: this.time.in('ns'),
      offset_time: this.offsetTime.in('ns'),
      offset: this.offset.in('bytes'),
      points: points?.length ?? 0,
      distribution: { read: distributions[0]?.summary ?? null, write: distributions[1]?.summary ?? null },
      arrays,
    };
  }

  /** A sum over all columns. */
  sum(name) {
    let sum = 0;
    for (let at = AT[name]; at < this.sums.length; at += SUMS.length) sum += this.sums[at];
    return sum;
  }

  histogramCells() {
    const made = [];
    for (let row = 0; row < this.rows; row++) {
      const [reads, writes] = [this.histogram[row * 2], this.histogram[row * 2 + 1]];
      if (reads || writes) made.push(row + this.bins[0], reads, writes);
    }
    return Uint32Array.from(made);
  }

  /** IOs of a column, of reads and of writes. */
  iosOf(column) {
    const ios = [0, 0];
    for (let at = column * this.rows * 2; at < (column + 1) * this.rows * 2; at++) ios[at % 2] += this.timeResponse[at];
    return ios;
  }

  rates([from, to], hasSums) {
    const { time: grid, sums } = this;
    const made = new Float64Array(grid.count * 5).fill(NaN);
    let inFlight = this.inFlightBefore;
    for (let column = 0; column < grid.count; column++) {
      const start = grid.start + column * grid.step;
      const covered = Math.max(1, Math.min(start + grid.step, to) - Math.max(start, from));
      const perSecond = (amount) => (amount * 1e9) / covered;
      made.set(this.iosOf(column).map(perSecond), column * 5);
      if (!hasSums) continue;
      const own = sums.subarray(column * SUMS.length, (column + 1) * SUMS.length);
      const mean = inFlight + (own[AT.begun_to_end] - own[AT.completed_to_end]) / grid.step;
      inFlight += own[AT.begun] - own[AT.completed];
      made.set([perSecond(own[AT.read_bytes]), perSecond(own[AT.written_bytes]), Math.max(0, mean)], column * 5 + 2);
    }
    return made;
  }

  extremes(hasSums) {
    const made = new Float64Array(this.time.count * 4).fill(NaN);
    for (let column = 0; hasSums && column < this.time.count; column++) {
      for (const mode of [0, 1]) {
        const at = column * SUMS.length + mode;
        if (this.sums[at + AT.reads] > 0) made.set([this.sums[at + AT.read_min], this.sums[at + AT.read_max]], column * 4 + mode * 2);
      }
    }
    return made;
  }

  distribution(mode, count, hasSums) {
    if (count === 0) return null;
    let [shortest, longest, sum] = [Infinity, 0, 0];
    for (let at = mode; at < this.sums.length; at += SUMS.length) {
      shortest = Math.min(shortest, this.sums[at + AT.read_min]);
      longest = Math.max(longest, this.sums[at + AT.read_max]);
      sum += this.sums[at + AT.read_sum];
    }
    const cdf = [];
    const quantiles = [];
    let below = 0;
    for (let row = 0; row < this.rows; row++) {
      const own = this.histogram[row * 2 + mode];
      if (own === 0) continue;
      below += own;
      const edge = Math.min(lowerEdge(row + this.bins[0] + 1) - 1, hasSums ? longest : Infinity);
      cdf.push(edge, below / count);
      while (quantiles.length < QUANTILES.length && below >= QUANTILES[quantiles.length] * count) quantiles.push([QUANTILES[quantiles.length], edge]);
    }
    const summary = { mean_ns: hasSums ? sum / count : null, min_ns: hasSums ? shortest : null, max_ns: hasSums ? longest : null, quantiles };
    return { cdf: Float64Array.from(cdf), summary };
  }
}

/** The cells that have IOs: column, row, reads, writes. */
function cells(counts, rows, firstRow) {
  const made = [];
  for (let at = 0; at < counts.length; at += 2) {
    if (counts[at] || counts[at + 1]) made.push(Math.floor(at / 2 / rows), ((at / 2) % rows) + firstRow, counts[at], counts[at + 1]);
  }
  return Uint32Array.from(made);
}
