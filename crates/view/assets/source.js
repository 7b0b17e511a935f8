// Where the page's answers come from: the server, or the file that the page itself is in.

import { decode } from './frame.js';
import { OwnFile } from './own_file.js';

const UNREACHABLE = 'flashlab view does not answer. Start it again in the terminal, then retry.';

/** Why there is no answer, in words. `isBusy`: later there may be one. */
class Failure extends Error {
  constructor(message, isBusy = false) {
    super(message);
    this.isBusy = isBusy;
  }
}

/** The server that the page came from. */
const server = {
  async recordings() {
    return (await (await this.ask('api/recordings')).json()).recordings;
  },

  /** The panels of a view; `isExact` looks at each IO, however long that takes. */
  async panels(query, isExact, signal) {
    return decode(await (await this.ask(`api/panels?${query}&exact=${isExact ? 1 : 0}`, signal)).arrayBuffer());
  },

  /** A page of the table. */
  async ios(query, { sort, isDescending, start, count }, signal) {
    return (await this.ask(`api/ios?${query}&sort=${sort}&descending=${isDescending ? 1 : 0}&start=${start}&count=${count}`, signal)).json();
  },

  /** How much longer another recording takes than the one of the query. */
  async ratios(query, other) {
    return (await this.ask(`api/ratios?${query}&other=${other}`)).json();
  },

  /** The address of a file of the view's IOs. */
  exportOf(query, format) {
    return `api/export?${query}&format=${format}`;
  },

  async ask(address, signal) {
    let response;
    try {
      response = await fetch(address, { signal });
    } catch (error) {
      throw error instanceof TypeError ? new Failure(UNREACHABLE) : error;
    }
    if (response.ok) return response;
    const isBusy = response.status === 429 || response.status === 503;
    throw new Failure(await wordsOf(response), isBusy);
  },
};

/** The server's words for what went wrong. */
async function wordsOf(response) {
  try {
    const { error } = await response.json();
    if (error) return error;
  } catch {
    // Not a document of ours.
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}

export const source = globalThis.flashlabFile ? new OwnFile(globalThis.flashlabFile) : server;
