/** The key `/` of a page: it goes to the search. */

/** Go to the first search of the page when `/` is pressed, unless the reader is writing. */
export function searchOnSlash() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
    const search = document.querySelector('input[type="search"]');
    if (!(search instanceof HTMLInputElement)) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
}
