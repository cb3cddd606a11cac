/** The arithmetic of zooming. */

const LEAST = 0.05;
const MOST = 8;

/** @param {number} scale */
export function clamp(scale) {
  return Math.min(Math.max(scale, LEAST), MOST);
}

/**
 * @param {{width: number, height: number}} picture
 * @param {{width: number, height: number}} frame
 * @returns {number} the scale at which the whole picture is seen; never more than its own size
 */
export function fitScale(picture, frame) {
  return clamp(Math.min(1, frame.width / picture.width, frame.height / picture.height));
}

/**
 * @param {number} offset how far it was scrolled
 * @param {number} at the place in the frame that shall stay
 * @param {number} before the scale before
 * @param {number} after the scale after
 * @returns {number} how far to scroll, so that what was at this place is there again
 */
export function zoomedOffset(offset, at, before, after) {
  return ((offset + at) * after) / before - at;
}
