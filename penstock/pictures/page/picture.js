/**
 * The picture of a workflow: pan, zoom, fit, choose a box, highlight boxes, and mark what a run did.
 *
 * The picture is scrolled, not transformed: so a touch, the wheel, the arrow keys and the search of the browser move it
 * as any page, and a box that gets the focus comes into view.
 */

import { wireKey } from "penstock/marks.js";
import { clamp, fitScale, zoomedOffset } from "penstock/zoom.js";

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Shown} Shown */

const SVG = "http://www.w3.org/2000/svg";
const STEP = 1.25;

/** @type {Mark} what a run did not reach */
const IDLE = { look: "idle" };

export class Picture {
  /**
   * @param {string | SVGSVGElement} svg of `workflow.draw("svg")`: its boxes carry `data-path`
   * @param {{onSelect?: (path: string | null) => void, names?: Map<string, string>}} [options]
   *   onSelect: called when the reader chooses a box, or none; names: what a screen reader says of a box, by its path
   */
  constructor(svg, { onSelect = () => {}, names = new Map() } = {}) {
    this.onSelect = onSelect;
    /** @type {string | null} */
    this.selected = null;
    this.scale = 1;
    this.fitted = true;
    this.element = document.createElement("div");
    this.element.className = "picture";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", "Picture of the workflow");
    this.svg = typeof svg === "string" ? parsed(svg) : svg;
    this.size = { width: Number(this.svg.getAttribute("width")), height: Number(this.svg.getAttribute("height")) };
    this.sheets = adoptStyle(this.svg);
    this.element.append(this.svg);
    /** @type {Map<string, SVGGElement[]>} the boxes of each path: a step of an agent may stand in several lists */
    this.boxes = new Map();
    for (const box of /** @type {NodeListOf<SVGGElement>} */ (this.svg.querySelectorAll("g[data-path]"))) {
      const path = box.dataset.path ?? "";
      this.boxes.set(path, [...(this.boxes.get(path) ?? []), box]);
    }
    /** @type {Map<SVGElement, Mark>} what each box and dot shows of a run */
    this.marked = new Map();
    this.names = names;
    /** The paths of the boxes that can be chosen, in the order in which the arrow keys reach them. */
    this.choices = [...names.keys()].filter((path) => this.boxes.has(path));
    this.#prepareBoxes();
    this.#listen();
    this.observer = new ResizeObserver(() => this.fitted && this.fit());
    this.observer.observe(this.element);
  }

  /** The paths of all boxes, in the order of the picture. */
  get paths() {
    return [...this.boxes.keys()];
  }

  /** Show the whole picture; a small one in its own size. */
  fit() {
    const { clientWidth, clientHeight } = this.element;
    if (clientWidth === 0) return;
    this.#scaleTo(fitScale(this.size, { width: clientWidth, height: clientHeight }));
    this.fitted = true;
  }

  /**
   * Show it larger or smaller, about the middle of what is seen, or about a point of the screen.
   *
   * @param {number} factor
   * @param {{clientX: number, clientY: number}} [point]
   */
  zoomBy(factor, point) {
    this.zoomTo(this.scale * factor, point);
  }

  /**
   * @param {number} scale 1 for the size in which the picture was drawn
   * @param {{clientX: number, clientY: number}} [point]
   */
  zoomTo(scale, point) {
    const frame = this.element.getBoundingClientRect();
    const x = point ? point.clientX - frame.left : frame.width / 2;
    const y = point ? point.clientY - frame.top : frame.height / 2;
    const before = this.scale;
    const { scrollLeft, scrollTop } = this.element;
    this.#scaleTo(scale);
    this.element.scrollLeft = zoomedOffset(scrollLeft, x, before, this.scale);
    this.element.scrollTop = zoomedOffset(scrollTop, y, before, this.scale);
    this.fitted = false;
  }

  /**
   * Choose a box, or none; `onSelect` is not called.
   *
   * @param {string | null} path
   * @param {{reveal?: boolean}} [options] reveal: bring the box into view
   */
  select(path, { reveal = false } = {}) {
    if (this.selected !== null) this.#setSelected(this.selected, false);
    this.selected = path !== null && this.boxes.has(path) ? path : null;
    if (this.selected === null) return;
    this.#setSelected(this.selected, true);
    if (reveal) this.reveal(this.selected);
  }

