// EXPLAIN ANALYZE as a picture: operators as a tree, with the rows that came, the rows that were expected, and
// where the time went.

import { h } from "./dom.js";
import { count, ms } from "./format.js";

const SUFFIX = { "": 1, K: 1e3, M: 1e6, B: 1e9 };
const TIME = { ns: 1e-6, "µs": 1e-3, "μs": 1e-3, us: 1e-3, ms: 1, s: 1e3 };

function number(text) {
  const parts = /^([\d.]+)\s*([KMB]?)/.exec(text ?? "");
  return parts ? Number(parts[1]) * SUFFIX[parts[2]] : null;
}

function time(text) {
  const parts = /^([\d.]+)\s*(ns|µs|μs|us|ms|s)/.exec(text ?? "");
  return parts ? Number(parts[1]) * TIME[parts[2]] : null;
}

/// The lines of EXPLAIN ANALYZE as { facts: [[name, value]], roots: [node] }.
export function parsed(lines) {
  const facts = [];
  const roots = [];
  const open = [];
  for (const line of lines.flatMap((line) => line.split("\n"))) {
    if (line.trim() === "") continue;
    const fact = /^(Executor|Lock|Early lock|Rows|Planning time|Execution time|Rows looked up first|Estimate[^:]*|Note|Class): (.*)$/.exec(line);
    if (fact) {
      facts.push([fact[1], fact[2]]);
      continue;
    }
    const depth = line.length - line.trimStart().length;
    const node = operator(line.trim());
    while (open.length && open.at(-1).depth >= depth) open.pop();
    (open.at(-1)?.node.below ?? roots).push(node);
    open.push({ depth, node });
  }
  return { facts, roots };
}

function operator(line) {
  const metrics = /metrics=\[([^\]]*)\]/.exec(line)?.[1] ?? "";
  const metric = (name) => new RegExp(`(?:^|, )${name}=([^,]*)`).exec(metrics)?.[1];
  const plain = line.replace(/,? ?metrics=\[[^\]]*\]/, "").replace(/,? ?estimated_rows=\d+/, "").replace(/ ?\(rows=\d+\)$/, "");
  const colon = plain.indexOf(": ");
  const comma = plain.indexOf(", ");
  const cut = colon >= 0 ? colon : comma >= 0 ? comma : plain.length;
  const estimated = /estimated_rows=(\d+)/.exec(line)?.[1];
  return {
    name: plain.slice(0, cut).replace(/Exec$/, ""),
    detail: plain.slice(cut).replace(/^[:,] /, ""),
    rows: number(metric("output_rows")) ?? number(/\(rows=(\d+)\)$/.exec(line)?.[1]),
    estimated: estimated === undefined ? null : Number(estimated),
    ms: time(metric("elapsed_compute")),
    below: [],
  };
}

/// The picture.
export function picture(lines) {
  const { facts, roots } = parsed(lines);
  const all = [];
  const gather = (node) => { all.push(node); node.below.forEach(gather); };
  roots.forEach(gather);
  const total = all.reduce((sum, node) => sum + (node.ms ?? 0), 0);
  return h("div", { class: "plan" },
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("ul", { class: "tree", aria: { label: "Operators of the plan" } }, roots.map((node) => drawn(node, total))),
    h("details", { class: "source" }, h("summary", {}, "The plan as text"), h("pre", { tabindex: "0", role: "group", aria: { label: "Plan as text" } }, lines.join("\n"))));
}

function drawn(node, total) {
  const share = total > 0 && node.ms !== null ? node.ms / total : 0;
  const off = node.estimated !== null && node.rows !== null ? Math.max(node.estimated + 1, node.rows + 1) / Math.min(node.estimated + 1, node.rows + 1) : 1;
  const bar = h("span", { class: share > 0.4 ? "bar hot" : "bar" }, h("span", { class: "bar-fill" }));
  bar.firstChild.style.width = `${Math.max(share * 100, 0.5)}%`;
  return h("li", {},
    h("div", { class: "operator" },
      h("div", { class: "operator-head" }, h("strong", {}, node.name),
        node.rows !== null && h("span", {}, `${count(node.rows)} rows`),
        node.estimated !== null && h("span", { class: off >= 10 ? "warn" : "faint" }, `expected ${count(node.estimated)}${off >= 10 ? `, ${count(off)}× off` : ""}`)),
      node.detail && h("p", { class: "operator-detail" }, node.detail),
      node.ms !== null && h("div", { class: "operator-time" }, bar, h("span", {}, `${ms(node.ms)} · ${(share * 100).toFixed(0)} %`))),
    node.below.length > 0 && h("ul", {}, node.below.map((below) => drawn(below, total))));
}
