/** The keys of the page: one list, from which the keys work and the help is written. */

import { html } from "lit-html";

/**
 * @typedef {object} Shortcut
 * @property {string} key as in `KeyboardEvent.key`
 * @property {boolean} [ctrl] with Ctrl, or ⌘ on a Mac; works while typing, too
 * @property {string} does what it does, in words
 * @property {() => void} run
 */

/** Keys that the shared picture and standard controls have; they are told in the help. */
const ELSEWHERE = [
  ["Arrow keys", "in the picture: from step to step; in tabs: choose"],
  ["Enter", "in the picture: open the step"],
  ["+ − 0", "in the picture: larger, smaller, all of it"],
];

/**
 * Make the keys work.
 *
 * @param {Shortcut[]} shortcuts
 */
export function listen(shortcuts) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey) return;
    const ctrl = event.ctrlKey || event.metaKey;
    const found = shortcuts.find((one) => one.key === event.key && Boolean(one.ctrl) === ctrl);
    if (!found || (!ctrl && typing(event.target))) return;
    event.preventDefault();
    found.run();
  });
}

/** @param {EventTarget | null} target */
function typing(target) {
  return target instanceof HTMLElement && (target.matches("input, textarea, select") || target.isContentEditable);
}

/**
 * The list of all keys, for the help.
 *
 * @param {Shortcut[]} shortcuts
 */
export function shortcutList(shortcuts) {
  const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);
  const rows = shortcuts.map(({ key, ctrl, does }) => [
    ctrl ? `${mac ? "⌘" : "Ctrl"} ${named(key)}` : named(key),
    does,
  ]);
  return html`<dl class="keys">
    ${[...rows, ...ELSEWHERE].map(([keys, does]) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${does}</dd></div>`)}
  </dl>`;
}

/** @param {string} key */
function named(key) {
  return key === "Escape" ? "Esc" : key.length === 1 ? key.toUpperCase() : key;
}
