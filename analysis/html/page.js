"use strict";
// Model output only ever reaches the page through textContent.
(() => {
  const byId = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(byId(id).textContent);
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const STYLES = { none: "solid", "2 3": "dotted" };
  const key = (arm) => make("i", "", { class: "key", style: `border-color:${arm.colour};border-top-style:${STYLES[arm.dash] ?? "dashed"}` });
  const option = (select, text, value) => select.append(make("option", text, { value }));
  const short = (v) => {
    if (v === null || v === undefined) return "–";
    const size = Math.abs(v);
    if (size >= 1e6) return `${+(v / 1e6).toPrecision(4)}M`;
    if (size >= 1e4) return `${+(v / 1e3).toPrecision(4)}k`;
    return String(+v.toPrecision(4));
  };
  /** A value of an axis beside its others: all have two digits behind the point where some are above 1. */
  const exact = (axis, v) => {
    const two = v !== null && Math.abs(v) < 1e4 && axis.lines.some(({ mean }) => mean.some((one) => Math.abs(one) >= 1));
    return (two ? v.toFixed(2) : short(v)).replace(/^-/, "−");
  };
  // A section that is folded opens when its link is followed.
  const unfold = (hash) => byId(hash.slice(1))?.querySelector(":scope > details")?.setAttribute("open", "");
  document.querySelector("nav")?.addEventListener("click", (event) => { if (event.target.hash) unfold(event.target.hash); });
  unfold(location.hash);

  // ---- chart -------------------------------------------------------------------------------------------
  /** A colour of a light page, and what it is on a dark one: lightness turned round, hue kept. */
  const onBoth = (hex) => {
    const [r, g, b] = [1, 3, 5].map((i) => 0.9 - (0.8 * parseInt(hex.slice(i, i + 2), 16)) / 255);
    const grey = 2 * (0.213 * r + 0.715 * g + 0.072 * b);
    return `light-dark(${hex}, rgb(${[r, g, b].map((v) => Math.round(255 * (grey - v))).join(" ")}))`;
  };
  const readCharts = () => {
    const { arms, charts } = read("chart-data");
    // While runs have one evaluation, what has a curve comes first.
    const curved = ({ axes }) => Object.values(axes)[0].some(({ x }) => x.length > 1);
    charts.sort((a, b) => curved(b) - curved(a));
    return {
      arms: arms.map((arm) => ({ ...arm, colour: onBoth(arm.colour) })),
      charts: charts.map(({ title, margin, axes }) => ({ title, margin, axes: Object.entries(axes).map(([label, lines]) => ({ label, lines, log: label === "k" })) })),
    };
  };
  const { arms, charts } = readCharts();
  document.querySelectorAll("[data-arm]").forEach((place) => place.replaceWith(key(arms[+place.dataset.arm])));
  const plot = byId("chart-plot"), quantity = byId("chart-quantity"), against = byId("chart-axis");
  const box = { left: 62, right: 745, top: 26, bottom: 350 };
  const shown = arms.map(() => true);
  const bands = byId("chart-bands");
  const margin = () => charts[+quantity.value]?.margin; // of a difference; zero where none was declared
  let range = null, cursor = null, brush = null, scale = null;

  const current = () => charts[+quantity.value]?.axes[+against.value];
  const toX = (axis, v) => (axis.log ? Math.log2(v) : v);
  /** What is drawn beside the chosen axis: tokens, or steps beside tokens; none for a quantity without them. */
  const other = () => {
    const axes = charts[+quantity.value]?.axes ?? [], tokens = axes.find(({ label, lines }) => label.startsWith("generated tokens") && lines.some(({ x }) => x.length > 1));
    return current() === tokens ? axes[0] : tokens;
  };
  const visible = (axis = current()) => {
    const lines = axis?.lines ?? [];
    return lines.map((line, i) => ({ line, i })).filter(({ line, i }) => shown[i] && line.x.length);
  };

  function extent(axis, lines, zoomed) {
    const xs = lines.flatMap(({ line }) => line.x.map((v) => toX(axis, v)));
    const [x0, x1] = zoomed || [Math.min(...xs), Math.max(...xs)];
    const ys = margin() === undefined ? [] : [-margin(), margin()];
    for (const { line } of lines) {
      line.x.forEach((v, j) => {
        const x = toX(axis, v);
        if (x < x0 || x > x1) return;
        const around = bands.checked ? [line.low[j], line.high[j]] : [];
        for (const y of [line.mean[j], ...around]) if (y !== null) ys.push(y);
      });
    }
    let [y0, y1] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
    const pad = (y1 - y0 || Math.abs(y1) || 1) * 0.05;
    return { x0, x1: x1 > x0 ? x1 : x0 + 1, y0: y0 - pad, y1: y1 + pad };
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const found = [], last = high / step + 1e-9;
    for (let i = Math.ceil(low / step); i <= last && found.length < 20; i++) found.push(+(i * step).toPrecision(12));
    return found;
  }

  /** Draw the lines against this axis; return the scale, null without a line. */
  function paint(plot, axis, zoomed) {
    plot.replaceChildren();
    const lines = visible(axis);
    if (!lines.length) {
      plot.append(svg("text", { x: 380, y: 190, "text-anchor": "middle" }, "no data for the arms selected"));
      return null;
    }
    const e = extent(axis, lines, zoomed);
    const px = (x) => box.left + ((x - e.x0) / (e.x1 - e.x0)) * (box.right - box.left);
    const py = (y) => box.bottom - ((y - e.y0) / (e.y1 - e.y0)) * (box.bottom - box.top);
    for (const y of ticks(e.y0, e.y1, 6)) {
      plot.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: py(y), y2: py(y) }));
      plot.append(svg("text", { x: box.left - 6, y: py(y) + 4, "text-anchor": "end" }, short(y).replace("-", "−")));
    }
    const xticks = axis.log ? lines[0].line.x.map((v) => Math.log2(v)) : ticks(e.x0, e.x1, 7);
    for (const x of xticks.filter((v) => v >= e.x0 && v <= e.x1)) {
      plot.append(svg("line", { class: "grid", x1: px(x), x2: px(x), y1: box.top, y2: box.bottom }));
      const label = short(axis.log ? 2 ** x : x);
      plot.append(svg("text", { x: px(x), y: box.bottom + 17, "text-anchor": "middle" }, label));
    }
    const clip = svg("clipPath", { id: `inside-${plot.id}` });
    const size = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
    clip.append(svg("rect", size));
    const group = svg("g", { "clip-path": `url(#inside-${plot.id})` });
    plot.append(clip, svg("rect", { class: "frame", ...size }), group);
    plot.append(svg("text", { x: 400, y: 388, "text-anchor": "middle" }, axis.label));
    plot.append(svg("text", { x: box.left, y: 16 }, charts[+quantity.value].title));
    if (margin() !== undefined) {
      group.append(svg("rect", { class: "margin", ...size, y: py(margin()), height: py(-margin()) - py(margin()) }));
      group.append(svg("line", { class: "zero", x1: box.left, x2: box.right, y1: py(0), y2: py(0) }));
    }
    for (const { line, i } of lines) {
      const points = line.x.map((v, j) => ({ x: px(toX(axis, v)), j }));
      const path = (values, list) => list.map(({ x, j }) => `${x.toFixed(1)},${py(values[j]).toFixed(1)}`);
      const banded = points.filter(({ j }) => line.low[j] !== null);
      if (bands.checked && banded.length > 1) {
        const around = [...path(line.low, banded), ...path(line.high, [...banded].reverse())];
        group.append(svg("polygon", { points: around.join(" "), fill: arms[i].colour, opacity: 0.15 }));
      }
      const known = points.filter(({ j }) => line.mean[j] !== null);
      const attributes = {
        fill: "none", stroke: arms[i].colour, "stroke-width": 2, "stroke-dasharray": arms[i].dash,
      };
      group.append(svg("polyline", { points: path(line.mean, known).join(" "), ...attributes }));
      for (const { x, j } of known.length > 12 ? known.slice(-1) : known) {
        if (x < box.left - 1 || x > box.right + 1) continue;
        plot.append(svg("circle", { cx: x, cy: py(line.mean[j]), r: 3.5, fill: arms[i].colour }));
      }
    }
    return { ...e, px, py, axis };
  }

  function draw() {
    const axis = current(), beside = other(), twin = byId("chart-twin");
    scale = paint(plot, axis, range);
    twin.style.display = beside && scale ? "" : "none";
    if (beside && scale) paint(twin, beside, null);
    if (!scale) return;
    const px = scale.px;
    if (brush) {
      const [a, b] = [Math.min(...brush), Math.max(...brush)];
      plot.append(svg("rect", { class: "brush", x: a, y: box.top, width: b - a, height: box.bottom - box.top }));
    }
    if (cursor !== null) {
      const x = px(toX(axis, pointed(axis)));
      plot.append(svg("line", { class: "cursor", x1: x, x2: x, y1: box.top, y2: box.bottom }));
    }
    table(axis, visible());
  }

  const nearest = (axis, line, x) => {
    let best = 0;
    line.x.forEach((v, j) => {
      if (Math.abs(toX(axis, v) - x) < Math.abs(toX(axis, line.x[best]) - x)) best = j;
    });
    return best;
  };

  /** The measured place nearest to the cursor, of the first line that is shown: what the values beside it are of. */
  const pointed = (axis) => {
    const { line } = visible()[0];
    return line.x[nearest(axis, line, cursor)];
  };

  function tell() {
    const tip = byId("chart-tip");
    tip.replaceChildren();
    if (cursor === null || !scale) return;
    const axis = current(), at = pointed(axis);
    tip.append(make("span", `${axis.label}: ${short(at)}`));
    for (const { line, i } of visible()) {
      const j = nearest(axis, line, cursor);
      const band = line.low[j] === null ? "" : ` [${exact(axis, line.low[j])}, ${exact(axis, line.high[j])}]`;
      const elsewhere = line.x[j] === at ? "" : ` at ${short(line.x[j])}`;
      const entry = make("span");
      entry.append(key(arms[i]));
      entry.append(`${arms[i].label} ${exact(axis, line.mean[j])}${band}${elsewhere}`);
      tip.append(entry);
    }
  }

  function table(axis, lines) {
    const rows = make("table"), head = make("tr");
    head.append(make("th", axis.label, { scope: "col" }));
    lines.forEach(({ i }) => head.append(make("th", arms[i].label, { scope: "col" })));
    const top = make("thead"), body = make("tbody");
    top.append(head);
    // Where an arm was not measured its cell is empty.
    const places = [...new Set(lines.flatMap(({ line }) => line.x))].sort((a, b) => a - b);
    const stride = Math.max(1, Math.floor(places.length / 30));
    places.forEach((v, k) => {
      if (k % stride && k !== places.length - 1) return;
      const row = make("tr");
      row.append(make("th", short(v), { scope: "row" }));
      for (const { line } of lines) row.append(make("td", line.x.includes(v) ? exact(axis, line.mean[line.x.indexOf(v)]) : ""));
      body.append(row);
    });
    rows.append(top, body);
    byId("chart-table").replaceChildren(rows);
  }

  function update() { draw(); tell(); }
  function reset() { range = null; cursor = null; update(); }
  function zoom(factor) {
    if (!scale) return;
    const middle = cursor === null ? (scale.x0 + scale.x1) / 2 : cursor;
    const half = ((scale.x1 - scale.x0) / 2) * factor;
    range = [middle - half, middle + half];
    update();
  }
  const place = (event) => {
    const point = plot.createSVGPoint();
    [point.x, point.y] = [event.clientX, event.clientY];
    const x = point.matrixTransform(plot.getScreenCTM().inverse()).x;
    return Math.min(Math.max(x, box.left), box.right);
  };
  const toData = (x) => scale.x0 + ((x - box.left) / (box.right - box.left)) * (scale.x1 - scale.x0);

  /** Offer these names in a list; the chosen one stays chosen. */
  function offer(select, names) {
    const same = names.indexOf(select.selectedOptions[0]?.textContent);
    select.replaceChildren();
    names.forEach((name, i) => option(select, name, i));
    if (names.length) select.value = String(Math.max(same, 0));
  }
  const fillQuantities = () => offer(quantity, charts.map((chart) => chart.title));
  const fillAxes = () => offer(against, (charts[+quantity.value]?.axes ?? []).map((axis) => axis.label));
  const nothing = make("p", "No run has logged anything yet.");
  // Levels of many arms hide each other's bands.
  const chooseBands = () => { bands.checked = arms.length <= 3 || margin() !== undefined; };
  function fill() {
    nothing.hidden = charts.length > 0;
    fillQuantities();
    chooseBands();
    fillAxes();
    reset();
  }

  byId("chart").append(nothing);
  arms.forEach((arm, i) => {
    const label = make("label"), input = make("input", null, { type: "checkbox" });
    input.checked = true;
    input.addEventListener("change", () => { shown[i] = input.checked; update(); });
    label.append(input, key(arm), arm.label);
    byId("chart-arms").append(label);
  });
  quantity.addEventListener("change", () => { fillAxes(); chooseBands(); reset(); });
  against.addEventListener("change", reset);
  bands.addEventListener("change", update);
  byId("chart-reset").addEventListener("click", reset);
  byId("chart-in").addEventListener("click", () => zoom(0.5));
  byId("chart-out").addEventListener("click", () => zoom(2));
  plot.addEventListener("pointerdown", (event) => {
    if (!scale) return;
    brush = [place(event), place(event)];
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!scale) return;
    if (brush) brush[1] = place(event);
    cursor = toData(place(event));
    update();
  });
  plot.addEventListener("pointerup", () => {
    if (brush && scale && Math.abs(brush[1] - brush[0]) > 8) {
      range = brush.map(toData).sort((a, b) => a - b);
    }
    brush = null;
    update();
  });
  plot.addEventListener("pointercancel", () => { brush = null; update(); }); // a finger that scrolls the page
  plot.addEventListener("keydown", (event) => {
    if (!scale) return;
    const step = (scale.x1 - scale.x0) / 40;
    const from = cursor === null ? scale.x0 : cursor;
    if (event.key === "ArrowRight") cursor = Math.min(from + step, scale.x1);
    else if (event.key === "ArrowLeft") cursor = Math.max(from - step, scale.x0);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "Escape") reset();
    else return;
    event.preventDefault();
    update();
  });
  fill();

  // ---- samples -----------------------------------------------------------------------------------------
  const browser = read("sample-data");
  const filter = byId("sample-filter");
  let list = [], position = 0;
  const first = 0, last = arms.length - 1;
  const rate = (problem, arm) => problem.rates[arm];
  const both = (p) => rate(p, first) !== null && rate(p, last) !== null;  // no run yet: no rate
  const filters = [
    ["all problems", () => true],
    [`better in ${arms[last]?.label} than in ${arms[first]?.label}`, (p) => both(p) && rate(p, last) > rate(p, first)],
    [`worse in ${arms[last]?.label} than in ${arms[first]?.label}`, (p) => both(p) && rate(p, last) < rate(p, first)],
    ["right in one arm and wrong in another (first sample)", (p) => {
      const seen = new Set(p.samples.filter((s) => s.length).map((s) => s[0].right));
      return seen.size > 1;
    }],
  ];

  const where = () =>
    `Problem ${position + 1} of ${list.length}: ${list[position].id} (seed ${browser.seed}; the first samples of each)`;

  function show() {
    const view = byId("sample-view");
    view.replaceChildren();
    byId("sample-problem").replaceChildren();
    if (!list.length) {
      byId("sample-position").textContent = "No problem matches.";
      return;
    }
    const problem = list[position];
    byId("sample-position").textContent = where();
    if (problem.text !== null) {
      byId("sample-problem").append(make("pre", problem.text, { tabindex: "0" }), make("p", `Gold answer: ${problem.gold}`));
    }
    arms.forEach((arm, i) => {
      const card = make("section", null, { class: "sample-arm" });
      const share = problem.rates[i] === null ? "no samples of these problems" : `${(100 * problem.rates[i]).toFixed(0)} % right`;
      const step = browser.so_far[i]; // of a run that has not finished
      const head = make("h3");
      head.append(key(arm), `${arm.label}: ${share}${step === null ? "" : ` so far, at step ${step}`}`);
      card.append(head);
      problem.samples[i].forEach((sample) => {
        const mark = make("div", sample.right ? "✓ right" : `✗ ${sample.verdict}`, { class: sample.right ? "right-mark" : "" });
        const cut = sample.truncated ? ", cut by the cap" : "";
        mark.append(make("small", ` ${sample.tokens} tokens${cut}, answer ${sample.answer ?? "none"}`));
        card.append(mark, make("pre", sample.text, { tabindex: "0" }));
      });
      view.append(card);
    });
  }
  const go = (step) => {
    if (list.length) position = (position + step + list.length) % list.length;
    show();
  };
  filters.forEach(([name], i) => option(filter, name, i));
  filter.value = browser.problems.some(filters[3][1]) ? "3" : "0"; // begin where arms part
  const choose = () => { list = browser.problems.filter(filters[+filter.value][1]); position = 0; show(); };
  filter.addEventListener("change", choose);
  byId("sample-previous").addEventListener("click", () => go(-1));
  byId("sample-next").addEventListener("click", () => go(1));
  choose();
})();
