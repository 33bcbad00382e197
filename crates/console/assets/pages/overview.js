// What the server does now: statements and their latency by class, workers, memory, log, sessions.

import { sqlOf } from "../api.js";
import { HeatMap, Lines, SPAN, bars, swatch } from "../chart.js";
import { card, empty, fill, h } from "../dom.js";
import { bytes, count, ms, objects, percent, rate, since } from "../format.js";
import { Table } from "../table.js";

export const title = "Overview";
export const panels = ["overview"];

// The last minutes of samples: pages come and go, the history stays.
const history = [];

/// Takes a sample. Rates are differences between two samples; counters that went back begin anew.
export function remember(data) {
  const at = data.at / 1000;
  const before = history.at(-1);
  if (before && at <= before.at) return;
  const queries = data.queries;
  const classes = new Map(objects(queries.classes).map((row) => [row.workload_class_name, row]));
  const latency = new Map(objects(queries.latency).map((row) => [row.workload_class_name, row]));
  const workers = objects(queries.workers);
  const sample = { at, data, classes, latency, workers, rates: new Map(), shares: [], classBusy: new Map(), commits: null };
  if (before && at - before.at < 30) {
    const seconds = at - before.at;
    const grown = (now, was) => (was !== undefined && now >= was ? (now - was) / seconds : null);
    for (const [name, row] of classes) {
      const was = before.classes.get(name);
      sample.rates.set(name, { statements: grown(row.statement_count, was?.statement_count), errors: grown(row.error_count, was?.error_count) });
      sample.classBusy.set(name, grown(row.busy_ms, was?.busy_ms));
    }
    const busy = new Map(before.workers.map((row) => [row.worker, row.busy_ms]));
    sample.shares = workers.map((row) => Math.min(1, (grown(row.busy_ms, busy.get(row.worker)) ?? 0) / 1000));
    const log = objects(queries.log)[0];
    const logBefore = objects(before.data.queries.log)[0];
    if (log && logBefore) sample.commits = grown(log.commits, logBefore.commits);
  }
  history.push(sample);
  while (history[0].at < at - SPAN) history.shift();
}

const used = (sample) => [...sample.classes.keys()].filter((name) => sample.classes.get(name).statement_count > 0 || sample.classes.get(name).running_statements > 0);

function tile(label) {
  const value = h("b", {}, "–");
  const more = h("span", { class: "faint" });
  return { element: h("div", { class: "tile" }, h("span", { class: "tile-label" }, label), value, more), set: (text, note) => { fill(value, text); fill(more, note ?? ""); } };
}

