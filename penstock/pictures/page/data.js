/** The data blocks and the picture that a self-contained file carries. */

/**
 * @param {string} id
 * @returns {unknown} the JSON value of a block
 */
export function readData(id) {
  return JSON.parse(document.getElementById(id)?.textContent ?? "null");
}

/**
 * Take the picture out of the page, which shows it by itself where scripts do not run.
 *
 * @returns {{host: HTMLElement, svg: SVGSVGElement}} the element to render into, and the picture
 */
export function takePicture() {
  const host = document.getElementById("page");
  const svg = host?.querySelector("svg");
  if (!host || !svg) throw new Error("the page has no picture");
  host.replaceChildren();
  return { host, svg };
}
