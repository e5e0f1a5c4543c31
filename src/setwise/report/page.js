// The page of a comparison or an evaluation, drawn from the numbers in #data: confusion counts of every score column at
// some hundred thresholds ("stops", by falling threshold), which were taken beforehand. Nothing is computed from scores.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const columns = data.columns.map((_, k) => k);
const lead = data.seeds.length ? data.columns.length - 1 : 0;  // whose threshold the slider shows
const state = { seed: data.shown, scale: data.link === "none" ? "share" : "probability", mode: "chosen", position: 0,
  groups: 0, cost: { miss: 10, alarm: 1, cases: 10000 } };

// ---------------------------------------------------------------- the numbers

const summed = (steps) => { let sum = 0; return steps.map((step) => { sum = tidy(sum + step); return sum; }); };
for (const each of data.sets) {
  each.thresholds = each.thresholds.map(Number);
  for (const rows of [each.all, ...each.groups.flat()]) { rows.tp = summed(rows.tp); rows.fp = summed(rows.fp); }
}
const setsOf = (column) => data.sets.filter((each) => each.column === column);
const shown = (column) => data.sets.find((each) => each.column === column && each.seed === state.seed);
const total = (rows) => rows.positives + rows.negatives;

function countsAt(rows, stop) {
  const [tp, fp] = [rows.tp[stop], rows.fp[stop]];
  return { tp, fp, fn: tidy(rows.positives - tp), tn: tidy(rows.negatives - fp) };
}

// The stop of a set at the chosen threshold, at the slider's position, or where the costs are lowest.
function stopOf(each) {
  if (state.mode === "chosen") return each.chosen;
  if (state.mode === "cheapest") return cheapestStop(each);
  return (state.scale === "probability" ? each.grid : each.shares)[state.position];
}

const probabilityOf = (score) => (data.link === "logit" ? sigmoid(score) : score);

function thresholdText(threshold) {
  if (threshold === Infinity) return "above all scores";
  if (data.link === "logit") return probabilityText(sigmoid(threshold));
  return threshold === -Infinity ? "below all scores" : scoreText(threshold);
}

// ---------------------------------------------------------------- costs

const costAt = (rows, stop) => {
  const { fn, fp } = countsAt(rows, stop);
  return ((fn * state.cost.miss + fp * state.cost.alarm) / total(rows)) * state.cost.cases;
};

// Exact: the stops hold every vertex of the ROC curve's convex hull. Of equals the one that flags the fewest.
function cheapestStop(each) {
  let best = 0;
  each.thresholds.forEach((_, stop) => {
    if (costAt(each.all, stop) < costAt(each.all, best) - 1e-9 * Math.abs(costAt(each.all, best))) best = stop;
  });
  return best;
}

// Where on the slider, as a share of its length, a stop of a set lies.
function alongSlider(each, stop) {
  if (state.scale === "probability") return Math.min(Math.max(probabilityOf(each.thresholds[stop]), 0), 1);
  const next = each.shares.findIndex((position) => position <= stop);
  if (next <= 0) return next / (each.shares.length - 1);
  const [high, low] = [each.shares[next - 1], each.shares[next]];
  return (next - (stop - low) / (high - low || 1)) / (each.shares.length - 1);
}

