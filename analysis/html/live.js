"use strict";
// Asks the server for the version of the store, and loads the page again when it is another one; what was unfolded stays so.
(() => {
  const SECONDS_BETWEEN = 2, key = `open ${location.pathname}`;
  /** What unfolds, by its section and its place there: a newer page may have more of it elsewhere. */
  const parts = () => [...document.querySelectorAll("section")].flatMap(
    (section) => [...section.querySelectorAll("details")].map((part, i) => [`${section.id} ${i}`, part]),
  );
  const unfolded = JSON.parse(sessionStorage.getItem(key) ?? "[]");
  parts().forEach(([name, part]) => { if (unfolded.includes(name)) part.open = true; });

  async function look() {
    const begun = performance.now();
    try {
      if (document.hidden) return;
      const answer = await fetch("?version", { cache: "no-store" });
      document.body.classList.toggle("stale", !answer.ok);
      if (!answer.ok || await answer.text() === document.documentElement.dataset.version) return;
      if (!getSelection().isCollapsed || document.activeElement?.matches("#chart *, #samples *, :focus-visible")) return; // being copied, or in use
      sessionStorage.setItem(key, JSON.stringify(parts().filter(([, part]) => part.open).map(([name]) => name)));
      location.reload();
    } catch {
      document.body.classList.add("stale"); // nothing answers
    } finally {
      // As long as an answer took, at least: whoever looks takes half of one core at most, the runs have the rest.
      setTimeout(look, Math.max(1000 * SECONDS_BETWEEN, performance.now() - begun));
    }
  }
  look();
  const clock = document.createElement("span");
  document.querySelector("nav")?.append(clock);
  const tick = () => {
    const seconds = Math.round(performance.now() / 1000);
    clock.textContent = `updated ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} ago`;
  };
  tick();
  setInterval(tick, 1000);
})();
