/** A run as the page knows it: made of events while it goes on, and of the stored run when it is over. No page is needed. */

import { count, duration } from "penstock/format.js";
import { RUNNING, shownOf } from "penstock/marks.js";

/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./types.js").StepSums} StepSums */
/** @typedef {import("./types.js").StoredRun} StoredRun */
/** @typedef {import("./types.js").Problem} Problem */
/** @typedef {{kind: string, path: string, name: string, stage: string, at: number}} Started */

/** More rows than this are counted, but not kept. */
export const MOST_ROWS = 50_000;

/**
 * @typedef {object} Run
 * @property {string} id
 * @property {string} state
 * @property {string | null} status null until it is over
 * @property {number | null} seconds
 * @property {Span[]} spans those that ended, while it goes on
 * @property {Started[]} running what started and did not end
 * @property {Map<string, Mark>} marks of boxes by their ids, while it goes on
 * @property {string} text what left so far, of an agent or a stream
 * @property {number} held how many characters are held back
 * @property {boolean} retracted whether text that left was taken back
 * @property {Row[]} rows
 * @property {Record<string, number>} counts of rows by status
 * @property {number} done
 * @property {number | null} total
 * @property {Map<string, StepSums>} sums by the path of a step, of rows
 * @property {string} logs
 * @property {Problem | null} error
 * @property {StoredRun | null} stored all that is known, when it is over
 * @property {Replay | null} replay
 */
/** @typedef {import("penstock/replay.js").Replay} Replay */

/** The events of a run, in the words of API.md. */
export const EVENTS = ["state", "start", "span", "chunk", "held", "retract", "rows", "log", "error", "end", "gap"];

/**
 * A run that has just been asked for.
 *
 * @param {string} id
 * @returns {Run}
 */
export function newRun(id) {
  return {
    id,
    state: "waiting",
    status: null,
    seconds: null,
    spans: [],
    running: [],
    marks: new Map(),
    text: "",
    held: 0,
    retracted: false,
    rows: [],
    counts: {},
    done: 0,
    total: null,
    sums: new Map(),
    logs: "",
    error: null,
    stored: null,
    replay: null,
  };
}

/**
 * Take in an event.
 *
 * @param {Run} run
 * @param {string} name
 * @param {any} data as API.md describes it
 */
export function apply(run, name, data) {
  TAKE_IN[name]?.(run, data);
}

/** @type {Record<string, (run: Run, data: any) => void>} */
const TAKE_IN = {
  state: (run, { state }) => {
    run.state = state;
  },
  start: (run, started) => {
    run.running.push(started);
  },
  span: (run, /** @type {Span & {marks?: Record<string, Mark>}} */ { marks = {}, ...span }) => {
    run.spans.push(span);
    for (const [id, mark] of Object.entries(marks)) run.marks.set(id, { ...mark, look: mark.kind ?? "" });
    const at = run.running.findIndex(
      (one) => one.kind === span.kind && one.path === span.path && one.name === span.name,
    );
    if (at >= 0) run.running.splice(at, 1);
  },
  chunk: (run, { text, held }) => {
    run.text += text ?? "";
    run.held = held ?? run.held;
  },
  held: (run, { held }) => {
    run.held = held;
  },
  retract: (run) => {
    run.text = "";
    run.retracted = true;
  },
  rows: (run, { rows, counts, done, total }) => {
    for (const row of rows) {
      addUp(run.sums, row);
      if (run.rows.length < MOST_ROWS) run.rows.push(row);
    }
    Object.assign(run, { counts, done, total });
  },
  log: (run, { text }) => {
    run.logs += text;
  },
  error: (run, problem) => {
    run.error = problem;
  },
  end: (run, { status, seconds }) => {
    Object.assign(run, { state: "done", status, seconds, running: [], held: 0 });
  },
};

/**
 * Add a row to the sums of the steps that it names.
 *
 * @param {Map<string, StepSums>} sums
 * @param {Row} row
 */
function addUp(sums, row) {
  for (const [path, edits] of Object.entries(row.edits ?? {})) sumsOf(sums, path).edits += edits;
  if (row.step && row.status === "blocked") sumsOf(sums, row.step).tripped += 1;
  if (row.step && row.status === "failed") sumsOf(sums, row.step).failed += 1;
}

/**
 * @param {Map<string, StepSums>} sums
 * @param {string} path
 * @returns {StepSums}
 */
function sumsOf(sums, path) {
  const known = sums.get(path) ?? { seconds: 0, edits: 0, tripped: 0, failed: 0, runs: 0 };
  sums.set(path, known);
  return known;
}

/**
 * Take in the stored run: it has the last word.
 *
 * @param {Run} run
 * @param {StoredRun} stored
 */