function drawCosts() {
  if (!byId("cost")) return;
  const sets = columns.map(shown);
  const lines = sets.map((each) => each.thresholds.map((_, stop) => [alongSlider(each, stop), costAt(each.all, stop)]));
  const top = Math.max(...lines.flat().map((point) => point[1]), 1e-9);
  const shares = shown(lead).shares;
  const xTicks = state.scale === "probability" ? null : [0, 0.25, 0.5, 0.75, 1].map((x) => {
    const { tp, fp } = countsAt(shown(lead).all, shares[Math.round(x * (shares.length - 1))]);
    return [x, percentText((tp + fp) / total(shown(lead).all))];
  });
  const { svg, place } = axes(byId("cost"), { title: "Cost per month", xs: [0, 1], ys: [0, 1.05 * top], xTicks,
    x: state.scale === "probability" ? "Threshold" : "Share predicted positive", y: "Cost per month",
    label: "Cost per month at each threshold; the hollow mark is the cheapest, the filled one the threshold above" });
  lines.forEach((points, k) => line(svg, place, ...[0, 1].map((axis) => points.map((point) => point[axis])), `curve stroke-${k % 6}`));
  sets.forEach((each, k) => {
    const [best, here] = [cheapestStop(each), stopOf(each)];
    moveTo(marker(svg, k, `cost-point-${k}`), place, ...lines[k][here]);
    moveTo(marker(svg, k, `cost-best-${k}`, "hollow"), place, ...lines[k][best]);
  });
  const cells = sets.map((each) => {
    const [best, here] = [cheapestStop(each), stopOf(each)];
    const [low, now] = [costAt(each.all, best), costAt(each.all, here)];
    const { tp, fp } = countsAt(each.all, best);
    const flagged = ((tp + fp) / total(each.all)) * state.cost.cases;
    return [thresholdText(each.thresholds[best]), countText(Math.round(flagged)), moneyText(low), moneyText(now),
      moneyText(now - low)];
  });
  const names = ["Cheapest threshold", "Predicted positive per month there", "Cost per month there",
    "Cost per month at the threshold above", "Saved per month by moving"];
  table(byId("costs"), ["", ...data.columns], names.map((name, k) => ({ cells: [name, ...cells.map((each) => each[k])] })));
}

// ---------------------------------------------------------------- curves

const points = [];  // of each figure and column: the marker, its axes, and the function that says where it belongs

function drawCurve(id, spec, where, reference) {
  const host = byId(id);
  if (!host) return;
  const { svg, place } = axes(host, { xs: [0, 1], ys: [0, 1], ...spec });
  line(svg, place, [0, 1], reference, "none");
  const curve = (each) => {
    const found = each.thresholds.map((_, stop) => where(countsAt(each.all, stop)));
    return [found.map((point) => point[0]), found.map((point) => point[1])];
  };
  for (const thick of [false, true]) {
    for (const each of data.sets.filter((one) => (one.seed === state.seed) === thick)) {
      line(svg, place, ...curve(each), `${thick ? "curve" : "thin"} stroke-${each.column % 6}`);
    }
  }
  for (const column of columns) points.push({ column, shape: marker(svg, column, `${id}-point-${column}`), place, where });
}

function drawCurves() {
  points.length = 0;
  const { positives, negatives } = shown(lead).all;
  const base = ratio(positives, positives + negatives);
  drawCurve("roc", { title: "ROC curve", x: "False positive rate", y: "True positive rate (recall)", label: "ROC curves" },
    ({ tp, fp, fn, tn }) => [ratio(fp, fp + tn), ratio(tp, tp + fn)], [0, 1]);
  drawCurve("pr", { title: "Precision-recall curve", x: "Recall", y: "Precision", label: "Precision-recall curves" },
    ({ tp, fp, fn }) => [ratio(tp, tp + fn), ratio(tp, tp + fp)], [base, base]);
  drawCurve("lift", { title: "Positives found (lift)", x: "Share predicted positive", y: "Share of positives found",
    label: "Share of the positives found against the share of cases predicted positive" },
  ({ tp, fp, fn, tn }) => [ratio(tp + fp, tp + fp + fn + tn), ratio(tp, tp + fn)], [0, 1]);
  drawReliability();
  showTopShares();
}

function drawReliability() {
  const host = byId("reliability");
  if (!host) return;
  const { svg, place } = axes(host, { title: "Calibration", x: "Mean predicted probability", y: "Share of positives",
    xs: [0, 1], ys: [0, 1], label: "Share of positives against the mean predicted probability in bins, with intervals" });
  line(svg, place, [0, 1], [0, 1], "none");
  for (const column of columns) {
    const bins = shown(column).reliability;
    line(svg, place, bins.map((bin) => bin[0]), bins.map((bin) => bin[1]), `curve stroke-${column % 6}`);
    for (const [mean, share, low, high] of bins) {
      if (low !== null) line(svg, place, [mean, mean], [low, high], `bar stroke-${column % 6}`);
      if (share !== null) moveTo(marker(svg, column, "", "bin"), place, mean, share);
    }
  }
}

