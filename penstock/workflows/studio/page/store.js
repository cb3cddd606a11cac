/** The state of the page: one object, changed by `update` and drawn at most once a frame. */

/**
 * Make a store.
 *
 * @template {object} S
 * @param {S} state the first state; it is changed in place
 * @param {(state: S) => void} draw is called in the next frame after a change
 * @returns {{state: S, update: (patch?: Partial<S>) => void}}
 */
export function createStore(state, draw) {
  let waiting = false;
  /** @param {Partial<S>} [patch] */
  function update(patch) {
    Object.assign(state, patch);
    if (waiting) return;
    waiting = true;
    soon(() => {
      waiting = false;
      draw(state);
    });
  }
  return { state, update };
}

/**
 * Call back in the next frame. A tab in the background has no frames, so there a timer calls.
 *
 * @param {() => void} callback
 */
function soon(callback) {
  if (document.hidden) setTimeout(callback, 50);
  else requestAnimationFrame(callback);
}
