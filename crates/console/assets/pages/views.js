// Materialized views: what an event costs, how many come, and the rows as they change.

import { ask, follow, sqlOf } from "../api.js";
import { Lines, swatch } from "../chart.js";
import { card, empty, fill, h, problem } from "../dom.js";
import { bytes, count, ns, objects, quoted, rate } from "../format.js";
import { Table } from "../table.js";

export const title = "Views";
export const panels = ["views"];

const ROWS_SHOWN = 200;
const nameOf = (row) => `${row.schema}.${row.view}`;

export function make(search) {
  let chosen = search.get("view");
  let end = null;
  let before = new Map();
  let at = null;
  const rates = new Lines("Events per second by view", rate);
  const detail = h("div", { class: "wide" });
  const list = new Table("Materialized views", [
    { key: "name", label: "View", show: (row) => [swatch(row.name), h("button", { type: "button", class: "link", data: { key: row.name }, aria: { pressed: row.name === chosen ? "true" : "false" }, onclick: () => choose(row) }, row.name)] },
    { key: "rows", label: "Rows", numeric: true, show: (row) => count(row.rows) },
    { key: "rate", label: "Events per second", numeric: true, show: (row) => rate(row.rate) },
    { key: "events", label: "Events", numeric: true, show: (row) => count(row.events) },
    { key: "event_ns_p50", label: "p50", numeric: true, show: (row) => ns(row.event_ns_p50) },
    { key: "event_ns_p99", label: "p99", numeric: true, show: (row) => ns(row.event_ns_p99) },
    { key: "event_ns_max", label: "Longest", numeric: true, show: (row) => ns(row.event_ns_max) },
    { key: "bytes", label: "Rows' memory", numeric: true, show: (row) => bytes(row.bytes) },
    { key: "map_bytes", label: "Maps' memory", numeric: true, show: (row) => bytes(row.map_bytes) },
  ], { sortBy: "rate", none: "There is no materialized view yet. CREATE MATERIALIZED VIEW makes one that is always right." });

  function show(panel, data) {
    if (panel !== "views") return;
    const rows = objects(data.queries.views);
    const seconds = at === null ? null : (data.at - at) / 1000;
    const events = new Map();
    for (const row of rows) {
      row.name = nameOf(row);
      const was = before.get(row.name);
      row.rate = seconds && was !== undefined && row.events >= was ? (row.events - was) / seconds : null;
      events.set(row.name, row.events);
    }
    before = events;
    at = data.at;
    const busiest = rows.filter((row) => row.rate !== null).sort((a, b) => b.rate - a.rate).slice(0, 8).sort((a, b) => a.name.localeCompare(b.name));
    if (busiest.length > 0) rates.add(data.at / 1000, Object.fromEntries(busiest.map((row) => [row.name, row.rate])));
    list.show(rows);
    if (chosen && !end && detail.childElementCount === 0) {
      const row = rows.find((row) => row.name === chosen);
      if (row) choose(row);
    }
  }

  function choose(row) {
    end?.();
    chosen = row.name;
    const certificate = h("div", {}, h("p", { class: "note" }, "Reading…"));
    const live = h("div", {}, h("p", { class: "note" }, "Waiting for the rows…"));
    const name = `${quoted(row.schema)}.${quoted(row.view)}`;
    const sql = `EXPLAIN MAINTENANCE ${name}`;
    fill(detail,
      card(`Certificate of ${row.name}`, { sql, note: "What an inserted or deleted row costs, by table, and which statement decides that." }, certificate),
      card(`Rows of ${row.name}, live`, { sql: `SUBSCRIBE ${name}` }, live));
    list.show(list.rows);
    ask(sql).then(({ rows }) => fill(certificate, facts(rows.map((row) => row[0]))), (refusal) => fill(certificate, problem(refusal.error ?? { message: refusal.message })));
    end = followed(row, live);
  }

  const element = h("div", { class: "grid" },
    card("Events per second", { wide: true, sql: sqlOf("views", "views"), note: "The eight views with most events. An event is an inserted or deleted row that a view has met." }, rates.element),
    card("Materialized views", { wide: true, sql: sqlOf("views", "views") }, list.element), detail);
  return { element, show, destroy: () => { end?.(); rates.destroy(); } };
}

/// The certificate: the cost of an event by table first, the maps behind.
function facts(lines) {
  const events = lines.filter((line) => line.startsWith("event of "));
  const costs = events.map((line) => {
    const [, table, cost] = /^event of ([^:]*): (.*)$/.exec(line) ?? [null, line, ""];
    const because = lines[lines.indexOf(line) + 1] ?? "";
    return h("li", {}, h("code", {}, table), h("b", { class: /O\((n|groups)/.test(cost) ? "cost warn" : "cost good" }, cost), h("span", { class: "faint" }, because.trim()));
  });
  return h("div", {}, h("ul", { class: "costs" }, costs),
    h("pre", { tabindex: "0", role: "group", aria: { label: "The whole certificate" } }, lines.join("\n")));
}

/// Shows the rows of a view as they change. A row that has just come is marked for a moment.
function followed(view, place) {
  const rows = new Map();
  let columns = [];
  const status = h("p", { class: "note", role: "status" });
  const body = h("tbody");
  const head = h("thead");
  const table = h("div", { class: "scroll tall", tabindex: "0", role: "region", aria: { label: `Rows of ${nameOf(view)}` } }, h("table", {}, h("caption", { class: "hidden" }, `Rows of ${nameOf(view)}`), head, body));
  let changed = 0;
  let begun = false;
  const draw = () => {
    let size = 0;
    rows.forEach((row) => { size += row.times; });
    fill(status, `${count(size)} rows, ${count(changed)} changes since the page follows${rows.size > ROWS_SHOWN ? `; the first ${ROWS_SHOWN} rows are shown` : ""}`);
    const now = Date.now();
    fill(body, [...rows.values()].slice(0, ROWS_SHOWN).map((row) => h("tr", { class: begun && now - row.at < 900 ? "fresh" : null },
      row.values.map((value, at) => h("td", { class: /^(smallint|integer|bigint|real|double|numeric)/i.test(columns[at]?.type ?? "") ? "number" : null }, value ?? h("span", { class: "faint" }, "NULL"))))));
    if (rows.size === 0) fill(body, h("tr", {}, h("td", { colspan: String(columns.length || 1) }, empty("The view has no rows."))));
  };
  const timer = setInterval(() => { if (begun) draw(); }, 1000);
  const stop = follow(view.schema, view.view, {
    columns: (told) => {
      columns = told;
      fill(head, h("tr", {}, told.map((column) => h("th", { scope: "col" }, column.name))));
      fill(place, status, table);
      draw();
    },
    changes: ({ changes }) => {
      const now = Date.now();
      // A row that goes and one that comes in its stead stand in one event: the new one takes the old one's place.
      for (const [sign, values] of changes) {
        const key = JSON.stringify(values);
        const row = rows.get(key);
        if (sign === "+") rows.set(key, { values, times: (row?.times ?? 0) + 1, at: begun ? now : 0 });
        else if (row && row.times > 1) row.times -= 1;
        else if (row) rows.delete(key);
      }
      if (begun) changed += changes.length;
      begun = true;
      draw();
    },
    refused: (error) => { clearInterval(timer); fill(place, problem(error)); },
  });
  return () => { clearInterval(timer); stop(); };
}
