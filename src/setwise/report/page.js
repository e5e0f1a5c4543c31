"use strict";
// Draws the page from the numbers in #data. Counts were taken beforehand for every position of the slider.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const state = { seed: data.shown, scale: "probability", position: null, column: Object.keys(data.groups)[0] };
  const DASH = "–";

  // ---------------------------------------------------------------- the numbers

  const sigmoid = (score) => 1 / (1 + Math.exp(-score));
  const trainings = (method) => data.trainings.filter((each) => each.method === method);
  const shown = (method) => trainings(method).find((each) => each.seed === state.seed);

  // The confusion table of some rows at the slider's position, or at the threshold chosen on the validation set.
  function countsOf(rows) {
    const here = state.position === null ? rows.chosen
      : { tp: rows[state.scale].tp[state.position], fp: rows[state.scale].fp[state.position] };
    return { tp: here.tp, fp: here.fp, fn: tidy(rows.positives - here.tp), tn: tidy(rows.negatives - here.fp) };
  }

  // The logit that a position or a training's own threshold stands for; null where nothing is positive.
  function thresholdOf(training) {
    if (state.position === null) return training.chosen;
    const value = positionValue();
    return state.scale === "probability" ? Math.log(value) - Math.log1p(-value) : value;
  }

  const positionValue = () => {
    const { min, step } = data.scales[state.scale];
    return min + state.position * step;
  };
  const tidy = (value) => (Math.abs(value - Math.round(value)) < 1e-6 ? Math.round(value) : value);
  const ratio = (a, b) => (b > 0 ? a / b : NaN);
  const rates = ({ tp, fp, fn, tn }) => ({
    Precision: ratio(tp, tp + fp),
    Recall: ratio(tp, tp + fn),
    F1: ratio(2 * tp, 2 * tp + fp + fn),
    "False positive rate": ratio(fp, fp + tn),
    "Called positive": ratio(tp + fp, tp + fp + fn + tn),
    Accuracy: ratio(tp + tn, tp + fp + fn + tn),
  });

  const rateText = (value) => (Number.isFinite(value) ? value.toFixed(3) : DASH);
  const countText = (value) =>
    value.toLocaleString("en-US", { maximumFractionDigits: Number.isInteger(value) ? 0 : 1 });
  const probabilityText = (score) => {
    if (score === null) return "none reaches it";
    const p = sigmoid(score);
    return p > 0.9995 && p < 1 ? `1 − ${(1 - p).toPrecision(2)}` : p === 0 || p >= 0.001 ? p.toFixed(3) : p.toPrecision(2);
  };

  // ---------------------------------------------------------------- drawing

  const SVG = "http://www.w3.org/2000/svg";
  function draw(parent, name, attributes = {}, text = null) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    parent.append(element);
    return element;
  }

  // Round numbers between the ends, about so many.
  function ticks(low, high, count) {
    if (!(high > low)) return [low];
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
    return found;
  }

  // Axes with a grid; gives back functions from values to places, and the element to draw into.
  function axes(host, { title, x, y, xs, ys, label, logarithmic = false, whole = false, width = 420 }) {
    const [height, left, right, top, bottom] = [0.62 * width + 50, 52, 12, 26, 40];
    host.replaceChildren();
    const svg = draw(host, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    const bend = logarithmic ? Math.log10 : (value) => value;
    const place = {
      x: (value) => left + ((value - xs[0]) / (xs[1] - xs[0] || 1)) * (width - left - right),
      y: (value) => height - bottom - ((bend(value) - bend(ys[0])) / (bend(ys[1]) - bend(ys[0]) || 1)) * (height - top - bottom),
    };
    const short = (value) => String(+value.toPrecision(4)).replace("-", "−");
    let xTicks = ticks(...xs, 5);
    if (whole) xTicks = xTicks.filter(Number.isInteger);
    for (const value of xTicks) {
      draw(svg, "line", { class: "grid", x1: place.x(value), x2: place.x(value), y1: top, y2: height - bottom });
      draw(svg, "text", { x: place.x(value), y: height - bottom + 15, "text-anchor": "middle" }, short(value));
    }
    for (const value of logarithmic ? ticks(bend(ys[0]), bend(ys[1]), 4).map((each) => 10 ** each) : ticks(...ys, 5)) {
      draw(svg, "line", { class: "grid", x1: left, x2: width - right, y1: place.y(value), y2: place.y(value) });
      draw(svg, "text", { x: left - 6, y: place.y(value) + 4, "text-anchor": "end" }, short(value));
    }
    draw(svg, "path", { class: "axis", d: `M${left},${top}V${height - bottom}H${width - right}` });
    draw(svg, "text", { class: "title", x: left, y: 15 }, title);
    draw(svg, "text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x);
    draw(svg, "text", { x: 13, y: (top + height - bottom) / 2, "text-anchor": "middle",
      transform: `rotate(-90 13 ${(top + height - bottom) / 2})` }, y);
    return { svg, place };
  }

  function line(svg, place, xs, ys, style) {
    let path = "";
    let pen = "M";
    xs.forEach((x, k) => {
      if (ys[k] === null || !Number.isFinite(ys[k])) { pen = "M"; return; }
      path += `${pen}${place.x(x).toFixed(1)},${place.y(ys[k]).toFixed(1)}`;
      pen = "L";
    });
    draw(svg, "path", { class: style, d: path });
  }

  function marker(svg, method, id) {
    const shape = method === 0 ? draw(svg, "circle", { r: 5.5 }) : draw(svg, "path", { d: "M0,-7L7,0L0,7L-7,0Z" });
    shape.setAttribute("class", `point fill-${method}`);
    shape.id = id;
    return shape;
  }

  const points = {};  // of each figure and method, with the function that says where they belong

  function drawCurve(id, key, spec, where) {
    const { svg, place } = axes(byId(id), { xs: [0, 1], ys: [0, 1], ...spec });
    if (key === "roc") line(svg, place, [0, 1], [0, 1], "none");
    else line(svg, place, [0, 1], [data.share, data.share], "none");
    for (const method of [0, 1]) {
      for (const each of trainings(method)) {
        if (each.seed !== state.seed) line(svg, place, ...each[key], `thin stroke-${method}`);
      }
    }
    for (const method of [0, 1]) line(svg, place, ...shown(method)[key], `curve stroke-${method}`);
    points[id] = [0, 1].map((method) => ({ shape: marker(svg, method, `${id}-point-${method}`), place, where }));
  }

  function drawHistory(key, title, y) {
    const host = byId(`history-${key}`);
    if (!host) return;
    const values = data.trainings.flatMap((each) => each.history[key] || []).filter(Number.isFinite);
    if (values.length === 0) { host.replaceChildren(); return; }
    const length = Math.max(...data.trainings.map((each) => (each.history[key] || []).length));
    let [low, high] = [Math.min(...values), Math.max(...values)];
    const logarithmic = low > 0 && high > 30 * low;
    const pad = logarithmic ? 0 : 0.05 * (high - low || 1);
    [low, high] = [low - pad, high + pad];
    const { svg, place } = axes(host, { title, x: "Epoch", y, xs: [1, Math.max(length, 2)], ys: [low, high],
      label: `${title} by epoch, for both methods`, logarithmic, whole: true, width: 320 });
    for (const thick of [false, true]) {
      for (const each of data.trainings.filter((one) => (one.seed === state.seed) === thick)) {
        const epochs = (each.history[key] || []).map((_, k) => k + 1);
        line(svg, place, epochs, each.history[key] || [], `${thick ? "curve" : "thin"} stroke-${each.method}`);
        if (epochs.length === 1) draw(svg, "circle", { class: `fill-${each.method}`, r: 3,
          cx: place.x(1), cy: place.y(each.history[key][0]) });
      }
    }
  }

  const marks = [];

  function drawScores(method) {
    const { bins } = shown(method);
    const top = 1.05 * Math.max(...bins.positive, ...bins.negative, 1e-9);
    const { svg, place } = axes(byId(`scores-${method}`), { title: data.methods[method], x: "Score (logit)",
      y: "Share of the class", xs: [bins.low, bins.high], ys: [0, top],
      label: `Histogram of test scores by class: ${data.methods[method]}` });
    const width = (bins.high - bins.low) / bins.positive.length;
    for (const name of ["negative", "positive"]) {
      bins[name].forEach((share, k) => draw(svg, "rect", { class: `bar-${name}`, x: place.x(bins.low + k * width),
        y: place.y(share), width: Math.max(place.x(bins.low + width) - place.x(bins.low) - 0.6, 0.5),
        height: place.y(0) - place.y(share) }));
    }
    marks[method] = { element: draw(svg, "line", { class: "mark", y1: place.y(0), y2: place.y(top) }), place, bins };
  }

  // ---------------------------------------------------------------- what moves with the slider

  function table(host, heads, rows) {
    host.replaceChildren();
    const head = host.createTHead().insertRow();
    for (const text of heads) {
      const cell = document.createElement("th");
      cell.textContent = text;
      head.append(cell);
    }
    const body = host.createTBody();
    for (const { cells, style } of rows) {
      const row = body.insertRow();
      row.className = style || "";
      for (const text of cells) row.insertCell().textContent = text;
    }
  }

  function showCounts() {
    const names = Object.keys(rates({ tp: 0, fp: 0, fn: 0, tn: 0 }));
    const rows = [];
    for (const method of [0, 1]) {
      const training = shown(method);
      const counts = countsOf(training.all);
      for (const [name, value] of Object.entries(counts)) byId(`${name}-${method}`).textContent = countText(value);
      const threshold = thresholdOf(training);
      byId(`at-${method}`).textContent = `threshold ${probabilityText(threshold)}`;
      rows.push({ cells: [data.methods[method], ...Object.values(rates(counts)).map(rateText)] });
      for (const id of ["roc", "pr"]) {
        const { shape, place, where } = points[id][method];
        const [x, y] = where(counts);
        shape.setAttribute("transform", `translate(${place.x(x).toFixed(2)},${place.y(y).toFixed(2)})`);
        shape.dataset.x = x;
        shape.dataset.y = y;
      }
      const { element, place, bins } = marks[method];
      const inside = threshold !== null && threshold >= bins.low && threshold <= bins.high;
      element.setAttribute("visibility", inside ? "visible" : "hidden");
      if (inside) { element.setAttribute("x1", place.x(threshold)); element.setAttribute("x2", place.x(threshold)); }
    }
    table(byId("rates"), ["At this threshold", ...names], rows);
  }

  function showGroups() {
    if (!state.column) return;
    const rows = [];
    data.groups[state.column].forEach((group, k) => {
      for (const method of [0, 1]) {
        const counted = shown(method).groups[state.column][k];
        const found = rates(countsOf(counted));
        const cells = [method === 0 ? group : "", method === 0 ? countText(tidy(counted.positives + counted.negatives)) : "",
          data.methods[method], rateText(found.Recall), rateText(found.Precision),
          rateText(found["False positive rate"]), rateText(found["Called positive"])];
        rows.push({ cells, style: method === 1 ? "split" : "" });
      }
    });
    table(byId("groups"), [state.column, "Examples", "Method", "Recall", "Precision", "False positive rate",
      "Called positive"], rows);
  }

  function showThreshold() {
    const slider = byId("threshold");
    const { min, max, step } = data.scales[state.scale];
    Object.assign(slider, { min, max, step });
    byId("chosen").setAttribute("aria-pressed", String(state.position === null));
    if (state.position === null) {
      const chosen = shown(1).chosen;
      slider.value = chosen === null ? max : state.scale === "probability" ? sigmoid(chosen) : chosen;
      byId("value").textContent = "as chosen";
    } else {
      slider.value = positionValue();
      byId("value").textContent = state.scale === "probability" ? positionValue().toFixed(3)
        : probabilityText(positionValue());
    }
    showCounts();
    showGroups();
  }

  function showAll() {
    drawCurve("roc", "roc", { title: "ROC curve, test set", x: "False positive rate", y: "True positive rate (recall)",
      label: "ROC curves of both methods on the test set" },
    ({ tp, fp, fn, tn }) => [ratio(fp, fp + tn) || 0, ratio(tp, tp + fn) || 0]);
    drawCurve("pr", "pr", { title: "Precision-recall curve, test set", x: "Recall", y: "Precision",
      label: "Precision-recall curves of both methods on the test set" },
    ({ tp, fp, fn }) => [ratio(tp, tp + fn) || 0, ratio(tp, tp + fp) || 0]);
    drawHistory("measure", "Measure", data.measure);
    drawHistory("surrogate", "Surrogate", "Surrogate loss");
    drawHistory("gap", "Gap", "Surrogate − (1 − measure)");
    drawHistory("violation", "Constraints", "Worst violation");
    [0, 1].forEach(drawScores);
    showThreshold();
  }

  // ---------------------------------------------------------------- what the reader does

  function fill(select, values, chosen) {
    select.replaceChildren(...values.map((value) => new Option(value, value, false, value === chosen)));
  }

  byId("threshold").addEventListener("input", (event) => {
    const { min, step } = data.scales[state.scale];
    state.position = Math.round((Number(event.target.value) - min) / step);
    showThreshold();
  });
  byId("chosen").addEventListener("click", () => { state.position = null; showThreshold(); });
  byId("scale").addEventListener("change", (event) => {
    state.scale = event.target.value;
    state.position = null;
    showThreshold();
  });
  byId("seed").addEventListener("change", (event) => { state.seed = Number(event.target.value); showAll(); });
  fill(byId("seed"), data.seeds, state.seed);
  if (state.column) {
    fill(byId("column"), Object.keys(data.groups), state.column);
    byId("column").addEventListener("change", (event) => { state.column = event.target.value; showGroups(); });
  }

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();
  showAll();
})();
