/** Traces made by hand. */

/**
 * @param {Partial<import("../../../penstock/pictures/page/types.js").Span>} fields
 * @returns {import("../../../penstock/pictures/page/types.js").Span}
 */
export function span(fields) {
  const plain = {
    id: 0,
    parent: null,
    kind: "step",
    name: "a",
    path: "a",
    stage: "process_input",
    at: 0,
    seconds: 0.001,
  };
  return /** @type {ReturnType<typeof span>} */ ({ ...plain, status: "passed", ...fields });
}

/**
 * @param {ReturnType<typeof span>[]} spans
 * @returns {import("../../../penstock/pictures/page/types.js").Trace}
 */
export function trace(spans) {
  const seconds = Math.max(...spans.map((one) => one.at + one.seconds));
  const run = { version: 1, run_id: "r", thread_id: null, workflow: "w", started: 0, texts: false, tripwire: null };
  return { ...run, seconds, status: "passed", usage: null, spans };
}
