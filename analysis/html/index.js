"use strict";
// Sorts the list of experiments by a column, either way, and asks for a newer list every five seconds.
(() => {
  const SECONDS_BETWEEN = 5;
  const table = document.querySelector(".index");
  let column = null, down = false;

  const key = (row, i) => row.cells[i].dataset.sort ?? row.cells[i].textContent.trim();
  function order() {
    if (column === null) return;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => key(a, column).localeCompare(key(b, column), undefined, { numeric: true }));
    if (down) rows.reverse();
    table.tBodies[0].append(...rows);
  }

  table?.querySelectorAll("thead th").forEach((head, i, heads) => {
    head.querySelector("button").addEventListener("click", () => {
      down = column === i && !down;
      column = i;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      order();
    });
  });

  /** Take over rows that differ; a link that has the focus keeps it. */
  async function renew() {
    const answer = await fetch("/", { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".index tbody");
    const known = new Map([...(table?.tBodies[0].rows ?? [])].map((row) => [row.querySelector("a").href, row]));
    if (!fresh || [...fresh.rows].length !== known.size || [...fresh.rows].some((row) => !known.has(row.querySelector("a").href))) {
      if (fresh || known.size) location.reload(); // experiments came or went
      return;
    }
    for (const row of fresh.rows) {
      const old = known.get(row.querySelector("a").href);
      [...row.cells].forEach((cell, i) => { if (cell.outerHTML !== old.cells[i].outerHTML) old.cells[i].replaceWith(cell.cloneNode(true)); });
    }
    order();
  }

  setInterval(() => { if (!document.hidden) renew().catch(() => {}); }, 1000 * SECONDS_BETWEEN);
})();
