/** Lets node find the modules of the pages by the names that an import map gives them in a browser. */

import { register } from "node:module";

const hooks = `
const FOLDERS = ${JSON.stringify({
  "penstock/": new URL("../../../penstock/pictures/page/", import.meta.url).href,
  "report/": new URL("../../../penstock/workflows/report/page/", import.meta.url).href,
  "studio/": new URL("../../../penstock/workflows/studio/page/", import.meta.url).href,
})};
export function resolve(name, context, next) {
  for (const [prefix, folder] of Object.entries(FOLDERS)) {
    if (name.startsWith(prefix)) return next(folder + name.slice(prefix.length), context);
  }
  return next(name, context);
}
export async function load(url, context, next) {
  const ours = Object.values(FOLDERS).some((folder) => url.startsWith(folder));
  return next(url, ours ? { ...context, format: "module" } : context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
