import assert from "node:assert/strict";
import { test } from "node:test";
import { count, duration, rounded, stageWord, visible } from "penstock/format.js";

test("durations have the unit in which they are short", () => {
  const said = [0, 0.000_0123, 0.001_23, 0.012_3, 0.9, 1234.5].map(duration);
  assert.deepEqual(said, ["0 µs", "12 µs", "1.23 ms", "12.3 ms", "900.0 ms", "1,234.50 s"]);
});

test("durations at the edge of a unit do not become 1000 of it", () => {
  assert.equal(duration(0.009_999), "10.0 ms");
  assert.equal(duration(0.999_99), "1.00 s");
});

test("counts have their noun in the right number", () => {
  assert.deepEqual(
    [count(1, "edit"), count(2000, "edit"), count(2, "entry", "entries")],
    ["1 edit", "2,000 edits", "2 entries"],
  );
});

test("what is not printable is shown by a sign, and lines and tabs stay", () => {
  assert.equal(visible("a\n\tb\x1b[31m\u202e\u2028\ud800\u200b"), "a\n\tb␛[31m⟨U+202E⟩⟨U+2028⟩⟨U+D800⟩⟨U+200B⟩");
  assert.equal(visible("😀 é </script>"), "😀 é </script>");
});

test("stages are named without their common prefix", () => {
  assert.equal(stageWord("process_output_step"), "output_step");
});

test("numbers have three significant digits, and whole ones all of theirs", () => {
  assert.equal(rounded(0.8734567890123456), "0.873");
  assert.equal(rounded(0.30000000000000004), "0.3");
  assert.equal(rounded(123.456), "123");
  assert.equal(rounded(0.000000123456), "1.23e-7");
  assert.equal(rounded(1234567), "1234567");
  assert.equal(rounded(-0.99999), "-1");
});
