/** A form for the options and the policy of a step, made of its signature. */

import { html, nothing } from "lit-html";
import { count, visible } from "penstock/format.js";
import { sorted } from "./options-model.js";
import { prose } from "./prose.js";

/** @typedef {import("./types.js").Field} Field */
/** @typedef {"options" | "policy"} Group */

/**
 * @typedef {object} FormProps
 * @property {string} path of the step
 * @property {Group} group
 * @property {Field[]} fields
 * @property {Record<string, unknown>} changes by the name of an option
 * @property {Map<string, string>} errors by the name of an option
 * @property {(name: string, value: unknown) => void} change
 * @property {(name: string) => void} reset
 * @property {(name: string, message: string) => void} refuse tells that what was written cannot be read
 */

/** @param {FormProps} props */
export function optionsForm(props) {
  const { first, rest } = sorted(props.fields.filter((field) => field.kind !== "fixed"));
  const touched = rest.filter(({ name }) => Object.hasOwn(props.changes, name) || props.errors.has(name)).length;
  const fixed = props.fields.filter((field) => field.kind === "fixed");
  return html`<div class="form" role="group" aria-label=${props.group === "options" ? "Options" : "Policy"}>
    ${first.map((field) => fieldRow(field, props))}
    ${
      rest.length
        ? html`<details class="more-options" ?open=${touched > 0}><summary>${count(rest.length, "more option")}${touched ? `, ${touched} changed` : nothing}</summary>
          ${rest.map((field) => fieldRow(field, props))}
        </details>`
        : nothing
    }
    ${
      fixed.length
        ? html`<details class="fixed"><summary>${fixed.length} that can only be set in code</summary>
          <dl>${fixed.map((field) => html`<dt><code>${field.name}</code></dt><dd>${visible(field.why_not ?? field.type)}</dd>`)}</dl>
        </details>`
        : nothing
    }
  </div>`;
}

/**
 * @param {Field} field
 * @param {FormProps} props
 */
