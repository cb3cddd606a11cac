/** Times, sizes and names in words, beside those of the shared `format.js`. */

/**
 * @param {number} size
 * @returns {string} such as `512 bytes`, `1.4 MB`
 */
export function bytes(size) {
  if (size < 1000) return `${size} bytes`;
  if (size < 1_000_000) return `${Number((size / 1000).toPrecision(3))} kB`;
  return `${Number((size / 1_000_000).toPrecision(3))} MB`;
}

/**
 * @param {number} seconds since 1970
 * @param {number} [now] in the same unit
 * @returns {string} such as `just now`, `5 min ago`, or a date
 */
export function ago(seconds, now = Date.now() / 1000) {
  const past = now - seconds;
  if (past < 45) return "just now";
  if (past < 3600) return `${Math.max(1, Math.round(past / 60))} min ago`;
  if (past < 86_400) return `${Math.round(past / 3600)} h ago`;
  return new Date(seconds * 1000).toLocaleDateString();
}

/**
 * @param {string} path of a file
 * @returns {string} its last part
 */
export function fileName(path) {
  return path.split(/[\\/]/).at(-1) ?? path;
}

/**
 * @param {string} dotted
 * @returns {string} the last name of a dotted one
 */
export function lastName(dotted) {
  return dotted.split(".").at(-1) ?? dotted;
}

/**
 * @param {string} text
 * @param {number} most
 * @returns {string} the text, cut if it is longer
 */
export function cut(text, most) {
  const points = Array.from(text.slice(0, most * 2 + 2));
  return points.length > most ? `${points.slice(0, most - 1).join("")}…` : text;
}
