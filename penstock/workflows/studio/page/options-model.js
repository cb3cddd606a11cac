/** Which options of a step are shown at once, and which are folded. */

/** @typedef {import("./types.js").Field} Field */

/** How many options are shown at once. */
const FIRST = 8;

/**
 * Those that the code sets come first, then the first ones of the constructor: it names the common ones first. What is
 * changed in the page stays where it is, so that nothing moves under the hands of its reader.
 *
 * @param {Field[]} fields in the order of the constructor
 * @returns {{first: Field[], rest: Field[]}} what is shown at once, and what is folded
 */
export function sorted(fields) {
  if (fields.length <= FIRST + 1) return { first: fields, rest: [] };
  const set = fields.filter((field) => field.set);
  const others = fields.filter((field) => !field.set);
  const free = Math.max(0, FIRST - set.length);
  return { first: [...set, ...others.slice(0, free)], rest: others.slice(free) };
}