function showTopShares() {
  const host = byId("top");
  if (!host) return;
  const rows = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].map((share) => {
    const cells = columns.map((column) => {
      const each = shown(column);
      const stop = each.thresholds.findIndex((_, k) => each.all.tp[k] + each.all.fp[k] >= share * total(each.all) * (1 - 1e-9));
      const counts = countsAt(each.all, stop);
      const found = rates(counts);
      return [percentText(found.Recall), `lift ${(found.Recall / found["Predicted positive"]).toFixed(1)}`];
    });
    return { cells: [`highest ${percentText(share)}`, ...cells] };
  });
  table(host, ["Scores", ...data.columns.map((name) => (columns.length > 1 ? name : "Positives found"))], rows);
}

function drawHistory(key, title, y) {
  const host = byId(`history-${key}`);
  if (!host) return;
  const values = data.sets.flatMap((each) => each.history[key] || []).filter(Number.isFinite);
  if (values.length === 0) { host.replaceChildren(); return; }
  const length = Math.max(...data.sets.map((each) => (each.history[key] || []).length));
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const logarithmic = low > 0 && high > 30 * low;
  const pad = logarithmic ? 0 : 0.05 * (high - low || 1);
  [low, high] = [low - pad, high + pad];
  const { svg, place } = axes(host, { title, x: "Epoch", y, xs: [1, Math.max(length, 2)], ys: [low, high],
    label: `${title} by epoch, for both methods`, logarithmic, whole: true, width: 320 });
  for (const thick of [false, true]) {
    for (const each of data.sets.filter((one) => (one.seed === state.seed) === thick)) {
      const epochs = (each.history[key] || []).map((_, k) => k + 1);
      line(svg, place, epochs, each.history[key] || [], `${thick ? "curve" : "thin"} stroke-${each.column}`);
      if (epochs.length === 1) draw(svg, "circle", { class: `fill-${each.column}`, r: 3,
        cx: place.x(1), cy: place.y(each.history[key][0]) });
    }
  }
}

const marks = [];

const clipped = (name) => (name.length > 40 ? `${name.slice(0, 39)}…` : name);

function drawScores(column) {
  const { bins } = shown(column);
  const top = 1.05 * Math.max(...bins.positive, ...bins.negative, 1e-9);
  const { svg, place } = axes(byId(`scores-${column}`), { title: clipped(data.columns[column]),
    x: { logit: "Score (log-odds)", probability: "Score (probability)", none: "Score" }[data.link],
    y: "Share of the class", xs: [bins.low, bins.high], ys: [0, top],
    label: `Histogram of scores by class: ${data.columns[column]}` });
  const width = (bins.high - bins.low) / bins.positive.length;
  for (const name of ["negative", "positive"]) {
    bins[name].forEach((share, k) => draw(svg, "rect", { class: `bar-${name}`, x: place.x(bins.low + k * width),
      y: place.y(share), width: Math.max(place.x(bins.low + width) - place.x(bins.low) - 0.6, 0.5),
      height: place.y(0) - place.y(share) }));
  }
  marks[column] = { element: draw(svg, "line", { class: "mark", y1: place.y(0), y2: place.y(top) }), place, bins };
}

// ---------------------------------------------------------------- what moves with the slider

