/** A Python docstring as blocks of text: paragraphs, headings of sections, and the items in them. */

/** @typedef {{kind: "text" | "heading" | "item", text: string}} Block */

/**
 * Lines that belong together are joined, so that the text wraps where the reader's window does.
 *
 * @param {string} doc without common indentation, as `inspect.cleandoc` leaves it
 * @returns {Block[]}
 */
export function blocksOf(doc) {
  /** @type {Block[]} */
  const blocks = [];
  let joins = false;
  for (const line of doc.split("\n")) {
    const text = line.trim();
    const indent = line.length - line.trimStart().length;
    const last = blocks[blocks.length - 1];
    if (joins && text !== "" && last && continues(last, indent)) {
      last.text = `${last.text} ${text}`;
      continue;
    }
    const kind = kindOf(text, indent);
    if (text !== "") blocks.push({ kind, text: kind === "heading" ? text.slice(0, -1) : text });
    joins = text !== "" && kind !== "heading";
  }
  return blocks;
}

/**
 * @param {Block} last
 * @param {number} indent
 */
function continues(last, indent) {
  return last.kind === "text" ? indent === 0 : indent > 4;
}

/**
 * @param {string} text
 * @param {number} indent
 * @returns {Block["kind"]}
 */
function kindOf(text, indent) {
  if (indent > 0) return "item";
  return /^[A-Z]\w+:$/.test(text) ? "heading" : "text";
}

/**
 * Cut a text at its literals, which stand in one or two backticks.
 *
 * @param {string} text
 * @returns {{text: string, code: boolean}[]}
 */
export function literalsOf(text) {
  return text
    .split(/(``[^`]+``|`[^`]+`)/)
    .filter(Boolean)
    .map((piece) =>
      piece.startsWith("`") ? { text: piece.replaceAll("`", ""), code: true } : { text: piece, code: false },
    );
}
