/** Docs of the code, with their literals set as code. */

import { html } from "lit-html";
import { literalsOf } from "penstock/docstring.js";
import { visible } from "penstock/format.js";

/**
 * @param {string} text with literals in one or two backticks
 */
export function prose(text) {
  return literalsOf(text).map((piece) =>
    piece.code ? html`<code>${visible(piece.text)}</code>` : visible(piece.text),
  );
}
