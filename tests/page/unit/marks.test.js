import assert from "node:assert/strict";
import { test } from "node:test";
import { RUNNING, shownOf, wireKey } from "penstock/marks.js";

const first = { kind: /** @type {const} */ ("passed"), look: "passed", words: ["1 ms"] };
const second = { kind: /** @type {const} */ ("tripped"), look: "tripped stops", words: ["stops the run"] };
/** @type {import("../../../penstock/pictures/page/types.js").RunMarks} */
const run = {
  shapes: {
    start: [{}],
    "step:a": [
      { when: "end 1", ...first },
      { when: "end 2", ...second },
    ],
  },
  wires: [
    ["start", "step:a", "start 1"],
    ["step:a", "step:b", "end 2"],
    ["start", "step:c", ""],
  ],
};

test("at the end a box has its last mark, and all arrows that were taken are", () => {
  const { shapes, wires } = shownOf(run);
  assert.deepEqual(shapes?.get("step:a"), { when: "end 2", ...second });
  assert.equal(wires?.size, 3);
});

test("at a moment of the replay a box shows what has ended, or that it runs", () => {
  const at = (/** @type {string[]} */ ...passed) => shownOf(run, new Set(passed)).shapes?.get("step:a");
  assert.equal(at(), undefined);
  assert.equal(at("start 1"), RUNNING);
  assert.deepEqual(at("start 1", "end 1"), { when: "end 1", ...first });
  assert.equal(at("start 1", "end 1", "start 2"), RUNNING);
});

test("the way so far is what has been taken until then", () => {
  assert.deepEqual(
    [...(shownOf(run, new Set(["start 1"])).wires ?? [])],
    [wireKey("start", "step:a"), wireKey("start", "step:c")],
  );
});

test("without a run nothing is marked, and no arrow is said not to be taken", () => {
  assert.deepEqual(shownOf(null), {});
});