export function complete(run, stored) {
  run.stored = stored;
  run.state = stored.state;
  run.status = stored.status;
  run.seconds = stored.seconds;
  run.error = stored.error ?? run.error;
  run.logs = stored.logs || run.logs;
  if (stored.state !== "done") return;
  run.running = [];
  run.held = 0;
  if (stored.trace) run.spans = stored.trace.spans;
  if (stored.agent) run.text = stored.agent.text;
  if (stored.file) completeRows(run, stored.file);
}

/**
 * @param {Run} run
 * @param {NonNullable<StoredRun["file"]>} file
 */
function completeRows(run, file) {
  if (run.rows.length < file.rows.length) run.rows = file.rows;
  run.counts = file.counts;
  run.total = file.total;
  run.done = file.total;
  run.sums = new Map(Object.entries(file.steps));
}

/**
 * The trace of a run, also of one that goes on.
 *
 * @param {Run} run
 * @returns {Trace | null} null if there is nothing to show
 */
export function traceOf(run) {
  if (run.stored?.trace) return run.stored.trace;
  if (run.spans.length === 0 && run.running.length === 0) return null;
  const known = new Set(run.spans.map((span) => span.id));
  const spans = run.spans
    .map((span) => (span.parent !== null && !known.has(span.parent) ? { ...span, parent: null } : span))
    .sort((a, b) => a.at - b.at || a.id - b.id);
  return {
    version: 1,
    run_id: run.id,
    thread_id: null,
    workflow: "",
    started: 0,
    seconds: Math.max(0, ...spans.map((span) => span.at + span.seconds)),
    status: "passed",
    texts: true,
    tripwire: null,
    usage: null,
    spans,
  };
}

/**
 * What the picture shows of a run.
 *
 * @param {Run} run
 * @param {string | null} stage the stage that the picture shows; null for all
 * @returns {Shown}
 */
export function runMarks(run, stage = null) {
  if (run.sums.size) return { paths: new Map([...run.sums].map(([path, sums]) => [path, markOfSums(sums)])) };
  if (run.stored?.trace) return shownOf(run.stored.marks?.[stage ?? ""] ?? null, run.replay?.passed);
  const running = run.running.filter(({ path }) => path).map(({ path }) => /** @type {const} */ ([path, RUNNING]));
  return { shapes: run.marks, paths: new Map(running) };
}

/**
 * @param {StepSums} sums
 * @returns {Mark}
 */
function markOfSums({ seconds, edits, tripped, failed, runs }) {
  const words = [];
  if (tripped) words.push(`${tripped.toLocaleString("en")} stopped`);
  if (failed) words.push(`${failed.toLocaleString("en")} failed`);
  if (edits) words.push(count(edits, "edit"));
  if (runs && seconds && !words.length) words.push(`${duration(seconds / runs)} each`);
  const kind = failed ? "failed" : tripped ? "tripped" : edits ? "edited" : "passed";
  return { kind, look: kind, words: words.length ? [words.join(" · ")] : [] };
}

/** @param {Run | null} run */
export function isGoingOn(run) {
  return run !== null && run.state !== "done";
}

/**
 * How long a run took: its own time, and the time with its process around it.
 *
 * @param {Run} run
 * @returns {{text: string, why: string}[]}
 */
export function timesOf({ seconds, stored }) {
  if (seconds === null) return [];
  const own = stored?.trace?.seconds;
  if (own === undefined)
    return [{ text: duration(seconds), why: "From the request of the studio to the answer of the process." }];
  return [
    { text: duration(own), why: "The run itself: what it takes in your application." },
    { text: `${duration(seconds)} in the studio`, why: "With the pictures and the texts that the studio adds." },
  ];
}

/** @type {Record<string, {word: string, tone: string}>} */
export const STATUSES = {
  passed: { word: "Passed", tone: "passed" },
  edited: { word: "Edited", tone: "edited" },
  blocked: { word: "Stopped", tone: "tripped" },
  failed: { word: "Failed", tone: "failed" },
  invalid: { word: "Invalid", tone: "failed" },
  cancelled: { word: "Cancelled", tone: "skipped" },
  suspended: { word: "Suspended", tone: "skipped" },
  done: { word: "Done", tone: "passed" },
};

/**
 * How a run stands, in a word and a tone.
 *
 * @param {{state: string, status: string | null}} run
 */
export function statusOf({ state, status }) {
  const words = { waiting: "Waiting", loading: "Loading", running: "Running" };
  if (state !== "done") return { word: words[/** @type {"waiting"} */ (state)] ?? "Running", tone: "running" };
  return STATUSES[status ?? "failed"] ?? { word: status ?? "Failed", tone: "failed" };
}