function showCounts() {
  const found = [];
  for (const column of columns) {
    const each = shown(column);
    const stop = stopOf(each);
    const counts = countsAt(each.all, stop);
    const cases = total(each.all);
    for (const [name, value] of Object.entries(counts)) {
      byId(`${name}-${column}`).textContent = countText(value);
      byId(`${name}-share-${column}`).textContent = `${perThousand(value / cases)} of 1,000`;
    }
    const threshold = each.thresholds[stop];
    byId(`at-${column}`).textContent = `threshold ${thresholdText(threshold)}`;
    byId(`at-${column}`).title = String(threshold);
    const { tp, fp, fn } = counts;
    byId(`said-${column}`).textContent = `Of 1,000 cases ${perThousand((tp + fp) / cases)} are predicted positive, `
      + `${perThousand(tp / cases)} of them rightly; ${perThousand(fn / cases)} positives are missed.`;
    found.push(rates(counts));
    const { element, place, bins } = marks[column];
    const inside = threshold >= bins.low && threshold <= bins.high;
    element.setAttribute("visibility", inside ? "visible" : "hidden");
    if (inside) { element.setAttribute("x1", place.x(threshold)); element.setAttribute("x2", place.x(threshold)); }
  }
  for (const { column, shape, place, where } of points) {
    const each = shown(column);
    const [x, y] = where(countsAt(each.all, stopOf(each)));
    moveTo(shape, place, x, Number.isNaN(y) ? 0 : y);
  }
  const rows = Object.keys(found[0]).map((name) => ({ cells: [name, ...found.map((each) => rateText(each[name]))] }));
  table(byId("rates"), ["At this threshold", ...data.columns], rows);
}

const GROUP_RATES = ["Recall", "Precision", "False positive rate", "Predicted positive"];

function showGroups() {
  if (!byId("groups")) return;
  const [name, values] = data.groups[state.groups];
  const several = columns.length > 1;
  const rows = [];
  values.forEach((value, k) => {
    for (const column of columns) {
      const counted = shown(column).groups[state.groups][k];
      const found = fractions(countsAt(counted, stopOf(shown(column))));
      const first = column === 0;
      const cells = GROUP_RATES.map((rate) => {
        const [a, b] = found[rate];
        if (data.weighted || !(b > 0)) return rateText(ratio(a, b));
        return [rateText(ratio(a, b)), `[${binomialInterval(a, b, data.level).map(rateText).join(", ")}]`];
      });
      rows.push({ style: column === columns.length - 1 && several ? "split" : "", cells: [first ? value : "",
        ...(several ? [data.columns[column]] : []), first ? countText(tidy(total(counted))) : "", ...cells] });
    }
  });
  table(byId("groups"), [name, ...(several ? ["Score"] : []), "Cases", ...GROUP_RATES], rows, several ? 2 : 1);
}

function showThreshold() {
  const slider = byId("threshold");
  const each = shown(lead);
  const length = state.scale === "probability" ? 1 : each.shares.length - 1;
  Object.assign(slider, { min: 0, max: length, step: state.scale === "probability" ? data.step : 1 });
  const { tp, fp } = countsAt(each.all, stopOf(each));
  const flagged = `${percentText((tp + fp) / total(each.all))} predicted positive`;
  let text = { chosen: "as chosen", cheapest: "cheapest" }[state.mode];
  if (state.mode !== "slider") slider.value = alongSlider(each, stopOf(each)) * length;
  else {
    slider.value = state.scale === "probability" ? state.position * data.step : state.position;
    text = state.scale === "probability" ? (state.position * data.step).toFixed(3) : flagged;
  }
  byId("value").textContent = text;
  slider.setAttribute("aria-valuetext", `${text}: threshold ${thresholdText(each.thresholds[stopOf(each)])}, ${flagged}`);
  byId("chosen").setAttribute("aria-pressed", String(state.mode === "chosen"));
  if (byId("cheapest")) byId("cheapest").setAttribute("aria-pressed", String(state.mode === "cheapest"));
  showCounts();
  drawCosts();
  showGroups();
}

function showAll() {
  drawCurves();
  drawHistory("measure", "Measure", data.measure);
  drawHistory("surrogate", "Surrogate", "Surrogate loss");
  drawHistory("gap", "Gap", "Surrogate − (1 − measure)");
  drawHistory("violation", "Constraints", "Worst violation");
  columns.forEach(drawScores);
  showThreshold();
}

