// The content of the panels of one recording: asks for it, cancels what is outdated, decodes the answers.
//
// 1. A new view is asked for with exact=0. A request that is in flight is finished first when it is younger than PATIENCE_MS,
//    so that a long drag shows pictures on its way; otherwise it is cancelled.
// 2. When the answer could be finer, the same view is asked for with exact=1 after IDLE_MS without another view.
// 3. A busy server is asked again, after a while that doubles.

import { source } from './source.js';

const PATIENCE_MS = 120; // The longest wait for the answer to an outdated view.
const IDLE_MS = 150; // A pause of the input this long asks for the exact answer.
const BUSY_MS = 200; // First wait after 429 or 503.
const BUSY_TRIES = 6; // 200 ms doubled six times: 12.6 s in all.

export class Feed {
  /** `report(feed, what)` is called with 'data', 'error' or 'work' (a request began or ended). */
  constructor(id, report) {
    Object.assign(this, { id, report, data: null, error: null, query: null, flight: null, since: 0, timer: 0 });
  }

  /** `since` is the moment of the input that made this view. */
  show(query, since, again = false) {
    if (query === this.query && !again) return;
    this.query = query;
    this.since = since;
    this.error = null;
    clearTimeout(this.timer);
    const { flight } = this;
    const age = flight ? performance.now() - flight.began : Infinity;
    if (flight && !flight.isExact && age < PATIENCE_MS) {
      this.timer = setTimeout(() => this.ask(false), PATIENCE_MS - age);
    } else {
      this.ask(false);
    }
  }

  stop() {
    clearTimeout(this.timer);
    this.flight?.controller.abort();
    this.flight = null;
    this.query = null;
  }

  /** Whether an answer is still to come, the finer one too. */
  get isWorking() {
    if (this.query === null || this.error) return false;
    return this.data?.query !== this.query || (this.data.could_be_finer && !this.data.isRefined) || (this.flight !== null && !this.flight.isWhole);
  }

  get isRefining() {
    return Boolean(this.flight?.isExact && !this.flight.isWhole);
  }

  async ask(isExact, tries = 0) {
    clearTimeout(this.timer);
    this.flight?.controller.abort();
    const flight = { controller: new AbortController(), isExact, query: this.query, since: this.since, began: performance.now() };
    this.flight = flight;
    this.report(this, 'work');
    try {
      const data = await source.panels(flight.query, isExact, flight.controller.signal);
      if (this.flight === flight) this.arrived(flight, data);
    } catch (error) {
      if (this.flight !== flight) return;
      this.flight = null;
      if (error.isBusy && tries < BUSY_TRIES) this.timer = setTimeout(() => this.ask(isExact, tries + 1), BUSY_MS * 2 ** tries);
      else this.failed(error);
    }
  }

  /** Asks once for the whole recording, while nothing else is asked for. */
  async whole(query) {
    const controller = new AbortController();
    const flight = { controller, isExact: true, query, began: performance.now(), isWhole: true };
    this.flight = flight;
    try {
      this.baseline = Object.assign(await source.panels(query, false, controller.signal), { query });
    } catch {
      // The strip above the panels stays empty; the next view's answer asks again.
    }
    if (this.flight === flight) this.flight = null;
    if (this.baseline) this.report(this, 'whole');
  }

  arrived(flight, data) {
    this.flight = null;
    this.error = null;
    this.data = Object.assign(data, { query: flight.query, since: flight.since, isRefined: flight.isExact });
    this.report(this, 'data');
    if (flight.query !== this.query) {
      this.ask(false);
    } else if (data.could_be_finer && !flight.isExact) {
      this.timer = setTimeout(() => this.ask(true), IDLE_MS);
    }
  }

  failed(error) {
    this.error = error.message;
    this.report(this, 'error');
  }
}
