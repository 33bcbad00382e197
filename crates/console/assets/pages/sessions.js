// Sessions, and who waits for whom; both can be cancelled and ended from here.

import { ask, sqlOf } from "../api.js";
import { progress } from "../chart.js";
import { card, confirmed, empty, fill, h, svg, toast } from "../dom.js";
import { bytes, count, objects, since } from "../format.js";
import { Table } from "../table.js";

export const title = "Sessions and locks";
export const panels = ["sessions"];

async function carryOut(title, sql, verb) {
  if (!(await confirmed(title, sql, verb))) return;
  try {
    const { rows } = await ask(sql);
    toast(rows[0]?.[0] === "t" ? `${verb}: done.` : `${verb}: there is no such session any more.`, rows[0]?.[0] !== "t");
  } catch (refusal) {
    toast(refusal.message, true);
  }
}

const cancelOf = (session) => carryOut(`Cancel the statement of session ${session}?`, `SELECT pg_cancel_backend(${session})`, "Cancel the statement");
const endOf = (session) => carryOut(`End session ${session}? What its transaction has not committed is rolled back.`, `SELECT pg_terminate_backend(${session})`, "End the session");

/// Who waits for whom: [{ waiter, holder, on }].
export function waits(locks) {
  const found = [];
  for (const waiting of locks.filter((lock) => !lock.granted)) {
    for (const held of locks.filter((lock) => lock.granted && lock.partition_id === waiting.partition_id && lock.session !== waiting.session)) {
      if (waiting.mode === "shared" && held.mode === "shared") continue;
      found.push({ waiter: waiting.session, holder: held.session, on: `${waiting.schema}.${waiting.relation}`, mode: waiting.mode });
    }
  }
  return found;
}

const WIDTH = 190;
const HEIGHT = 54;

function graph(edges, sessions) {
  const names = new Map(sessions.map((row) => [row.session, row]));
  const nodes = new Map();
  for (const { waiter, holder } of edges) for (const session of [waiter, holder]) nodes.set(session, 0);
  // A session that holds stands at the left, a waiter one column further than those it waits for.
  for (let round = 0; round < nodes.size; round += 1) {
    for (const { waiter, holder } of edges) nodes.set(waiter, Math.min(Math.max(nodes.get(waiter), nodes.get(holder) + 1), nodes.size - 1));
  }
  const columns = [];
  for (const [session, column] of nodes) (columns[column] ??= []).push(session);
  const filled = columns.filter(Boolean);
  const at = new Map();
  filled.forEach((column, x) => column.forEach((session, y) => at.set(session, { x: x * (WIDTH + 130) + 8, y: y * (HEIGHT + 22) + 8 })));
  const width = filled.length * (WIDTH + 130) - 114;
  const height = Math.max(...filled.map((column) => column.length)) * (HEIGHT + 22) + 8;
  const lines = edges.map(({ waiter, holder, on }) => {
    const [from, to] = [at.get(waiter), at.get(holder)];
    const [x1, y1, x2, y2] = [from.x, from.y + HEIGHT / 2, to.x + WIDTH, to.y + HEIGHT / 2];
    return svg("g", {}, svg("path", { class: "wait", d: `M${x1} ${y1}C${x1 - 45} ${y1} ${x2 + 45} ${y2} ${x2 + 6} ${y2}`, "marker-end": "url(#arrow)" }),
      svg("text", { class: "wait-name", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 5, "text-anchor": "middle" }, short(on, 20)));
  });
  const boxes = [...at].map(([session, { x, y }]) => {
    const row = names.get(session);
    const waitsToo = edges.some((edge) => edge.waiter === session);
    return svg("g", { transform: `translate(${x} ${y})` },
      svg("rect", { class: waitsToo ? "node waits" : "node", width: WIDTH, height: HEIGHT, rx: 8 }),
      svg("text", { class: "node-name", x: 12, y: 22 }, short(`${session} · ${row?.role ?? "?"}`, 24)),
      svg("text", { class: "node-more", x: 12, y: 41 }, short(row?.statement ?? row?.state ?? "", 27)));
  });
  const told = edges.map(({ waiter, holder, on }) => `session ${waiter} waits for session ${holder} on ${on}`).join("; ");
  return h("div", { class: "scroll", tabindex: "0", role: "region", aria: { label: "Graph of waits" } },
    svg("svg", { class: "graph", role: "img", "aria-label": told, viewBox: `0 0 ${width} ${height}`, width, height },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, svg("path", { class: "arrow", d: "M0 0L8 4L0 8z" }))),
      lines, boxes));
}

