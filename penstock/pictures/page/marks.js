/** Which marks of a run a picture shows: those of its end, or of a moment before. What they are, Python says. */

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").RunMarks} RunMarks */
/** @typedef {import("./types.js").Shown} Shown */

/** @type {Mark} */
export const RUNNING = { kind: "running", look: "running", words: ["running"] };

/**
 * @param {string} source the id of the box that an arrow leaves
 * @param {string} target the id of the box that it reaches
 */
export function wireKey(source, target) {
  return `${source}\n${target}`;
}

/**
 * @param {RunMarks | null} run
 * @param {Set<string> | null} [passed] the starts and ends that have passed; null: all
 * @returns {Shown}
 */
export function shownOf(run, passed = null) {
  if (!run) return {};
  const has = (/** @type {string | undefined} */ when) => !when || passed === null || passed.has(when);
  /** @type {Map<string, Mark>} */
  const shapes = new Map();
  for (const [id, states] of Object.entries(run.shapes)) {
    const last = states.findLast(({ when }) => has(when));
    const running = passed !== null && states.some(({ when }) => isRunning(when, passed));
    if (running || last) shapes.set(id, running ? RUNNING : (last ?? {}));
  }
  const taken = run.wires.filter(([, , when]) => has(when));
  return { shapes, wires: new Set(taken.map(([source, target]) => wireKey(source, target))) };
}

/**
 * @param {string | undefined} when the moment at which a box gets a mark
 * @param {Set<string>} passed
 * @returns {boolean} whether that is the end of a span that has started only
 */
function isRunning(when, passed) {
  if (!when?.startsWith("end ") || passed.has(when)) return false;
  return passed.has(when.replace("end", "start"));
}
