/** The page of one workflow, as `workflow.draw("html")` makes it: reads the data of the file, and shows it. */

import { html, render } from "lit-html";
import { readData, takePicture } from "penstock/data.js";
import { visible } from "penstock/format.js";
import { searchOnSlash } from "penstock/search-key.js";
import { View } from "penstock/view.js";

/** @typedef {{trace: import("./types.js").Trace | null, marks: import("./types.js").RunMarks | null}} Ran */
/** @typedef {import("./types.js").WorkflowInfo & Ran} Data */

const data = /** @type {Data} */ (readData("data"));
const { host, svg } = takePicture();
const view = new View(svg, data, show);
let shown = false;

function show() {
  if (!shown) return;
  render(
    html`<header><h1>${visible(data.name)}</h1>
        ${data.stage ? html`<p>at ${data.stage}</p>` : ""} ${view.tools()}</header>
      <main>${view.template()}</main>`,
    host,
  );
}

shown = true;
view.show(data.trace, data.marks);
view.picture.fit();
searchOnSlash();
