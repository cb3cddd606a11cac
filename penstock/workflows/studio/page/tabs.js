/** A row of tabs as the ARIA practices ask: arrow keys move, and only the chosen tab is in the order of Tab. */

import { html, nothing } from "lit-html";

/**
 * @typedef {object} Tab
 * @property {string} id
 * @property {string} label
 * @property {string | number} [count] shown beside the label
 */

/**
 * The row of tabs; its panel is `tabPanel` with the same name.
 *
 * @param {string} name of the row, for ids and for screen readers
 * @param {Tab[]} tabs
 * @param {string} chosen
 * @param {(id: string) => void} choose
 */
export function tabRow(name, tabs, chosen, choose) {
  /** @param {KeyboardEvent} event */
  function move(event) {
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    if (!tab) return;
    choose(tab.id);
    document.getElementById(tabId(name, tab.id))?.focus();
  }
  return html`<div class="tabs" role="tablist" aria-label=${name} @keydown=${move}>
    ${tabs.map(
      ({ id, label, count }) => html`<button
        type="button"
        role="tab"
        id=${tabId(name, id)}
        aria-selected=${id === chosen ? "true" : "false"}
        aria-controls=${id === chosen ? `${slug(name)}-panel` : nothing}
        tabindex=${id === chosen ? 0 : -1}
        @click=${() => choose(id)}
      >${label}${count === undefined ? nothing : html` <span class="count">${count}</span>`}</button>`,
    )}
  </div>`;
}

/**
 * The panel below a row of tabs.
 *
 * @param {string} name that of the row
 * @param {string} chosen
 * @param {unknown} content
 */
export function tabPanel(name, chosen, content) {
  return html`<div class="tab-panel" role="tabpanel" id="${slug(name)}-panel" aria-labelledby=${tabId(name, chosen)}>${content}</div>`;
}

/**
 * @param {string} name
 * @param {string} id
 */
function tabId(name, id) {
  return `tab-${slug(name)}-${id}`;
}

/** @param {string} name */
function slug(name) {
  return name.toLowerCase().replaceAll(" ", "-");
}