  /**
   * Bring a box into view.
   *
   * @param {string} path
   */
  reveal(path) {
    this.#first(path)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /**
   * Highlight the boxes that a search found, and dim the others; none: show all alike.
   *
   * @param {string[] | null} paths
   */
  highlight(paths) {
    this.svg.classList.toggle("searching", paths !== null);
    for (const [path, boxes] of this.boxes) {
      for (const box of boxes) box.classList.toggle("found", paths?.includes(path) ?? false);
    }
  }

  /**
   * Mark what a run did: colours and badges of boxes, and the arrows that were taken. The marks before are taken away.
   *
   * @param {Shown} shown
   */
  mark({ shapes = new Map(), paths = new Map(), wires = null }) {
    for (const box of /** @type {NodeListOf<SVGElement>} */ (this.svg.querySelectorAll("[data-id]"))) {
      const { id = "", path } = box.dataset;
      const mark = shapes.get(id) ?? (path === undefined ? undefined : paths.get(path));
      this.#markBox(box, mark ?? (wires && !isFrame(box) ? IDLE : undefined));
    }
    this.#markWires(wires);
    this.svg.classList.toggle("marked", shapes.size + paths.size > 0 || wires !== null);
  }

  /** Stop watching the size of the page, and take the rules of the picture out of it. */
  dispose() {
    this.observer.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !this.sheets.includes(sheet));
  }

  /**
   * @param {SVGElement} box
   * @param {Mark | undefined} mark
   */
  #markBox(box, mark) {
    const before = this.marked.get(box);
    if (before === mark) return;
    if (mark) this.marked.set(box, mark);
    else this.marked.delete(box);
    box.classList.remove(...looksOf(before));
    box.classList.add(...looksOf(mark));
    box.querySelector(":scope > .pill")?.remove();
    if (mark?.words?.length) box.append(badge(box, mark.words));
    if (mark?.kind) box.dataset.mark = mark.kind;
    else delete box.dataset.mark;
    const title = box.querySelector(":scope > title");
    if (title) {
      box.dataset.tip ??= title.textContent ?? "";
      title.textContent = [box.dataset.tip, mark?.tip ?? ""].filter(Boolean).join("\n");
    }
    const name = this.names.get(box.dataset.path ?? "");
    if (name !== undefined) box.setAttribute("aria-label", [name, ...(mark?.words ?? [])].join(", "));
  }

  /** @param {Set<string> | null} taken */
  #markWires(taken) {
    const flows = /** @type {NodeListOf<SVGElement>} */ (this.svg.querySelectorAll("g.flow[data-source]"));
    const last = flows[flows.length - 1];
    const next = last?.nextSibling ?? null;
    for (const flow of flows) {
      const { source = "", target = "" } = flow.dataset;
      const passed = taken?.has(wireKey(source, target)) ?? false;
      flow.classList.toggle("taken", passed);
      flow.classList.toggle("idle", taken !== null && !passed);
      if (passed) flow.parentNode?.insertBefore(flow, next); // over the pale ones
    }
  }

  /** @param {number} scale */
  #scaleTo(scale) {
    this.scale = clamp(scale);
    this.svg.setAttribute("width", String(this.size.width * this.scale));
    this.svg.setAttribute("height", String(this.size.height * this.scale));
  }

  /**
   * @param {string} path
   * @param {boolean} on
   */
  #setSelected(path, on) {
    for (const box of this.boxes.get(path) ?? []) box.setAttribute("aria-pressed", String(on));
  }

  /** @param {string} path */
  #first(path) {
    return this.boxes.get(path)?.[0];
  }

  #prepareBoxes() {
    this.svg.setAttribute("role", "group");
    for (const [path, name] of this.names) {
      for (const box of this.boxes.get(path) ?? []) {
        box.setAttribute("role", "button");
        box.setAttribute("aria-pressed", "false");
        box.setAttribute("aria-label", name);
        box.setAttribute("tabindex", "-1");
      }
    }
    const [first] = this.choices;
    if (first !== undefined) this.#first(first)?.setAttribute("tabindex", "0");
  }

  #listen() {
    this.element.addEventListener("click", (event) => this.#choose(event));
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.element.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    new Drag(this);
  }

  /** @param {MouseEvent} event */
  #choose(event) {
    const box = event.target instanceof Element ? event.target.closest("g[data-path][role=button]") : null;
    const path = box?.getAttribute("data-path") ?? null;
    this.select(path);
    if (path !== null) this.#rove(path, box);
    this.onSelect(this.selected);
  }

  /**
   * Only one box at a time is in the order of the tab key; the arrow keys lead to the others.
   *
   * @param {string} path
   * @param {Element | null} [box] the one of the path that gets the focus
   */
  #rove(path, box = this.#first(path) ?? null) {
    for (const other of this.choices) this.#first(other)?.setAttribute("tabindex", other === path ? "0" : "-1");
    if (box instanceof SVGElement) box.focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target instanceof SVGElement ? event.target.dataset.path : undefined;
    if (this.#zoomKey(event.key) || (at !== undefined && this.#boxKey(event.key, at))) event.preventDefault();
  }

  /** @param {string} key */
  #zoomKey(key) {
    if (key === "+" || key === "=") this.zoomBy(STEP);
    else if (key === "-") this.zoomBy(1 / STEP);
    else if (key === "0") this.fit();
    else return false;
    return true;
  }

  /**
   * @param {string} key
   * @param {string} at the path of the box that has the focus
   */
  #boxKey(key, at) {
    if (key === "Enter" || key === " ") {
      this.select(at);
      this.onSelect(at);
      return true;
    }
    if (key === "Escape") {
      this.select(null);
      this.onSelect(null);
      return true;
    }
    const paths = this.choices;
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[key];
    const next =
      key === "Home" ? paths[0] : key === "End" ? paths[paths.length - 1] : step && paths[paths.indexOf(at) + step];
    if (!next) return step !== undefined;
    this.#rove(next);
    this.reveal(next);
    return true;
  }

  /** @param {WheelEvent} event */
  #onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls
    event.preventDefault();
    this.zoomBy(Math.exp(-event.deltaY / 300), event);
  }
}

