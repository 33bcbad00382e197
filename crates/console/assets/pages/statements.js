// Statements by the time that they took in all.

import { sqlOf } from "../api.js";
import { card, field, h } from "../dom.js";
import { count, ms, objects, percent } from "../format.js";
import { Table } from "../table.js";

export const title = "Statements";
export const panels = ["statements"];

export function make() {
  let rows = [];
  const filter = h("input", { type: "search", spellcheck: "false", oninput: () => draw() });
  const list = new Table("Statements by total time", [
    { key: "statement", label: "Statement", long: true, show: (row) => h("a", { class: "code", href: `#/query?sql=${encodeURIComponent(row.statement)}`, title: row.statement }, shortened(row.statement)) },
    { key: "share", label: "Share", numeric: true, show: (row) => percent(row.share) },
    { key: "total_ms", label: "Total", numeric: true, show: (row) => ms(row.total_ms) },
    { key: "calls", label: "Calls", numeric: true, show: (row) => count(row.calls) },
    { key: "mean_ms", label: "Mean", numeric: true, show: (row) => ms(row.mean_ms) },
    { key: "max_ms", label: "Longest", numeric: true, show: (row) => ms(row.max_ms) },
    { key: "rows", label: "Rows", numeric: true, show: (row) => count(row.rows) },
    { key: "errors", label: "Errors", numeric: true, show: (row) => (row.errors ? h("span", { class: "warn" }, count(row.errors)) : "0") },
    { key: "executor", label: "Executor" },
    { key: "hits", label: "Plans found", numeric: true, show: (row) => percent(row.hits) },
    { key: "last_miss", label: "Why planned last" },
  ], { sortBy: "total_ms", none: "Nothing to show. Statements are shown to superusers, and counted when their session ends or has run them often." });

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    list.show(wanted ? rows.filter((row) => row.statement.toLowerCase().includes(wanted)) : rows);
  }

  function show(panel, data) {
    if (panel !== "statements") return;
    rows = objects(data.queries.statements);
    const total = rows.reduce((sum, row) => sum + row.total_ms, 0);
    for (const row of rows) {
      row.share = total > 0 ? (100 * row.total_ms) / total : null;
      row.hits = row.plan_hits + row.plan_misses > 0 ? (100 * row.plan_hits) / (row.plan_hits + row.plan_misses) : null;
    }
    draw();
  }
  const element = h("div", { class: "grid" }, card("The hundred statements with most time", {
    wide: true, sql: sqlOf("statements", "statements"),
    note: "A session adds what it counted when it ends, and every 4,096 runs of a statement; one run in sixteen is timed. Shares are of what is listed.",
  }, field("Filter", filter), list.element));
  return { element, show };
}

const shortened = (text) => {
  const line = text.replace(/\s+/g, " ");
  return line.length > 110 ? `${line.slice(0, 109)}…` : line;
};
