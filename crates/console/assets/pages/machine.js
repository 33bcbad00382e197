// What the machine has and withholds, and how much other work disturbs each worker.

import { Refusal, get, sqlOf } from "../api.js";
import { card, empty, fill, h, problem } from "../dom.js";
import { count, ms, objects, percent } from "../format.js";
import { Table } from "../table.js";

export const title = "Machine";
export const panels = ["machine"];

const STATES = { present: ["present", "good"], absent: ["absent", "faint"], not_permitted: ["not permitted", "warn"] };

export function make() {
  let before = null;
  const report = h("div", {}, h("p", { class: "note" }, "Looking…"));
  const facts = h("dl", { class: "facts" });
  const noise = new Table("Noise by worker", [
    { key: "worker", label: "Worker", numeric: true },
    { key: "plane", label: "Plane" },
    { key: "island", label: "Island", numeric: true },
    { key: "processors", label: "Processors", show: (row) => row.processors ?? "any" },
    { key: "state", label: "State" },
    { key: "busy", label: "Busy", numeric: true, show: (row) => percent(row.busy) },
    { key: "delayed", label: "Ready, but not running", numeric: true, show: (row) => (row.delayed > 5 ? h("span", { class: "warn" }, percent(row.delayed)) : percent(row.delayed)) },
    { key: "longest_ms", label: "Longest without a look", numeric: true, show: (row) => ms(row.longest_ms) },
    { key: "tasks", label: "Tasks", numeric: true, show: (row) => count(row.tasks) },
    { key: "suspensions", label: "Stops", numeric: true, show: (row) => count(row.suspensions) },
    { key: "sleeps", label: "Sleeps", numeric: true, show: (row) => count(row.sleeps) },
  ], { sortBy: "worker", descending: false, none: "No workers yet: the first analytical statement starts them." });

  function show(panel, data) {
    if (panel !== "machine") return;
    const rows = objects(data.queries.workers);
    const seconds = before ? (data.at - before.at) / 1000 : null;
    for (const row of rows) {
      const was = before?.rows.get(row.worker);
      const share = (key) => (seconds && was && row[key] >= was[key] ? Math.min(100, (row[key] - was[key]) / seconds / 10) : null);
      row.busy = share("busy_ms");
      row.delayed = share("run_delay_ms");
    }
    before = { at: data.at, rows: new Map(rows.map((row) => [row.worker, row])) };
    noise.show(rows);
  }

  get("/api/machine").then((told) => {
    const { topology } = told;
    const list = [
      ["Kernel", told.kernel], ["Processors", count(topology.processors.length)], ["NUMA nodes", count(topology.nodes.length)],
      ["Switched off", count(topology.offline.length)], ["Time-stamp counter", `${told.ticks_per_us.toFixed(0)} ticks per µs, read in ${told.tick_read} ticks`],
      ["Spread of calibrations", `${told.tick_spread_ppm.toFixed(1)} ppm`],
    ];
    fill(facts, list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const table = new Table("Features", [
      { key: "name", label: "Feature" },
      { key: "state", label: "State", show: (row) => h("span", { class: STATES[row.state]?.[1] }, STATES[row.state]?.[0] ?? row.state) },
      { key: "why", label: "Why" },
      { key: "action", label: "What Halcyon does" },
    ], {});
    table.show(told.features);
    fill(report, table.element);
  }, (refusal) => {
    const message = refusal instanceof Refusal ? refusal.error : { message: "The server does not answer." };
    fill(facts);
    fill(report, refusal.status === 403 ? empty(message.message) : problem(message));
  });
  const element = h("div", { class: "grid" },
    card("Noise by worker", { wide: true, sql: sqlOf("machine", "workers"), note: "A worker that is ready and does not run has lost its processor to something else." }, noise.element),
    card("Processors and clock", { note: "As halcyon machine prints it." }, facts),
    card("Features", { wide: true, note: "As halcyon machine prints it; for superusers." }, report));
  return { element, show };
}
