import assert from "node:assert/strict";
import { test } from "node:test";
import { labelled, meaningOf, nextUnlabelled, reasonOf } from "studio/review-model.js";

/** @param {(boolean | null)[]} labels */
const rows = (...labels) => labels.map((label, number) => ({ number, id: number, label, texts: [], review: {} }));

test("the next row without a label comes behind the one that is shown, then from the top", () => {
  assert.equal(nextUnlabelled(rows(null, true, null), 0), 2);
  assert.equal(nextUnlabelled(rows(null, true, true), 1), 0);
  assert.equal(nextUnlabelled(rows(true, false), 0), -1);
  assert.equal(nextUnlabelled(rows(null), -1), 0);
  assert.equal(nextUnlabelled([], 0), -1);
});

test("a row that is labelled as nothing has a label", () => {
  assert.equal(labelled(rows(true, false, null)), 2);
});

test("each key is a label or a move; others are nothing", () => {
  assert.deepEqual(["y", "n", "x", "s", "u", "q"].map(meaningOf), [true, false, null, "next", "back", undefined]);
});

test("the reason says what the guard did, and how sure it was", () => {
  const review = { step: "judge", score: 0.51234, flagged: true, found: "hate" };
  assert.equal(reasonOf({ ...rows(null)[0], review }), "flagged as hate, score 0.512 of judge");
  assert.equal(reasonOf(rows(null)[0]), "");
});
