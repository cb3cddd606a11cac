/** Keeps the shared picture on the page: a new drawing takes over zoom, place, choice and focus of the one before. */

import { Picture } from "penstock/picture.js";

/** @typedef {import("./types.js").Shown} Marks */

/**
 * @typedef {object} Shown
 * @property {string} svg
 * @property {Map<string, string>} names what a screen reader says of a box
 * @property {Marks} marks what a run did
 * @property {string | null} selected
 * @property {string[] | null} found
 * @property {string} label
 */

export class PictureHost {
  /** @param {(path: string | null) => void} onSelect */
  constructor(onSelect) {
    this.onSelect = onSelect;
    /** @type {Picture | null} */
    this.picture = null;
    this.svg = "";
    this.marks = "";
    this.found = "";
  }

  /**
   * @param {HTMLElement | null} place an element whose content is left to this host
   * @param {Shown} shown
   */
  show(place, { svg, names, marks, selected, found, label }) {
    if (!place) return;
    if (svg !== this.svg || !this.picture) this.#redraw(svg, names);
    const { picture } = this;
    if (!picture) return;
    if (picture.element.parentElement !== place) place.replaceChildren(picture.element);
    picture.element.setAttribute("aria-label", label);
    this.#mark(picture, marks);
    if (picture.selected !== selected) picture.select(selected, { reveal: true });
    const wanted = JSON.stringify(found);
    if (wanted !== this.found) picture.highlight(found);
    if (wanted !== this.found && found?.[0] !== undefined) picture.reveal(found[0]);
    this.found = wanted;
  }

  /**
   * @param {Picture} picture
   * @param {Marks} marks
   */
  #mark(picture, marks) {
    const wanted = JSON.stringify(Object.entries(marks).map(([name, value]) => [name, value && [...value]]));
    if (wanted === this.marks) return;
    this.marks = wanted;
    picture.mark(marks);
  }

  /**
   * @param {string} svg
   * @param {Map<string, string>} names
   */
  #redraw(svg, names) {
    const old = this.picture;
    const focused = old && document.activeElement instanceof SVGElement && old.element.contains(document.activeElement);
    const path = focused ? /** @type {SVGElement} */ (document.activeElement).dataset.path : undefined;
    const picture = new Picture(svg, { onSelect: this.onSelect, names });
    this.svg = svg;
    this.marks = "[]";
    this.found = "null";
    this.picture = picture;
    if (!old) return;
    old.element.replaceWith(picture.element);
    if (!old.fitted) {
      picture.zoomTo(old.scale);
      picture.element.scrollTo(old.element.scrollLeft, old.element.scrollTop);
    }
    old.dispose();
    if (path !== undefined) picture.boxes.get(path)?.[0]?.focus();
  }
}
