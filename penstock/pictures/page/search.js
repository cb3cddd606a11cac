/** Finding steps by what a reader would type. */

/** @typedef {import("./types.js").StepInfo} StepInfo */

/**
 * @param {StepInfo} step
 * @returns {string} all that a search looks through, in lower case
 */
export function words(step) {
  const policy = Object.entries(step.policy ?? {}).flatMap(([name, value]) =>
    value === null ? [] : [name, String(value)],
  );
  const facts = [...(step.provides ?? []), ...(step.requires ?? [])];
  const said = [
    step.path,
    step.title,
    step.processor,
    step.role,
    step.doc,
    ...(step.stages ?? []),
    ...facts,
    ...policy,
  ];
  return said.filter(Boolean).join("\n").toLowerCase();
}

/**
 * @param {StepInfo[]} steps
 * @param {string} query words of which each must be found
 * @returns {string[]} the paths of the steps that have all of them; none for an empty query
 */
export function find(steps, query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return [];
  return steps.filter((step) => wanted.every((word) => words(step).includes(word))).map((step) => step.path);
}
