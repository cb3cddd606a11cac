/** Numbers and names in words, for people. */

/**
 * A time in the unit that suits it, as the terminal says it (`duration` in `pictures/timeline.py`).
 *
 * @param {number} seconds
 * @returns {string} such as `30 µs`, `1.25 ms`, `12.5 ms`, `1.20 s`
 */
export function duration(seconds) {
  const micros = Math.round(seconds * 1e6);
  if (micros < 100) return `${micros} µs`;
  if (micros < 999_950) return `${(micros / 1e3).toFixed(micros < 9_995 ? 2 : 1)} ms`;
  return `${seconds.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} s`;
}

/**
 * A number for people: three significant digits; whole numbers stay as they are.
 *
 * @param {number} number
 * @returns {string} such as `0.873`, `12`, `1.23e-7`
 */
export function rounded(number) {
  return Number.isInteger(number) || !Number.isFinite(number) ? String(number) : String(Number(number.toPrecision(3)));
}

/**
 * @param {number} number
 * @param {string} one the noun
 * @param {string} [several]
 * @returns {string} such as `1 edit`, `2,000 edits`
 */
export function count(number, one, several = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : several}`;
}

/**
 * @param {string} text
 * @returns {string} with a visible sign for each character that has none of its own, so that no text can hide or control
 */
export function visible(text) {
  return text.replace(HIDDEN, sign);
}

/** Control and format characters, and half surrogates; line feeds and tabs are kept. */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** @param {string} character */
function sign(character) {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/**
 * @param {string} stage
 * @returns {string} its name without the common prefix
 */
export function stageWord(stage) {
  return stage.replace(/^process_/, "");
}