// ---------------------------------------------------------------- numbers to take along

function countRow(column, group, value, rows, each, stop) {
  const counts = countsAt(rows, stop);
  const found = rates(counts);
  return [data.columns[column], ...(data.seeds.length ? [each.seed] : []), group, value, each.thresholds[stop],
    counts.tp, counts.fp, counts.fn, counts.tn, ...Object.values(found)];
}

const COUNT_HEADS = ["score", ...(data.seeds.length ? ["seed"] : []), "group_column", "group", "threshold", "tp", "fp", "fn",
  "tn", "precision", "recall", "f1", "false_positive_rate", "predicted_positive", "accuracy"];

function saveThresholds() {
  saveCsv("thresholds.csv", [COUNT_HEADS, ...data.sets.flatMap((each) =>
    each.thresholds.map((_, stop) => countRow(each.column, "", "", each.all, each, stop)))]);
}

function saveHere() {
  const rows = columns.flatMap((column) => {
    const each = shown(column);
    const stop = stopOf(each);
    const groups = data.groups.flatMap(([name, values], g) =>
      values.map((value, k) => countRow(column, name, value, each.groups[g][k], each, stop)));
    return [countRow(column, "", "", each.all, each, stop), ...groups];
  });
  saveCsv("at-this-threshold.csv", [COUNT_HEADS, ...rows]);
}

function saveMeasures() {
  saveCsv("measures.csv", [["measure", "score", "estimate", "low", "high", "level"],
    ...data.tables.map((row) => [row.measure, row.score, row.estimate, row.low, row.high, data.level])]);
}

// ---------------------------------------------------------------- what the reader does

const listen = (id, event, then) => { const found = byId(id); if (found) found.addEventListener(event, then); };

function fill(select, values, chosen) {
  if (select) select.replaceChildren(...values.map(([value, text]) => new Option(text, value, false, value === chosen)));
}

listen("threshold", "input", (event) => {
  state.mode = "slider";
  state.position = Math.round(Number(event.target.value) / (state.scale === "probability" ? data.step : 1));
  showThreshold();
});
listen("chosen", "click", () => { state.mode = "chosen"; showThreshold(); });
listen("cheapest", "click", () => { state.mode = "cheapest"; showThreshold(); });
listen("scale", "change", (event) => {
  state.scale = event.target.value;
  if (state.mode === "slider") state.mode = "chosen";
  showThreshold();
});
listen("seed", "change", (event) => { state.seed = Number(event.target.value); showAll(); });
listen("column", "change", (event) => { state.groups = Number(event.target.value); showGroups(); });
listen("save-thresholds", "click", saveThresholds);
listen("save-here", "click", saveHere);
listen("save-measures", "click", saveMeasures);
fill(byId("seed"), data.seeds.map((seed) => [seed, seed]), state.seed);
fill(byId("column"), data.groups.map(([name], k) => [k, name]), state.groups);

// Costs: a slider in steps 1, 2, 5, 10, ..., and a field for any other number.
const stepValue = (k) => [1, 2, 5][k % 3] * 10 ** Math.floor(k / 3);
for (const name of Object.keys(state.cost)) {
  const [slider, field] = [byId(`${name}-slider`), byId(name)];
  if (!field) break;
  field.value = state.cost[name];
  const toSlider = () => { slider.value = 3 * Math.log10(Math.max(state.cost[name], 1)); };
  toSlider();
  slider.addEventListener("input", () => {
    state.cost[name] = stepValue(Number(slider.value));
    field.value = state.cost[name];
    showThreshold();
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    if (field.value === "" || !Number.isFinite(value) || value < 0) return;
    state.cost[name] = value;
    toSlider();
    showThreshold();
  });
}

const system = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
listen("theme", "click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
system.addEventListener("change", nameTheme);
nameTheme();
showAll();
