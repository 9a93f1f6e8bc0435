"use strict";
// Follows the runs: progress every two seconds, and the results in place whenever the store has newer ones.
(() => {
  const SECONDS_BETWEEN = 2;
  const QUIET = ["finished", "waiting"]; // runs without news, folded away
  const byId = (id) => document.getElementById(id);
  const title = document.title, here = location.pathname;
  let version = document.documentElement.dataset.version;

  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    node.textContent = text ?? "";
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const duration = (s) => {
    if (s === null) return "";
    if (s < 90) return `${s.toFixed(0)} s`;
    return s < 5400 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(1)} h`;
  };

  // ---- progress ----------------------------------------------------------------------------------------
  const COLUMNS = [
    ["run", (run) => `${run.label} seed ${run.seed}`],
    ["status", (run) => run.status],
    ["step", (run) => (run.step === null ? "" : run.total === null ? `${run.step}` : `${run.step}/${run.total}`)],
    ["doing", (run) => run.phase],
    ["reward", (run) => (run.reward === null ? "" : run.reward.toFixed(3))],
    ["left", (run) => duration(run.seconds_left)],
    ["what went wrong", (run) => run.problem],
  ];

  function table(runs, name) {
    const columns = COLUMNS.filter(([, text]) => runs.some(text));
    const head = make("tr"), body = make("tbody"), top = make("thead"), whole = make("table", null, { class: "left" });
    columns.forEach(([name]) => head.append(make("th", name, { scope: "col" })));
    for (const run of runs) {
      const row = make("tr", null, { class: run.status, title: run.run_id });
      columns.forEach(([column, text], i) => {
        const cell = i ? make("td", null, { "data-label": column }) : make("th", text(run), { scope: "row" });
        if (i) cell.append(make("span", text(run)));
        row.append(cell);
      });
      body.append(row);
    }
    top.append(head);
    whole.append(top, body);
    const box = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": name });
    box.append(whole);
    return box;
  }

  function tell(now) {
    const open = now.runs.filter((run) => !QUIET.includes(run.status));
    const rest = now.runs.filter((run) => QUIET.includes(run.status));
    const counts = Object.entries(now.counts).map(([status, count]) => `${count} ${status}`).join(", ");
    const line = now.error ?? (counts || "no runs");
    if (byId("progress-line").textContent !== line) byId("progress-line").textContent = line;
    byId("progress-bar").value = now.fraction;
    byId("progress-open").replaceChildren(...(open.length ? [table(open, "Runs at work or in trouble")] : []));
    const [summary, list] = byId("progress-rest").children;
    byId("progress-rest").hidden = !rest.length;
    summary.textContent = `Finished and waiting runs (${rest.length})`;
    list.replaceChildren(table(rest, "Finished and waiting runs"));
    document.title = now.runs.length ? `${now.counts.finished ?? 0}/${now.runs.length} ${title}` : title;
  }

  // ---- the reader's place ------------------------------------------------------------------------------
  const PARTS = "details, summary, .scroll";

  /** Change the page while what the reader looks at stays where it is on the screen. */
  function holding(change) {
    const places = [...document.querySelectorAll("main section[aria-labelledby]")].flatMap((section) =>
      [section, ...section.querySelectorAll(".scroll, figure, h3")].map((node, i) => ({ id: section.id, i, node })));
    const at = places.filter(({ node }) => node.getBoundingClientRect().top < 90).pop();
    const before = at?.node.getBoundingClientRect().top;
    change();
    if (!at) return;
    const section = byId(at.id);
    const node = at.node.isConnected ? at.node : [section, ...section.querySelectorAll(".scroll, figure, h3")][at.i] ?? section;
    scrollBy({ top: node.getBoundingClientRect().top - before, behavior: "instant" });
  }

  /** Put new content into an element; what was unfolded, scrolled or focused stays so. */
  function replace(old, fresh) {
    const kept = [...old.querySelectorAll(PARTS)].map((part) => [part.open, part.scrollLeft, part === document.activeElement]);
    old.replaceChildren(...fresh.childNodes);
    old.querySelectorAll(PARTS).forEach((part, i) => {
      const [open, left, focused] = kept[i] ?? [];
      if (open) part.open = true;
      if (left) part.scrollLeft = left;
      if (focused) part.focus({ preventScroll: true });
    });
  }

  // ---- newer results -----------------------------------------------------------------------------------
  const OWN = ["progress", "chart", "samples"]; // sections that scripts fill
  const sections = () => [...document.querySelectorAll("main > section")].filter(({ id }) => !OWN.includes(id));
  const seen = new Map(sections().map((section) => [section.id, section.innerHTML]));
  const arms = (text) => JSON.stringify(JSON.parse(text ?? "{}").arms);

  async function renew() {
    const answer = await fetch(here, { cache: "no-store" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const data = ["chart-data", "sample-data"].map((id) => [byId(id), fresh.getElementById(id)]);
    const parts = [...sections()].map((section) => [section, fresh.getElementById(section.id)]);
    const alike = [...data, ...parts].every(([old, now]) => !old === !now);
    if (!alike || fresh.getElementById("answer") === null || arms(data[0][0]?.textContent) !== arms(data[0][1]?.textContent)) {
      location.reload(); // another plan: nothing of this page stands
      return;
    }
    const picked = getSelection();
    let whole = true;
    holding(() => {
      for (const [section, now] of parts) {
        if (seen.get(section.id) === now.innerHTML) continue;
        if (!picked.isCollapsed && section.contains(picked.anchorNode)) { whole = false; continue; } // being copied
        seen.set(section.id, now.innerHTML);
        replace(section, now);
      }
      data.forEach(([old, now]) => { old.textContent = now.textContent; });
      document.dispatchEvent(new Event("results"));
    });
    if (whole) version = fresh.documentElement.dataset.version;
  }

  async function look() {
    const news = byId("progress-news");
    try {
      const answer = await fetch(`${here}.json`, { cache: "no-store" });
      if (!answer.ok) throw new Error(await answer.text());
      const now = await answer.json();
      holding(() => tell(now));
      if (now.version !== version) await renew();
      news.textContent = "";
    } catch (error) {
      if (!news.textContent) {
        const gone = error instanceof TypeError ? "nothing answers; start `harness view` again" : error.message;
        news.textContent = `No news since ${new Date().toLocaleTimeString()}: ${gone}`;
      }
    }
  }

  let waiting = null;
  async function follow() {
    clearTimeout(waiting);
    waiting = -1;
    const begun = performance.now();
    if (!document.hidden) await look();
    // As long as the page took, at least: whoever looks takes half of one core at most, the runs have the rest.
    waiting = setTimeout(follow, Math.max(1000 * SECONDS_BETWEEN, performance.now() - begun));
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting !== -1) follow(); });
  tell(JSON.parse(byId("progress-data").textContent));
  follow();
})();