/// How much is done, of how much, in the work's unit.
function amounts({ unit, done, total }) {
  const amount = unit === "bytes" ? bytes : count;
  return `${amount(done)}${total === null ? "" : ` of ${amount(total)}`}${unit === "bytes" ? "" : ` ${unit}`}`;
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function make() {
  const picture = h("div", {}, empty("Nobody waits for a lock."));
  const list = new Table("Sessions", [
    { key: "session", label: "Session", numeric: true },
    { key: "role", label: "Role" },
    { key: "application", label: "Application" },
    { key: "client", label: "Client", show: (row) => row.client ?? "within the process" },
    { key: "state", label: "State", show: (row) => h("span", { class: `state ${row.state.startsWith("waiting") ? "warn" : row.state === "active" ? "good" : ""}` }, row.state) },
    { key: "transaction_started", label: "Transaction for", show: (row) => (row.transaction_started ? since(row.transaction_started) : "–") },
    {
      label: "", hiddenLabel: "Cancel and end", sort: false, show: (row) => h("div", { class: "buttons" },
        h("button", { type: "button", class: "small", data: { key: `c${row.session}` }, onclick: () => cancelOf(row.session), aria: { label: `Cancel the statement of session ${row.session}` } }, "Cancel"),
        h("button", { type: "button", class: "small danger", data: { key: `t${row.session}` }, onclick: () => endOf(row.session), aria: { label: `End session ${row.session}` } }, "End")),
    },
    { key: "statement_started", label: "Statement", long: true, show: (row) => (row.statement ? [row.state === "active" && h("span", { class: "faint" }, `${since(row.statement_started)} · `), h("code", { title: row.statement }, short(row.statement.replace(/\s+/g, " "), 200))] : "–") },
  ], { sortBy: "session", descending: false });
  const works = new Table("Work that lasts", [
    { key: "work", label: "Work", numeric: true },
    { key: "command", label: "Command", show: (row) => [row.part_of !== null && h("span", { class: "faint" }, `of ${row.part_of} · `), row.command] },
    { key: "relation", label: "Of", show: (row) => (row.relation === null ? "–" : [`${row.schema}.${row.relation}`, row.index && h("span", { class: "faint" }, ` · ${row.index}`)]) },
    { key: "phase", label: "Phase" },
    { key: "percent", label: "Progress", show: (row) => progress(row.percent, `${row.command} of work ${row.work}`) },
    { key: "done", label: "Done", numeric: true, show: (row) => amounts(row) },
    { key: "started", label: "Since", show: (row) => since(row.started) },
    { key: "session", label: "Session", numeric: true, show: (row) => row.session ?? "the database" },
  ], { sortBy: "work", descending: false, none: "Nothing that lasts is under way." });
  const queue = new Table("Statements that wait to be let in", [
    { key: "connection_id", label: "Session", numeric: true },
    { key: "workload_class_name", label: "Class" },
    { key: "user_name", label: "Role" },
    { key: "enqueue_time", label: "Waits for", show: (row) => since(row.enqueue_time) },
    { key: "statement_string", label: "Statement", long: true, show: (row) => short((row.statement_string ?? "").replace(/\s+/g, " "), 100) },
  ], { none: "No statement waits at the gate." });

  function show(panel, data) {
    if (panel !== "sessions") return;
    const sessions = objects(data.queries.sessions);
    const edges = waits(objects(data.queries.locks));
    fill(picture, edges.length === 0 ? empty("Nobody waits for a lock.") : graph(edges.slice(0, 60), sessions));
    list.show(sessions);
    works.show(objects(data.queries.progress));
    queue.show(objects(data.queries.queue));
  }
  const element = h("div", { class: "grid" },
    card("Who waits for whom", { wide: true, sql: sqlOf("sessions", "locks"), note: "An arrow points from a session that waits to one that holds the lock." }, picture),
    card("Sessions", { wide: true, sql: sqlOf("sessions", "sessions"), note: "Statements of other roles are shown to superusers." }, list.element),
    card("Work that lasts", { wide: true, sql: sqlOf("sessions", "progress"), note: "COPY, indexes, views, changes of tables, writes of many rows, exports and checkpoints." }, works.element),
    card("At the gate", { wide: true, sql: sqlOf("sessions", "queue") }, queue.element));
  return { element, show };
}
