// Tables with their memory, and the accounts of the memory in use.

import { sqlOf } from "../api.js";
import { bars } from "../chart.js";
import { card, empty, fill, h } from "../dom.js";
import { bytes, count, objects, percent } from "../format.js";
import { Table } from "../table.js";

export const title = "Tables and memory";
export const panels = ["memory"];

export function make() {
  const picture = h("div");
  const accounts = new Table("Accounts", [
    { key: "account", label: "Account" },
    { key: "session", label: "Session", numeric: true, show: (row) => row.session ?? "database" },
    { key: "bytes", label: "Memory", numeric: true, show: (row) => bytes(row.bytes) },
    { key: "limit_bytes", label: "Limit", numeric: true, show: (row) => (row.limit_bytes ? bytes(row.limit_bytes) : "–") },
    { key: "refusals", label: "Refused", numeric: true, show: (row) => (row.refusals === null ? "–" : count(row.refusals)) },
  ], { sortBy: "bytes" });
  const tables = new Table("Tables", [
    { key: "name", label: "Table", show: (row) => h("a", { href: `#/query?sql=${encodeURIComponent(`SELECT * FROM ${row.name} LIMIT 100`)}` }, row.name) },
    { key: "rows", label: "Rows", numeric: true, show: (row) => count(row.rows) },
    { key: "row_bytes", label: "Rows' memory", numeric: true, show: (row) => bytes(row.row_bytes) },
    { key: "index_bytes", label: "Indexes' memory", numeric: true, show: (row) => bytes(row.index_bytes ?? 0) },
    { key: "per_row", label: "Per row", numeric: true, show: (row) => (row.per_row === null ? "–" : bytes(Math.round(row.per_row))) },
    { key: "partitions", label: "Partitions", numeric: true, show: (row) => count(row.partitions) },
    { key: "free", label: "Free places", numeric: true, show: (row) => percent(row.free) },
  ], { sortBy: "row_bytes", none: "There is no table yet." });

  function show(panel, data) {
    if (panel !== "memory") return;
    const rows = objects(data.queries.tables);
    for (const row of rows) {
      row.name = `${row.schema}.${row.relation}`;
      for (const key of ["rows", "row_bytes", "index_bytes", "free_slots"]) row[key] = row[key] === null ? null : Number(row[key]);
      row.per_row = row.rows ? (row.row_bytes + (row.index_bytes ?? 0)) / row.rows : null;
      row.free = row.rows + row.free_slots > 0 ? (100 * row.free_slots) / (row.rows + row.free_slots) : 0;
    }
    const largest = [...rows].sort((a, b) => b.row_bytes + b.index_bytes - a.row_bytes - a.index_bytes).slice(0, 12);
    fill(picture, largest.length === 0 ? empty("There is no table yet.") : bars(largest.map((row) => ({ name: row.name, value: row.row_bytes + (row.index_bytes ?? 0), text: bytes(row.row_bytes + (row.index_bytes ?? 0)) })), "Memory of the largest tables, indexes included"));
    tables.show(rows);
    accounts.show(objects(data.queries.accounts));
  }
  const element = h("div", { class: "grid" },
    card("Largest tables", { sql: sqlOf("memory", "tables"), note: "Rows and indexes together." }, picture),
    card("Accounts", { sql: sqlOf("memory", "accounts"), note: "Shares of sessions are seen by their roles and superusers, shares of the database by superusers." }, accounts.element),
    card("Tables", { wide: true, sql: sqlOf("memory", "tables") }, tables.element));
  return { element, show };
}
