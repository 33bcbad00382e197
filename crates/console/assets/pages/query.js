// The SQL page: an editor, its results as table and chart, and plans as pictures.

import { Refusal, cancel, run } from "../api.js";
import { resultChart, bars } from "../chart.js";
import { empty, field, fill, h, problem, toast } from "../dom.js";
import { count, moment, ms } from "../format.js";
import { picture } from "../plan.js";
import { Editor } from "../sql.js";
import { Table } from "../table.js";

export const title = "SQL";
export const panels = [];

const KEPT = "halcyon-sql";
const FIRST = "-- Ctrl+Enter runs, Ctrl+Space completes, Ctrl+Shift+Enter explains\nSELECT session, state, statement FROM halcyon.sessions;\n";
const NUMERIC = /^(smallint|integer|bigint|real|double precision|numeric|decimal|oid)/i;
const MOMENT = /^(timestamp|date)/i;

export function make(search) {
  const editor = new Editor({
    text: search.get("sql") ?? sessionStorage.getItem(KEPT) ?? FIRST,
    onRun: (explains) => (explains ? explain() : start(editor.chosen)),
    onChange: (text) => { try { sessionStorage.setItem(KEPT, text); } catch { /* too long to be kept */ } },
  });
  const limit = h("select", {}, [100, 500, 2000, 10000].map((n) => h("option", { value: String(n), selected: n === 500 }, count(n))));
  const runs = h("button", { type: "button", class: "primary", onclick: () => start(editor.chosen) }, "Run");
  const explains = h("button", { type: "button", onclick: () => explain() }, "Explain analyze");
  const stops = h("button", { type: "button", class: "danger", disabled: true, onclick: stop }, "Cancel");
  const status = h("p", { class: "run-status", role: "status" });
  const results = h("div", { class: "results", aria: { live: "off" } });
  let running = false;
  let clock = null;

  function busy(now) {
    running = now;
    runs.disabled = now;
    explains.disabled = now;
    stops.disabled = !now;
    clearInterval(clock);
    if (!now) return;
    const began = performance.now();
    const tick = () => fill(status, h("span", { class: "spinner", aria: { hidden: "true" } }), `running for ${((performance.now() - began) / 1000).toFixed(1)} s`);
    fill(status, "running");
    clock = setInterval(tick, 200);
  }

  async function asked(sql, shown) {
    if (running || sql.trim() === "") return;
    busy(true);
    try {
      const told = await run(sql, Number(limit.value));
      busy(false);
      const rows = told.results.reduce((all, result) => all + (result.rows?.length ?? 0), 0);
      fill(status, `${count(told.results.length)} statement${told.results.length === 1 ? "" : "s"}, ${count(rows)} rows shown, ${ms(told.ms)}`,
        told.state !== "idle" && h("span", { class: "badge" }, told.state === "idle in transaction" ? "in a transaction" : "the transaction has failed: ROLLBACK"));
      fill(results, shown(told), told.error && failed(told.error, sql));
    } catch (refusal) {
      busy(false);
      fill(status);
      fill(results, problem(refusal instanceof Refusal ? refusal.error : { message: "The server does not answer; whether the statement was carried out is not known." }));
    }
  }

  const start = (sql) => asked(sql, (told) => told.results.map(result));
  const explain = () => asked(`EXPLAIN ANALYZE ${editor.statement.replace(/^\s*(--[^\n]*\n\s*)+/, "").replace(/^explain\s+(analyze\s+)?/i, "")}`,
    (told) => told.results.map((one) => (one.rows ? picture(one.rows.map((row) => row[0])) : result(one))));

  function failed(error, sql) {
    const shown = problem(error);
    if (error.position) {
      const before = sql.slice(0, error.position - 1);
      const line = before.split("\n").length;
      shown.append(h("p", { class: "hint" }, `at line ${line}, character ${before.length - before.lastIndexOf("\n")}`));
    }
    return shown;
  }

  async function stop() {
    try {
      const { cancelled } = await cancel();
      toast(cancelled ? "The statement is being cancelled." : "Nothing runs.");
    } catch (refusal) {
      toast(refusal.message, true);
    }
  }

  const element = h("div", { class: "sql-page" },
    editor.element,
    h("div", { class: "toolbar" }, runs, explains, stops, field("Rows shown", limit)),
    status, results);
  return { element, destroy: () => clearInterval(clock) };
}

