import assert from "node:assert/strict";
import { test } from "node:test";
import { clamp, fitScale, zoomedOffset } from "penstock/zoom.js";

test("a large picture is made to fit, and a small one keeps its size", () => {
  assert.equal(fitScale({ width: 1000, height: 400 }, { width: 500, height: 400 }), 0.5);
  assert.equal(fitScale({ width: 100, height: 40 }, { width: 500, height: 400 }), 1);
});

test("zooming has its limits", () => {
  assert.equal(clamp(1e9), 8);
  assert.equal(clamp(0), 0.05);
});

test("what was under the pointer is there again after zooming", () => {
  const [offset, at, before, after] = [120, 80, 1, 2.5];
  assert.equal((zoomedOffset(offset, at, before, after) + at) / after, (offset + at) / before);
});
