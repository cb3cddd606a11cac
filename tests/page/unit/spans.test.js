import assert from "node:assert/strict";
import { test } from "node:test";
import { changeOf, placesOf, segmentsOf, streamPieces } from "penstock/spans.js";

const edit = { message: "m", part: 0, field: "text", start: 2, end: 5, kind: "redact", replacement: "[X]" };

test("a text is cut at its places, counted in code points", () => {
  assert.deepEqual(segmentsOf("😀 ann!", [{ start: 2, end: 5, kind: "redact" }]), [
    { text: "😀 ", kind: "" },
    { text: "ann", kind: "redact" },
    { text: "!", kind: "" },
  ]);
});

test("places outside the text or out of order lose no character and double none", () => {
  const places = [
    { start: 1, end: 4, kind: "a" },
    { start: 2, end: 99, kind: "b" },
    { start: -3, end: 1, kind: "c" },
  ];
  assert.equal(
    segmentsOf("abcdef", places)
      .map((piece) => piece.text)
      .join(""),
    "abcdef",
  );
});

test("the places after the edits are moved by what the edits before them added or took", () => {
  const later = { ...edit, start: 8, end: 8, kind: "insert", replacement: "++" };
  const longer = { ...edit, replacement: "[MAIL]" };
  assert.deepEqual(placesOf({ message: "m", part: 0 }, [later, longer]), {
    before: [
      { start: 2, end: 5, kind: "redact" },
      { start: 8, end: 8, kind: "insert" },
    ],
    after: [
      { start: 2, end: 8, kind: "redact" },
      { start: 11, end: 13, kind: "insert" },
    ],
  });
});

test("edits of other messages, parts and fields are not of this text", () => {
  const others = [
    { ...edit, message: "n" },
    { ...edit, part: 1 },
    { ...edit, field: "metadata" },
  ];
  assert.deepEqual(placesOf({ message: "m", part: 0 }, others), { before: [], after: [] });
});

test("without edits, what differs is what stands between the common start and end", () => {
  const place = (/** @type {number} */ start, /** @type {number} */ end) => [{ start, end, kind: "replace" }];
  assert.deepEqual(changeOf("to 😀 ann!", "to 😀 [X]!"), { before: place(5, 8), after: place(5, 8) });
  assert.deepEqual(changeOf("aa", "aaa"), { before: place(2, 2), after: place(2, 3) });
  assert.deepEqual(changeOf("same", "same"), { before: place(4, 4), after: place(4, 4) });
});

test("of a stream one sees what the last chunk added, and what is held", () => {
  const said = (/** @type {[string, number, number]} */ ...given) =>
    streamPieces(...given).map((piece) => `${piece.text}${piece.added ? "+" : ""}${piece.held ? "!" : ""}`);
  assert.deepEqual(said("to ann@x", 2, 5), ["to ", "ann!", "@x+!"]);
  assert.deepEqual(said("to ann@x", 6, 2), ["to", " ann+", "@x+!"]);
  assert.deepEqual(said("all", 3, 0), ["all+"]);
  assert.deepEqual(said("a😀", 0, 1), ["a", "😀!"]);
  assert.deepEqual(said("", 0, 4), []);
});