/// What came of one statement.
function result(one) {
  const notices = (one.notices ?? []).map((notice) => h("p", { class: "hint" }, notice.message));
  if (!one.columns) return h("section", { class: "result" }, h("p", { class: "tag" }, `${one.tag} · ${ms(one.ms)}`), notices);
  const rows = one.rows.map((values) => ({ values }));
  const table = new Table("Result", one.columns.map((column, at) => {
    const numeric = NUMERIC.test(column.type);
    const value = (row) => row.values[at];
    return {
      key: `${at}`, label: column.name, numeric,
      sort: (row) => (value(row) === null ? null : numeric ? Number(value(row)) : value(row)),
      show: (row) => (value(row) === null ? h("span", { class: "faint" }, "NULL") : value(row) === "" ? " " : value(row)),
    };
  }), { none: "No rows.", limit: 10000 });
  table.show(rows);
  const body = h("div", {}, table.element);
  const views = [["Table", () => table.element], ["Chart", () => chart(one)]];
  const buttons = views.map(([name, make], at) => h("button", {
    type: "button", class: "quiet", aria: { pressed: at === 0 ? "true" : "false" },
    onclick: () => {
      buttons.forEach((button, number) => button.setAttribute("aria-pressed", number === at ? "true" : "false"));
      fill(body, make());
    },
  }, name));
  return h("section", { class: "result" },
    h("div", { class: "result-head" }, h("p", { class: "tag" }, `${one.more ? `the first ${count(one.rows.length)} rows` : one.tag} · ${ms(one.ms)}`), h("div", { class: "buttons" }, buttons)),
    one.more && h("p", { class: "note warn", role: "note" }, `The result has more rows than the ${count(one.rows.length)} shown here; the statement was ended there.`),
    notices, body);
}

/// A result as a chart: the first column across, all numeric ones up.
function chart(one) {
  const numeric = one.columns.map((column, at) => (NUMERIC.test(column.type) ? at : -1)).filter((at) => at >= 0);
  const first = one.columns[0];
  const isTime = MOMENT.test(first?.type ?? "");
  const across = numeric.includes(0) && numeric.length > 1;
  const up = numeric.filter((at) => at !== 0 || !(across || isTime));
  if (up.length === 0 || one.rows.length === 0) return empty("A chart needs rows and a numeric column beside the first.");
  const value = (row, at) => (row[at] === null ? null : Number(row[at]));
  if (across || isTime) {
    const place = (row) => (isTime ? (moment(row[0]) ?? Date.parse(`${row[0].replace(" ", "T")}Z`)) / 1000 : Number(row[0]));
    const sorted = one.rows.filter((row) => row[0] !== null).map((row) => [place(row), row]).filter(([at]) => Number.isFinite(at)).sort((a, b) => a[0] - b[0]);
    const labels = { name: first.name, values: sorted.map(([at]) => at) };
    return resultChart(labels, up.map((at) => sorted.map(([, row]) => value(row, at))), up.map((at) => one.columns[at].name), isTime);
  }
  const at = up[0];
  const items = one.rows.slice(0, 50).map((row) => ({ name: at === 0 ? "" : (row[0] ?? "NULL"), value: Math.max(0, value(row, at) ?? 0), text: row[at] ?? "NULL" }));
  return h("div", {}, h("p", { class: "note" }, `${one.columns[at].name} by ${first.name}${one.rows.length > 50 ? ", the first 50 rows" : ""}`), bars(items, `${one.columns[at].name} by ${first.name}`));
}
