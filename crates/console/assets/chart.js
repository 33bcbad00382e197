// Charts over time (uPlot), the heat map of workers, and bars.

import uPlot from "./vendor/uplot/uplot.js";
import { h, fill } from "./dom.js";

/// Seconds that charts show.
export const SPAN = 180;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = 8;

/// The colour of a name: the first names get the first colours, in the order in which they come.
const given = new Map();
function numberOf(name) {
  if (!given.has(name)) given.set(name, given.size % PALETTE);
  return given.get(name);
}
export const colourOf = (name) => colour(`--series-${numberOf(name)}`);
export const swatch = (name) => h("span", { class: `swatch series-${numberOf(name)}`, aria: { hidden: "true" } });

// A moment on the axis: the date is today's.
const clock = (at) => new Date(at * 1000).toTimeString().slice(0, 8);

const open = new Set();
// Colours are those of the theme, which canvas does not follow by itself.
export function repaint() {
  for (const chart of open) chart.rebuild();
}

/// Lines over the last minutes, one for each name that has values.
export class Lines {
  constructor(label, show, { log = false, height = 190 } = {}) {
    this.show = show;
    this.log = log;
    this.height = height;
    this.times = [];
    this.series = new Map();
    this.place = h("div", { class: "chart", role: "img", aria: { label } });
    this.label = label;
    this.legend = h("ul", { class: "legend" });
    this.element = h("div", {}, this.place, this.legend);
    this.plot = null;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.place);
    open.add(this);
  }

  /// Adds the values of a moment: { name: value }.
  add(at, values) {
    if (at <= (this.times.at(-1) ?? 0)) return;
    this.times.push(at);
    for (const name of Object.keys(values)) {
      if (!this.series.has(name)) this.series.set(name, new Array(this.times.length - 1).fill(null));
    }
    for (const [name, points] of this.series) points.push(values[name] ?? null);
    while (this.times[0] < at - SPAN) {
      this.times.shift();
      for (const points of this.series.values()) points.shift();
    }
    for (const [name, points] of this.series) {
      if (points.every((point) => point === null)) this.series.delete(name);
    }
    this.draw();
  }

  draw() {
    const names = [...this.series.keys()];
    if (!this.plot || names.join("\n") !== this.names) return this.rebuild();
    this.plot.setData(this.data());
    this.tell();
  }

  data() {
    const clean = (points) => (this.log ? points.map((point) => (point > 0 ? point : null)) : points);
    return [this.times, ...[...this.series.values()].map(clean)];
  }

  // What the picture shows, for those who do not see it.
  tell() {
    const last = [...this.series].map(([name, points]) => [name, points.at(-1)]);
    fill(this.legend, last.map(([name, value]) => h("li", {}, swatch(name), h("span", {}, name), h("b", {}, this.show(value)))));
    const texts = last.map(([name, value]) => `${name} ${this.show(value)}`);
    this.place.setAttribute("aria-label", `${this.label}. Now: ${texts.join(", ") || "nothing"}`);
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    this.names = [...this.series.keys()].join("\n");
    this.tell();
    const width = Math.floor(this.place.clientWidth);
    if (width === 0 || this.times.length === 0) return;
    const axis = { stroke: colour("--text-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.plot = new uPlot({
      width,
      height: this.height,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      scales: {
        x: { time: true, range: (_, __, max) => [max - SPAN, max] },
        y: this.log ? { distr: 3 } : { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] },
      },
      axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.show(tick))) }],
      series: [{}, ...[...this.series.keys()].map((name) => ({ label: name, stroke: colourOf(name), width: 1.75, points: { show: false }, spanGaps: true }))],
    }, this.data(), this.place);
  }

  resize() {
    const width = Math.floor(this.place.clientWidth);
    if (!this.plot) return this.rebuild();
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  destroy() {
    open.delete(this);
    this.observer.disconnect();
    this.plot?.destroy();
  }
}

/// Busy shares of workers over time: a row for each worker, a column for each second, the newest at the right.
export class HeatMap {
  constructor(label) {
    this.label = label;
    this.columns = [];
    this.names = [];
    this.canvas = h("canvas", { class: "heat", role: "img", aria: { label } });
    this.rows = h("ol", { class: "heat-names", aria: { label: "Workers and their busy share now" } });
    this.element = h("div", { class: "heat-map" }, this.rows, this.canvas);
    this.observer = new ResizeObserver(() => this.rebuild());
    this.observer.observe(this.element);
    open.add(this);
  }