export function make() {
  const tiles = {
    statements: tile("Statements per second"),
    errors: tile("Errors per second"),
    busy: tile("Workers busy"),
    memory: tile("Memory in use"),
    sessions: tile("Sessions"),
    log: tile("Log since the checkpoint"),
  };
  const statements = new Lines("Statements per second by workload class", rate);
  const latency = new Lines("99th percentile of latency by workload class", ms, { log: true });
  const heat = new HeatMap("Busy share of workers over the last three minutes");
  const classes = new Table("Workload classes", [
    { key: "name", label: "Class", show: (row) => [swatch(row.name), row.name] },
    { key: "running", label: "Running", numeric: true, show: (row) => count(row.running) },
    { key: "rate", label: "Per second", numeric: true, show: (row) => rate(row.rate) },
    { key: "p50", label: "p50", numeric: true, show: (row) => ms(row.p50) },
    { key: "p95", label: "p95", numeric: true, show: (row) => ms(row.p95) },
    { key: "p99", label: "p99", numeric: true, show: (row) => ms(row.p99) },
    { key: "target", label: "Target", show: (row) => row.target ?? "none" },
    { key: "attainment", label: "Kept", numeric: true, show: (row) => (row.attainment === null ? "–" : h("span", { class: row.attainment < 95 ? "warn" : "good" }, percent(row.attainment))) },
    { key: "busy", label: "Workers", numeric: true, show: (row) => (row.busy === null ? "–" : (row.busy / 1000).toFixed(2)) },
    { key: "memory", label: "Memory", numeric: true, show: (row) => bytes(row.memory) },
  ], { sortBy: "rate" });
  const accounts = h("div");
  const states = h("div");
  const log = h("dl", { class: "facts" });
  const noWorkers = empty("No workers yet: the first analytical statement starts them.");

  function add(sample, draw) {
    const names = used(sample);
    if (sample.rates.size > 0) {
      statements.add(sample.at, Object.fromEntries(names.map((name) => [name, sample.rates.get(name)?.statements ?? null])));
      heat.names = sample.workers.map((row) => `worker ${row.worker}`);
      if (sample.workers.length > 0) heat.columns.push(sample.shares);
      if (heat.columns.length > SPAN) heat.columns.shift();
    }
    latency.add(sample.at, Object.fromEntries([...sample.latency.values()].map((row) => [row.workload_class_name, row.p99_ms])));
    if (draw) heat.rebuild();
  }

  function show(_, data) {
    const sample = history.at(-1);
    if (!sample || sample.data !== data) return;
    add(sample, true);
    noWorkers.hidden = sample.workers.length > 0;
    heat.element.hidden = sample.workers.length === 0;
    const sum = (key) => [...sample.rates.values()].reduce((all, row) => all + (row[key] ?? 0), 0);
    const running = [...sample.classes.values()].reduce((all, row) => all + row.running_statements, 0);
    tiles.statements.set(sample.rates.size ? rate(sum("statements")) : "–", `${count(running)} running`);
    tiles.errors.set(sample.rates.size ? rate(sum("errors")) : "–", "");
    const busy = sample.shares.reduce((all, share) => all + share, 0);
    tiles.busy.set(sample.workers.length ? percent((100 * busy) / sample.workers.length) : "–", `${count(sample.workers.length)} workers`);
    const all = objects(data.queries.accounts);
    const total = all.find((row) => row.account === "total");
    tiles.memory.set(bytes(total?.bytes), total ? `of ${bytes(total.limit_bytes)}, ${count(total.refusals)} refused` : "for superusers");
    fill(accounts, all.length === 0 ? empty("The database's accounts are shown to superusers.")
      : bars(all.filter((row) => row.account !== "total").sort((a, b) => b.bytes - a.bytes).map((row) => ({ name: row.account, value: row.bytes, text: bytes(row.bytes) })), "Memory by account"));
    const sessions = objects(data.queries.sessions).sort((a, b) => b.sessions - a.sessions);
    const active = sessions.filter((row) => row.state !== "idle").reduce((n, row) => n + row.sessions, 0);
    tiles.sessions.set(count(sessions.reduce((n, row) => n + row.sessions, 0)), `${count(active)} not idle`);
    fill(states, bars(sessions.map((row) => ({ name: row.state, value: row.sessions, text: count(row.sessions) })), "Sessions by state"));
    showLog(objects(data.queries.log)[0], sample);
    classes.show(used(sample).map((name) => {
      const row = sample.classes.get(name);
      const recent = sample.latency.get(name);
      return {
        name, running: row.running_statements, rate: sample.rates.get(name)?.statements ?? null, busy: sample.classBusy.get(name) ?? null, memory: row.used_memory,
        p50: recent?.p50_ms ?? null, p95: recent?.p95_ms ?? null, p99: recent?.p99_ms ?? null, target: recent?.target ?? null, attainment: recent?.attainment ?? null,
      };
    }));
  }

  function showLog(row, sample) {
    if (!row) {
      tiles.log.set("none", "the database lives in memory");
      return fill(log, h("div", { class: "wide" }, h("dt", {}, "There is none"), h("dd", {}, "This database lives in memory alone. The server keeps it on disk when it is started with --data.")));
    }
    tiles.log.set(bytes(row.bytes), row.error ? h("span", { class: "warn" }, "no commits are taken") : `${rate(sample.commits)} commits per second`);
    const facts = [
      ["Next record at", row.end_lsn], ["Durable up to", row.durable_lsn], ["Last checkpoint at", row.checkpoint_lsn],
      ["Checkpoint done", row.checkpointed ? `${since(row.checkpointed)} ago` : "not since the start"], ["Files", count(row.files)],
      ["Commits since the start", count(row.commits)], ["Syncs", count(row.syncs)], ["Time per sync", row.syncs ? ms(row.sync_ms / row.syncs) : "–"],
    ];
    fill(log, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))),
      row.error && h("div", {}, h("dt", {}, "Error"), h("dd", { class: "warn" }, row.error)));
  }

  const sampled = "Of look-ups one in 16 is counted, unless their class has a target or limits their number.";
  const element = h("div", { class: "grid" },
    h("div", { class: "tiles wide" }, Object.values(tiles).map((one) => one.element)),
    card("Statements per second", { sql: sqlOf("overview", "classes"), note: sampled }, statements.element),
    card("Latency, p99", { sql: sqlOf("overview", "latency"), note: "Of the last minute, from a statement's beginning to its last row." }, latency.element),
    card("Workload classes", { wide: true, sql: [sqlOf("overview", "classes"), sqlOf("overview", "latency")] }, classes.element),
    card("Workers", { wide: true, sql: sqlOf("overview", "workers"), note: "Each row is a worker, each column a second: the brighter, the busier." }, noWorkers, heat.element),
    card("Memory by account", { sql: sqlOf("overview", "accounts") }, accounts),
    h("div", { class: "stack" },
      card("Sessions by state", { sql: sqlOf("overview", "sessions") }, states),
      card("Log and checkpoint", { sql: sqlOf("overview", "log") }, log)));
  requestAnimationFrame(() => {
    history.slice(0, -1).forEach((sample) => add(sample, false));
    const newest = history.at(-1);
    if (newest) show("overview", newest.data);
  });
  return { element, show, destroy: () => [statements, latency, heat].forEach((chart) => chart.destroy()) };
}
