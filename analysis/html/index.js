"use strict";
// Draws the list of experiments, sorts it by a column, either way, and asks for a newer list every five seconds.
(() => {
  const SECONDS_BETWEEN = 5;
  const byId = (id) => document.getElementById(id);
  const table = document.querySelector(".index"), body = table.tBodies[0];
  let column = null, down = false, shown = "";

  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    node.textContent = text ?? "";
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const counts = (one) => Object.entries(one.counts).map(([status, count]) => `${count} ${status}`).join(", ");
  const nothing = (one) => (one.counts.finished ? "not written yet; its page computes it" : "no finished run yet");
  const KEYS = { Experiment: (one) => one.name, Answer: (one) => one.answer, State: (one) => one.fraction.toFixed(4) };

  function row(one) {
    const line = make("tr"), name = make("th", null, { scope: "row" });
    name.append(make("a", one.name, { href: encodeURIComponent(one.name) }), make("br"), make("small", one.title));
    const answer = make("td", null, { class: "long", "data-label": "Answer" });
    answer.append(make("span"));
    answer.firstChild.append(one.answer || make("em", nothing(one)));
    const state = make("td", null, { "data-label": "State" });
    state.append(make("span"));
    const bar = make("progress", null, { max: 1, value: one.fraction, "aria-label": "Share of all steps" });
    state.firstChild.append(bar, make("br"), one.error ?? (counts(one) || "no runs"));
    line.append(name, answer, state);
    return line;
  }

  /** Draw the list anew if it or its order has changed; a link that has the focus keeps it. */
  function draw(list) {
    const key = Object.values(KEYS)[column ?? 0];
    const sorted = [...list].sort((a, b) => (column === null ? 0 : key(a).localeCompare(key(b), undefined, { numeric: true })));
    if (down) sorted.reverse();
    if (shown === JSON.stringify(sorted)) return;
    shown = JSON.stringify(sorted);
    const focus = body.contains(document.activeElement) ? document.activeElement.href : null;
    body.replaceChildren(...sorted.map(row));
    [...body.querySelectorAll("a")].find((link) => link.href === focus)?.focus({ preventScroll: true });
    table.hidden = !list.length;
    byId("index-empty").hidden = Boolean(list.length);
  }

  const read = (from) => JSON.parse(from.getElementById("index-data").textContent);
  let list = read(document);
  const heads = Object.keys(KEYS).map((name, i) => {
    const head = make("th", null, { scope: "col", "aria-sort": "none" }), button = make("button", name, { type: "button" });
    button.addEventListener("click", () => {
      down = column === i && !down;
      column = i;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      draw(list);
    });
    head.append(button);
    return head;
  });
  table.tHead.append(make("tr"));
  table.tHead.rows[0].append(...heads);
  draw(list);

  async function renew() {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    list = read(new DOMParser().parseFromString(await answer.text(), "text/html"));
    draw(list);
  }
  setInterval(() => { if (!document.hidden) renew().catch(() => {}); }, 1000 * SECONDS_BETWEEN);
})();