  add(names, shares) {
    this.names = names;
    this.columns.push(shares);
    if (this.columns.length > SPAN) this.columns.shift();
    this.rebuild();
  }

  rebuild() {
    const rows = Math.max(1, this.names.length);
    const height = Math.max(10, Math.min(26, Math.floor(320 / rows)));
    const width = Math.max(60, this.canvas.clientWidth || 300);
    const dense = window.devicePixelRatio || 1;
    this.canvas.width = width * dense;
    this.canvas.height = rows * height * dense;
    this.canvas.style.height = `${rows * height}px`;
    this.rows.style.setProperty("--row", `${height}px`);
    const brush = this.canvas.getContext("2d");
    brush.scale(dense, dense);
    brush.fillStyle = colour("--heat-0");
    brush.fillRect(0, 0, width, rows * height);
    const step = width / SPAN;
    this.columns.forEach((shares, at) => {
      const left = width - (this.columns.length - at) * step;
      shares.forEach((share, row) => {
        if (!(share > 0.004)) return;
        brush.globalAlpha = Math.min(1, 0.12 + 0.88 * share);
        brush.fillStyle = colour(share > 0.85 ? "--heat-hot" : "--heat-1");
        brush.fillRect(left, row * height + 1, Math.max(step - 0.5, 1), height - 2);
      });
    });
    brush.globalAlpha = 1;
    const now = this.columns.at(-1) ?? [];
    const told = this.names.map((name, row) => [name, `${Math.round(100 * (now[row] ?? 0))} %`]);
    // Rows lower than a line of text have their names in the list for screen readers alone.
    this.rows.classList.toggle("hidden", height < 14);
    fill(this.rows, told.map(([name, share]) => h("li", {}, h("span", {}, name), h("b", {}, share))));
    this.canvas.setAttribute("aria-label", `${this.label}. Now: ${told.map(([name, share]) => `${name} ${share}`).join(", ") || "no workers yet"}`);
  }

  destroy() {
    open.delete(this);
    this.observer.disconnect();
  }
}

/// Bars with their values: [{ name, value, text, total, href }].
export function bars(items, label) {
  const most = Math.max(...items.map((item) => item.value), 1e-12);
  return h("ul", { class: "bars", aria: { label } }, items.map((item) => {
    const bar = svgBar(item.value / (item.total || most));
    return h("li", {}, h("span", { class: "bar-name", title: item.name }, item.name), bar, h("b", {}, item.text));
  }));
}

function svgBar(share) {
  const bar = h("span", { class: "bar" }, h("span", { class: "bar-fill" }));
  bar.firstChild.style.width = `${Math.max(0.3, Math.min(1, share) * 100)}%`;
  return bar;
}

/// A bar for what is done of a whole, or a word where the whole is not known.
export function progress(percent, label) {
  if (percent === null || percent === undefined) return h("span", { class: "faint" }, "no total");
  const bar = svgBar(percent / 100);
  for (const [name, value] of Object.entries({ role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.floor(percent) })) bar.setAttribute(name, value);
  return h("span", { class: "progress" }, bar, h("b", {}, `${Math.floor(percent)} %`));
}

/// A chart of a result: lines over a first column of numbers or moments, else bars.
export function resultChart(labels, values, series, isTime) {
  const place = h("div", { class: "chart", role: "img", aria: { label: `Chart of ${series.join(", ")}` } });
  let plot = null;
  const draw = () => {
    plot?.destroy();
    const width = Math.floor(place.clientWidth);
    if (width === 0) return;
    const axis = { stroke: colour("--text-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    plot = new uPlot({
      width, height: 320, legend: { show: true },
      scales: { x: { time: isTime } },
      axes: [axis, { ...axis, size: 70 }],
      series: [{ label: labels.name }, ...series.map((name) => ({ label: name, stroke: colourOf(name), width: 1.75 }))],
    }, [labels.values, ...values], place);
  };
  new ResizeObserver(draw).observe(place);
  return place;
}
