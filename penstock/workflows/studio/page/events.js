/**
 * Streams of events from the server, which survive a lost connection and many tabs.
 *
 * A browser opens six connections to a server for all its tabs together. A stream keeps one of them, so tabs share a few
 * places for streams (by Web Locks), and a hidden tab gives its place back. A stream without a place polls instead.
 */

const PLACES = ["penstock-stream-1", "penstock-stream-2", "penstock-stream-3", "penstock-stream-4"];
const SECOND = 1000;

/**
 * @typedef {object} Listener
 * @property {string} url of the stream; a place to go on from is added as `after=`
 * @property {string[]} names of the events
 * @property {(name: string, data: any) => void} event
 * @property {() => Promise<void>} poll asks for the same news without a stream
 * @property {(open: boolean) => void} [connection] is told when the stream is lost, and when it is back
 */

/**
 * Listen until the returned function is called.
 *
 * @param {Listener} listener
 * @returns {() => void} ends it
 */
export function listen(listener) {
  const ending = new AbortController();
  void (async () => {
    let after = 0;
    while (!ending.signal.aborted) {
      if (document.hidden) await shown(ending.signal);
      else if (!(await inPlace(async () => (after = await streamed(listener, after, ending.signal))))) {
        await polled(listener, ending.signal);
      }
    }
  })();
  return () => ending.abort();
}

/**
 * Run a task while holding one of the places.
 *
 * @param {() => Promise<unknown>} task
 * @returns {Promise<boolean>} whether a place was free
 */
async function inPlace(task) {
  if (!navigator.locks) return false; // a page that came over plain HTTP from another machine
  for (const place of PLACES) {
    const ran = await navigator.locks.request(place, { ifAvailable: true }, async (lock) => {
      if (lock) await task();
      return lock !== null;
    });
    if (ran) return true;
  }
  return false;
}

/**
 * Listen to the stream until it is lost, or the page is hidden.
 *
 * @param {Listener} listener
 * @param {number} after
 * @param {AbortSignal} signal
 * @returns {Promise<number>} the last event's number
 */
async function streamed(listener, after, signal) {
  let last = after;
  const source = new EventSource(`${listener.url}?after=${after}`);
  await new Promise((resolve) => {
    for (const name of listener.names) {
      source.addEventListener(name, (event) => {
        if (!(event instanceof MessageEvent)) return; // a lost connection is called `error`, too
        last = Number(event.lastEventId) || last;
        listener.event(name, JSON.parse(event.data));
      });
    }
    source.onopen = () => listener.connection?.(true);
    source.onerror = (event) => event instanceof MessageEvent || resolve(null);
    signal.addEventListener("abort", resolve, { once: true });
    document.addEventListener("visibilitychange", () => document.hidden && resolve(null), { signal });
  });
  const lost = !signal.aborted && !document.hidden;
  source.close();
  if (lost) {
    listener.connection?.(false);
    await paused(SECOND, signal);
  }
  return last;
}

/**
 * Poll once, and wait a second.
 *
 * @param {Listener} listener
 * @param {AbortSignal} signal
 */
async function polled(listener, signal) {
  try {
    await listener.poll();
    listener.connection?.(true);
  } catch {
    listener.connection?.(false);
  }
  await paused(SECOND, signal);
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 */
function paused(milliseconds, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", resolve, { once: true });
  });
}

/**
 * Wait until the page is shown.
 *
 * @param {AbortSignal} signal
 */
function shown(signal) {
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => !document.hidden && resolve(null), { signal });
    signal.addEventListener("abort", resolve, { once: true });
  });
}
