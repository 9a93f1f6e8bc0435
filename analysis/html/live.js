"use strict";
// Asks the server for the version of the store, and loads the page again when it is another one; what was unfolded stays so.
(() => {
  const SECONDS_BETWEEN = 2, key = `open ${location.pathname}`;
  const parts = () => [...document.querySelectorAll("details")];
  const kept = JSON.parse(sessionStorage.getItem(key) ?? "[]");
  parts().forEach((part, i) => { if (kept[i]) part.open = true; });

  async function look() {
    const begun = performance.now();
    try {
      if (document.hidden) return;
      const answer = await fetch("?version", { cache: "no-store" });
      document.body.classList.toggle("stale", !answer.ok);
      if (!answer.ok || await answer.text() === document.documentElement.dataset.version) return;
      if (!getSelection().isCollapsed) return; // being copied
      sessionStorage.setItem(key, JSON.stringify(parts().map((part) => part.open)));
      location.reload();
    } catch {
      document.body.classList.add("stale"); // nothing answers
    } finally {
      // As long as an answer took, at least: whoever looks takes half of one core at most, the runs have the rest.
      setTimeout(look, Math.max(1000 * SECONDS_BETWEEN, performance.now() - begun));
    }
  }
  look();
})();