/** Dragging with the mouse, and pinching with two fingers. One finger scrolls by itself. */
class Drag {
  /** @param {Picture} picture */
  constructor(picture) {
    this.picture = picture;
    /** @type {Map<number, PointerEvent>} */
    this.pointers = new Map();
    this.moved = false;
    const { element } = picture;
    element.addEventListener("pointerdown", (event) => this.#down(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of /** @type {const} */ (["pointerup", "pointercancel", "pointerleave"])) {
      element.addEventListener(end, (event) => this.#up(event));
    }
    element.addEventListener("click", (event) => this.moved && event.stopImmediatePropagation(), { capture: true });
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    if (this.pointers.size === 0) this.moved = false;
    this.pointers.set(event.pointerId, event);
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const { element } = this.picture;
    const [across, down] = [event.clientX - before.clientX, event.clientY - before.clientY];
    if (this.pointers.size === 1 && event.pointerType === "mouse") {
      if (!this.moved && Math.hypot(across, down) < 4) return; // a click with an unsteady hand
      this.moved = true;
      element.classList.add("dragging");
      element.scrollLeft -= across;
      element.scrollTop -= down;
    } else if (this.pointers.size === 2) {
      this.#pinch(before, event);
    }
    this.pointers.set(event.pointerId, event);
  }

  /**
   * @param {PointerEvent} before
   * @param {PointerEvent} event
   */
  #pinch(before, event) {
    const other = [...this.pointers.values()].find((one) => one.pointerId !== event.pointerId);
    if (!other) return;
    this.moved = true;
    const length = (/** @type {PointerEvent} */ one) =>
      Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    const point = { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 };
    if (length(before) > 0) this.picture.zoomBy(length(event) / length(before), point);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    this.pointers.delete(event.pointerId);
    this.picture.element.classList.remove("dragging");
  }
}

/**
 * @param {string} text of our own making
 * @returns {SVGSVGElement}
 */
function parsed(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (!(root instanceof SVGSVGElement)) throw new TypeError("the picture is no SVG");
  return document.importNode(root, true);
}

/** @param {Mark | undefined} mark */
function looksOf(mark) {
  return mark?.look?.split(" ").filter(Boolean) ?? [];
}

/** @param {SVGElement} box */
function isFrame(box) {
  return box.querySelector(":scope > rect.group") !== null;
}

/**
 * Move the rules of a picture into the page: a strict policy refuses style elements.
 *
 * @param {SVGSVGElement} svg
 * @returns {CSSStyleSheet[]} what was added to the page
 */
function adoptStyle(svg) {
  const sheets = [...svg.querySelectorAll("style")].map((style) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style.textContent ?? "");
    style.remove();
    return sheet;
  });
  document.adoptedStyleSheets.unshift(...sheets);
  return sheets;
}

/** How far a badge stays from the arrow that leaves its box, and how far it may reach beside the box. */
const CLEAR = 5;
const BESIDE = 7;

/**
 * The badge of a box, over its lower edge: arrows come in at the upper one, and their heads must be seen.
 *
 * @param {SVGElement} box
 * @param {string[]} words its lines
 */
function badge(box, words) {
  const frame = frameOf(box);
  const width = Math.max(...words.map((line) => line.length)) * 5.7 + 12;
  const height = 3.5 + 11.5 * words.length;
  // At the right end of the box. One that would cover the arrow from its middle moves into the space beside the box;
  // one that is too wide for that stands over the middle.
  const spare = frame.width + 1 - width;
  const free = frame.width / 2 + BESIDE - width - CLEAR;
  const left =
    frame.x + (spare < 0 ? spare / 2 : spare) + (free >= 0 ? Math.max(0, width + CLEAR - frame.width / 2) : 0);
  const top = frame.y + frame.height - 3;
  const group = document.createElementNS(SVG, "g");
  group.setAttribute("class", "pill");
  group.append(drawn("rect", { x: left, y: top, width, height, rx: 7 }));
  for (const [at, line] of words.entries()) {
    const text = drawn("text", { x: left + width / 2, y: top + 11 + 11.5 * at, "text-anchor": "middle" });
    text.textContent = line;
    group.append(text);
  }
  return group;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function drawn(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** @param {SVGElement} box */
function frameOf(box) {
  const rect = box.querySelector("rect");
  const numbers = ["x", "y", "width", "height"].map((name) => Number(rect?.getAttribute(name) ?? 0));
  const [x = 0, y = 0, width = 0, height = 0] = numbers;
  return { x, y, width, height };
}
