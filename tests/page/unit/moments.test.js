import assert from "node:assert/strict";
import { test } from "node:test";
import { momentsOf, passedAt, streamAt } from "penstock/moments.js";
import { span, trace } from "./helpers.js";

const chunks = [
  { at: 0.3, in: "a@", held: 2, out: "" },
  { at: 0.4, in: "b.c ", held: 0, out: "[MAIL] " },
];
const run = trace([
  span({ id: 0, kind: "run", path: "", at: 0, seconds: 1 }),
  span({ id: 1, parent: 0, kind: "stage", path: "", at: 0, seconds: 1 }),
  span({ id: 2, parent: 1, path: "a", at: 0, seconds: 0.2 }),
  span({ id: 3, parent: 1, path: "b", at: 0.2, seconds: 0.8, chunks }),
  span({ id: 4, parent: 1, path: "c", status: "skipped", at: 0.2, seconds: 0 }),
]);

test("moments stand in the order of time, parents around their children, and what did not run has an end only", () => {
  const said = momentsOf(run).map(({ what, span: one }) => `${what} ${one.id}`);
  assert.deepEqual(said, ["start 1", "start 2", "end 2", "start 3", "end 4", "chunk 3", "chunk 3", "end 3", "end 1"]);
});

test("a step that took no time starts before it ends", () => {
  const said = momentsOf(trace([span({ seconds: 0 }), span({ id: 1, seconds: 0 })])).map(
    (one) => `${one.what} ${one.span.id}`,
  );
  assert.deepEqual(said, ["start 0", "end 0", "start 1", "end 1"]);
});

test("what has passed is named as marks name it", () => {
  assert.deepEqual([...passedAt(momentsOf(run), 5)], ["start 1", "start 2", "end 2", "start 3", "end 4"]);
  assert.equal(passedAt(momentsOf(run), 7).size, 5, "chunks are no moments of a mark");
  assert.equal(passedAt(momentsOf(run), 0).size, 0);
});

test("a stream shows what came in, is held, and left", () => {
  const stream = span({ chunks });
  assert.deepEqual(streamAt(stream, 1), { taken: "a@", held: 2, left: "", chunk: chunks[0] });
  assert.deepEqual(streamAt(stream, 2), { taken: "a@b.c ", held: 0, left: "[MAIL] ", chunk: chunks[1] });
});