function fieldRow(field, props) {
  const { changes, errors, reset } = props;
  const changed = Object.hasOwn(changes, field.name);
  const id = `${props.group}-${props.path}-${field.name}`;
  const error = errors.get(field.name);
  const about = [field.doc ? `${id}-doc` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return html`<div class="option ${changed ? "changed" : ""}" role=${isGroup(field) ? "group" : nothing} aria-labelledby=${isGroup(field) ? `${id}-label` : nothing}>
    <div class="head">
      ${
        isGroup(field)
          ? html`<span class="label" id="${id}-label">${field.name}</span>`
          : html`<label class="label" for=${id}>${field.name}</label>`
      }
      <span class="type">${visible(field.type ?? "")}</span>
      ${
        changed
          ? html`<button type="button" class="quiet small" aria-label="Reset ${field.name}" @click=${() => reset(field.name)}>Reset</button>`
          : nothing
      }
    </div>
    ${control(field, changed ? changes[field.name] : field.value, { ...props, id, about, invalid: error !== undefined })}
    ${field.doc ? html`<p class="doc" id="${id}-doc">${prose(field.doc)}</p>` : nothing}
    ${error ? html`<p class="error" id="${id}-error" role="alert">${visible(error)}</p>` : nothing}
  </div>`;
}

/** @param {Field} field */
function isGroup(field) {
  return field.kind === "choices";
}

/** @typedef {FormProps & {id: string, about: string, invalid: boolean}} ControlProps */

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {ControlProps} props
 */
function control(field, value, props) {
  const { id, about, change } = props;
  const set = (/** @type {unknown} */ to) => change(field.name, to);
  switch (field.kind) {
    case "bool":
      return field.nullable
        ? choice([true, false], field, value, props)
        : html`<input type="checkbox" class="switch" id=${id} aria-describedby=${about || nothing}
        .checked=${value === true} @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => set(event.currentTarget.checked)}>`;
    case "choice":
      return choice(field.choices ?? [], field, value, props);
    case "choices":
      return choices(field, value, set);
    case "int":
    case "float":
      return number(field, value, props);
    case "text":
      return text(field, value, props);
    default:
      return written(field, value, props);
  }
}

/**
 * @param {unknown[]} values
 * @param {Field} field
 * @param {unknown} value
 * @param {ControlProps} props
 */
function choice(values, field, value, { id, about, change }) {
  const all = field.nullable && !values.includes(null) ? [null, ...values] : values;
  const at = all.findIndex((one) => same(one, value));
  return html`<select id=${id} aria-describedby=${about || nothing}
    @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => change(field.name, all[Number(event.currentTarget.value)])}>
    ${at < 0 ? html`<option value="-1" selected disabled>${JSON.stringify(value)}</option>` : nothing}
    ${all.map((one, index) => html`<option value=${index} .selected=${index === at}>${named(one)}</option>`)}
  </select>`;
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {(value: unknown) => void} set
 */
function choices(field, value, set) {
  const chosen = Array.isArray(value) ? value : [];
  const toggle = (/** @type {unknown} */ one) =>
    set(
      chosen.includes(one)
        ? chosen.filter((other) => other !== one)
        : (field.choices ?? []).filter((other) => other === one || chosen.includes(other)),
    );
  return html`<div class="choices">
    ${(field.choices ?? []).map((one) => html`<label><input type="checkbox" .checked=${chosen.includes(one)} @change=${() => toggle(one)}> ${named(one)}</label>`)}
  </div>`;
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {ControlProps} props
 */
function number(field, value, { id, about, invalid, change, refuse }) {
  return html`<input type="text" inputmode="decimal" id=${id} aria-describedby=${about || nothing} aria-invalid=${invalid ? "true" : nothing}
    placeholder=${field.nullable ? "none" : nothing} .value=${value === null || value === undefined ? "" : String(value)}
    @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => {
      const written = event.currentTarget.value.trim().replaceAll("_", "");
      const parsed = Number(written);
      if (written === "" && field.nullable) change(field.name, null);
      else if (written === "" || !Number.isFinite(parsed)) refuse(field.name, "Write a number.");
      else if (field.kind === "int" && !Number.isInteger(parsed)) refuse(field.name, "Write a whole number.");
      else change(field.name, parsed);
    }}>`;
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {ControlProps} props
 */
function text(field, value, { id, about, invalid, change }) {
  const words = typeof value === "string" ? value : "";
  const commit = (/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => {
    const written = event.currentTarget.value;
    change(field.name, written === "" && field.nullable ? null : written);
  };
  if (field.secret) {
    return html`<input type="password" id=${id} autocomplete="off" aria-describedby=${about || nothing}
      placeholder="unchanged" @change=${commit}>`;
  }
  return html`<textarea id=${id} rows=${Math.min(6, 1 + Math.floor(words.length / 44))} dir="auto" spellcheck="false"
    aria-describedby=${about || nothing} aria-invalid=${invalid ? "true" : nothing}
    placeholder=${field.nullable ? "none" : nothing} .value=${words} @change=${commit}></textarea>`;
}

/**
 * A list, one item a line; or any value, as JSON.
 *
 * @param {Field} field
 * @param {unknown} value
 * @param {ControlProps} props
 */
function written(field, value, { id, about, invalid, change, refuse }) {
  const list = field.kind === "list" && (value === null || value === undefined || isFlat(value));
  const words =
    value === null || value === undefined
      ? ""
      : list
        ? /** @type {unknown[]} */ (value).join("\n")
        : JSON.stringify(value, null, 2);
  return html`<textarea id=${id} class="code" rows=${Math.min(8, Math.max(2, words.split("\n").length))} spellcheck="false"
    placeholder=${list ? "one a line" : "JSON"} aria-describedby=${about || nothing} aria-invalid=${invalid ? "true" : nothing} .value=${words}
    @change=${(/** @type {Event & {currentTarget: HTMLTextAreaElement}} */ event) => {
      const text = event.currentTarget.value;
      if (text.trim() === "" && field.nullable) change(field.name, null);
      else {
        try {
          change(field.name, list ? lines(text, field.items ?? "text") : JSON.parse(text));
        } catch (error) {
          refuse(field.name, `This cannot be read: ${error instanceof Error ? error.message : error}`);
        }
      }
    }}></textarea>`;
}

/**
 * @param {string} text
 * @param {"text" | "int" | "float"} items
 */
function lines(text, items) {
  const written = text.split("\n").filter((line) => line !== "");
  if (items === "text") return written;
  return written.map((line) => {
    const number = Number(line);
    if (!Number.isFinite(number)) throw new TypeError(`${line} is no number`);
    return number;
  });
}

/** @param {unknown} value */
function isFlat(value) {
  return (
    Array.isArray(value) &&
    value.every((one) => typeof one === "number" || (typeof one === "string" && !one.includes("\n")))
  );
}

/**
 * @param {unknown} a
 * @param {unknown} b
 */
function same(a, b) {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** @param {unknown} value */
function named(value) {
  if (value === null) return "none";
  if (value === true) return "yes";
  if (value === false) return "no";
  return typeof value === "string" ? visible(value) : JSON.stringify(value);
}
