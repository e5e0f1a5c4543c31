// Axes, lines, markers and tables.

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

const shortText = (value) => {
  const size = Math.abs(value);
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) return minus(`${+(value / (unit === 1e4 ? 1e3 : unit)).toPrecision(4)}${name}`);
  }
  return minus(String(+value.toPrecision(4)));
};

// Axes with a grid; gives back functions from values to places, and the element to draw into. `xTicks` are pairs of a
// value and its text where the axis has a scale of its own.
function axes(host, { title, x, y, xs, ys, label, xTicks = null, logarithmic = false, whole = false, width = 420 }) {
  const [height, left, right, top, bottom] = [0.62 * width + 50, 52, 14, 26, 40];
  host.replaceChildren();
  const svg = draw(host, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const bend = logarithmic ? Math.log10 : (value) => value;
  const place = {
    x: (value) => left + ((value - xs[0]) / (xs[1] - xs[0] || 1)) * (width - left - right),
    y: (value) => height - bottom - ((bend(value) - bend(ys[0])) / (bend(ys[1]) - bend(ys[0]) || 1)) * (height - top - bottom),
  };
  const plain = ticks(...xs, 5).filter((value) => !whole || Number.isInteger(value));
  for (const [value, text] of xTicks || plain.map((each) => [each, shortText(each)])) {
    draw(svg, "line", { class: "grid", x1: place.x(value), x2: place.x(value), y1: top, y2: height - bottom });
    draw(svg, "text", { x: place.x(value), y: height - bottom + 15, "text-anchor": "middle" }, text);
  }
  for (const value of logarithmic ? ticks(bend(ys[0]), bend(ys[1]), 4).map((each) => 10 ** each) : ticks(...ys, 5)) {
    draw(svg, "line", { class: "grid", x1: left, x2: width - right, y1: place.y(value), y2: place.y(value) });
    draw(svg, "text", { x: left - 6, y: place.y(value) + 4, "text-anchor": "end" }, shortText(value));
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

const SHAPES = ["M5.5,0A5.5,5.5 0 1 1 -5.5,0A5.5,5.5 0 1 1 5.5,0Z", "M0,-7L7,0L0,7L-7,0Z", "M-5,-5H5V5H-5Z", "M0,-6.5L6.5,5H-6.5Z"];
function marker(svg, column, id, style = "point") {
  const colour = `${style === "hollow" ? "stroke" : "fill"}-${column % 6}`;
  const shape = draw(svg, "path", { d: SHAPES[column % SHAPES.length], class: `${style} ${colour}` });
  if (id) shape.id = id;
  return shape;
}

function moveTo(shape, place, x, y) {
  const known = Number.isFinite(x) && Number.isFinite(y);
  shape.setAttribute("visibility", known ? "visible" : "hidden");
  if (!known) return;
  shape.setAttribute("transform", `translate(${place.x(x).toFixed(2)},${place.y(y).toFixed(2)})`);
  shape.dataset.x = x;
  shape.dataset.y = y;
}

// A name from outside breaks only where it is too long for its cell.
function named(cell, text) {
  const name = document.createElement("span");
  name.className = "name";
  name.textContent = text;
  cell.append(name);
}

// Cells are texts, or pairs of a text and what stands after it in small print; the first `texts` columns hold names.
function table(host, heads, rows, texts = 1) {
  const caption = host.querySelector("caption");
  host.replaceChildren(...(caption ? [caption] : []));
  const head = host.createTHead().insertRow();
  heads.forEach((text, k) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = k < texts ? "text" : "";
    named(cell, text);
    head.append(cell);
  });
  const body = host.createTBody();
  for (const { cells, style } of rows) {
    const row = body.insertRow();
    row.className = style || "";
    cells.forEach((content, k) => {
      const cell = row.insertCell();
      const [text, small] = Array.isArray(content) ? content : [content, ""];
      if (k < texts) { cell.className = "text"; named(cell, text); return; }
      cell.textContent = text;
      if (!small) return;
      const note = document.createElement("small");
      note.textContent = small;
      cell.append(" ", note);
    });
  }
}
