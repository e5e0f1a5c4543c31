// Rates, exact binomial intervals, numbers as text, and CSV. Part of the page's one script, as are the other .js files.

const DASH = "–";
const tidy = (value) => (Math.abs(value - Math.round(value)) < 1e-6 ? Math.round(value) : value);
const ratio = (a, b) => (b > 0 ? a / b : NaN);
const sigmoid = (score) => 1 / (1 + Math.exp(-score));

// Each rate as [numerator, denominator], which is what its interval needs.
const fractions = ({ tp, fp, fn, tn }) => ({
  Precision: [tp, tp + fp],
  Recall: [tp, tp + fn],
  F1: [2 * tp, 2 * tp + fp + fn],
  "False positive rate": [fp, fp + tn],
  "Predicted positive": [tp + fp, tp + fp + fn + tn],
  Accuracy: [tp + tn, tp + fp + fn + tn],
});
const rates = (counts) =>
  Object.fromEntries(Object.entries(fractions(counts)).map(([name, [a, b]]) => [name, ratio(a, b)]));

// ---------------------------------------------------------------- Clopper-Pearson intervals

function logGamma(x) {  // Stirling's series, after shifting small arguments
  let shift = 0;
  while (x < 12) { shift -= Math.log(x); x += 1; }
  const inverse = 1 / (x * x);
  const series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

// The regularized incomplete beta function, by its continued fraction (Lentz).
function betaCdf(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaCdf(1 - x, b, a);
  const guard = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let [c, d] = [1, 1 / guard(1 - ((a + b) * x) / (a + 1))];
  let result = d;
  for (let m = 1; m < 20000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const step of [even, odd]) {
      d = 1 / guard(1 + step * d);
      c = guard(1 + step / c);
      result *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-14) break;
  }
  const front = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  return (Math.exp(front) * result) / a;
}

function betaQuantile(p, a, b) {
  let [low, high] = [0, 1];
  for (let k = 0; k < 60; k += 1) {
    const middle = (low + high) / 2;
    if (betaCdf(middle, a, b) < p) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

function binomialInterval(successes, trials, level) {
  const tail = (1 - level) / 2;
  return [successes === 0 ? 0 : betaQuantile(tail, successes, trials - successes + 1),
    successes === trials ? 1 : betaQuantile(1 - tail, successes + 1, trials - successes)];
}

// ---------------------------------------------------------------- numbers as text

const minus = (text) => text.replace("-", "−");
const rateText = (value) => (Number.isFinite(value) ? value.toFixed(3) : DASH);
const countText = (value) =>
  minus(value.toLocaleString("en-US", { maximumFractionDigits: Number.isInteger(value) ? 0 : 1 }));
// Of 1,000 cases: whole numbers, but where there are few with digits enough to tell them from none.
const perThousand = (share) => {
  const value = 1000 * share;
  if (!Number.isFinite(value)) return DASH;
  return countText(value >= 10 || value === 0 ? Math.round(value) : value >= 1 ? +value.toFixed(1) : +value.toPrecision(1))
};
const percentText = (share) => {
  const value = 100 * share;
  return `${minus(String(+(value >= 10 ? value.toFixed(0) : value.toPrecision(2))))} %`;
};
const moneyText = (value) =>
  minus(value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 100 && value % 1 ? 2 : 0 }));
const probabilityText = (p) => (p > 0.9995 && p < 1 ? `1 − ${(1 - p).toPrecision(2)}`
  : p === 0 || p >= 0.001 ? p.toFixed(3) : p.toPrecision(2));
const scoreText = (score) => minus(String(+score.toPrecision(6)));

// ---------------------------------------------------------------- CSV

// Texts that a spreadsheet would take for a formula get an apostrophe; numbers stay numbers.
function csvCell(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  if (value === null || value === undefined) return "";
  const text = /^[\s]*[=+\-@]|^[\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveCsv(name, rows) {
  const text = rows.map((row) => row.map(csvCell).join(",")).join("\r\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text, "\r\n"], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
