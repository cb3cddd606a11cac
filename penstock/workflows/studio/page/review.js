/** The page on which rows are labelled, with one key each. Every label is saved at once, in the file of the rows. */

import { ask } from "studio/api.js";
import { labelled, meaningOf, nextUnlabelled, reasonOf } from "studio/review-model.js";

/** @typedef {import("studio/review-model.js").ReviewRow} ReviewRow */

const place = /** @type {HTMLElement} */ (document.getElementById("review"));

/** @type {{file: string, rows: ReviewRow[], at: number, problem: string, saving: boolean}} */
const state = { file: "", rows: [], at: 0, problem: "", saving: false };

/**
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 */
function made(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/**
 * Save a label, and go to the next row without one.
 *
 * @param {boolean | null} label
 */
async function save(label) {
  const row = state.rows[state.at];
  if (!row || state.saving) return;
  state.saving = true;
  try {
    await ask("POST", "review", { number: row.number, id: row.id ?? null, label });
    row.label = label;
    state.problem = "";
    const next = label === null ? state.at : nextUnlabelled(state.rows, state.at);
    if (next >= 0) state.at = next;
  } catch (error) {
    state.problem = error instanceof Error ? error.message : String(error);
  }
  state.saving = false;
  show();
}

/** @param {"next" | "back"} where */
function move(where) {
  const count = state.rows.length;
  state.at = (state.at + (where === "next" ? 1 : count - 1)) % count;
  show();
}

/**
 * @param {string} words
 * @param {string} key
 * @param {boolean} pressed
 * @param {() => void} chosen
 */
function choice(words, key, pressed, chosen) {
  const button = made("button", { type: "button", "aria-pressed": String(pressed) }, words, made("kbd", {}, key));
  button.addEventListener("click", chosen);
  return button;
}

/** @param {ReviewRow} row */
function article(row) {
  const reason = reasonOf(row);
  const texts = row.texts.flatMap((one) => [
    ...(one.role ? [made("p", { class: "role" }, one.role)] : []),
    made("pre", { tabindex: "0" }, one.text),
  ]);
  const name = `Row ${state.at + 1} of ${state.rows.length}${row.id === null ? "" : `, id ${String(row.id)}`}`;
  return made(
    "article",
    { "aria-label": name },
    made("p", { class: "why" }, reason ? `${name}: ${reason}` : name),
    ...texts,
  );
}

function show() {
  const focused = document.activeElement instanceof HTMLButtonElement ? document.activeElement.textContent : null;
  const done = labelled(state.rows);
  const bar = made("progress", { max: String(state.rows.length), value: String(done), "aria-label": "labelled rows" });
  const told = made("span", { role: "status" }, `${done} of ${state.rows.length} labelled`);
  const parts = [made("h1", {}, "Is there something to find?"), made("div", { class: "progress" }, bar, told)];
  if (state.problem) parts.push(made("p", { class: "problem", role: "alert" }, state.problem));
  const row = state.rows[state.at];
  if (row) {
    const choices = made(
      "div",
      { class: "choices" },
      choice("Yes", "y", row.label === true, () => void save(true)),
      choice("No, nothing", "n", row.label === false, () => void save(false)),
      choice("No label", "x", false, () => void save(null)),
      choice("Skip", "s", false, () => move("next")),
      choice("Back", "u", false, () => move("back")),
    );
    parts.push(choices, article(row));
  }
  const end =
    done === state.rows.length
      ? "All rows have a label. Evaluate them: "
      : "Labels are saved at once. Evaluate the file: ";
  parts.push(made("p", {}, end, made("code", {}, `penstock eval WORKFLOW ${state.file}`)));
  place.replaceChildren(...parts);
  const again = [...place.querySelectorAll("button")].find((button) => button.textContent === focused);
  again?.focus(); // the buttons are new ones, and who tabs to one goes on from there
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || state.rows.length === 0) return;
  const meaning = meaningOf(event.key);
  if (meaning === undefined) return;
  event.preventDefault();
  if (meaning === "next" || meaning === "back") move(meaning);
  else void save(meaning);
});

try {
  const found = await ask("GET", "review");
  state.file = found.file;
  state.rows = found.rows;
  state.at = Math.max(0, nextUnlabelled(state.rows, -1));
  show();
} catch (error) {
  place.replaceChildren(
    made("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)),
  );
}
