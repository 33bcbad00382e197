// Workload classes and mappings: what they promise, what comes of it, and forms that show their SQL first.

import { Refusal, ask, self, sqlOf } from "../api.js";
import { card, empty, field, fill, h, problem, toast } from "../dom.js";
import { count, literal, ms, objects, percent, quoted, since } from "../format.js";
import { Table } from "../table.js";

export const title = "Workload";
export const panels = ["workload"];

// Keys of CREATE WORKLOAD CLASS: name, column that shows the value, hint.
const CLASS_KEYS = [
  ["PRIORITY", "priority", "0 to 9, the higher the sooner; 5 without one"],
  ["LATENCY TARGET P99", "latency_target_p99", "such as 50ms"],
  ["LATENCY TARGET P50", "latency_target_p50", "such as 5ms"],
  ["CONCURRENCY LIMIT", "concurrency_limit", "statements at a time"],
  ["QUEUE LIMIT", "queue_limit", "statements that wait"],
  ["QUEUE TIMEOUT", "queue_timeout", "such as 10s"],
  ["STATEMENT MEMORY LIMIT", "statement_memory_limit", "such as 2GB or 25%"],
  ["TOTAL STATEMENT MEMORY LIMIT", "total_statement_memory_limit", "such as 50%"],
  ["STATEMENT THREAD LIMIT", "statement_thread_limit", "workers of a statement"],
  ["TOTAL STATEMENT THREAD LIMIT", "total_statement_thread_limit", "workers of the class"],
  ["STATEMENT TIMEOUT", "statement_timeout", "such as 30s"],
  ["CONNECTION LIMIT", "connection_limit", "connections at a time"],
];
const MAPPING_KEYS = [
  ["APPLICATION NAME", "application_name", "application_name of the client"],
  ["USER NAME", "user_name", "role"],
  ["USERGROUP NAME", "usergroup_name", "role that the role is a member of"],
  ["CLIENT", "client", "session_context.client"],
];

/// The settings that a form has values for, as SQL.
function settings(inputs) {
  const given = inputs.filter(([, input]) => input.value.trim() !== "");
  return given.map(([key, input]) => {
    const value = input.value.trim();
    return `'${key}' = ${/^\d+(\.\d+)?$/.test(value) ? value : literal(value)}`;
  }).join(", ");
}

/// A form whose SQL is shown while it is filled in, and run when it is sent.
function sqlForm(label, controls, sqlOfForm, verb) {
  const shown = h("code");
  const told = h("div", { role: "status" });
  const button = h("button", { class: "primary" }, verb);
  const update = () => {
    const sql = sqlOfForm();
    fill(shown, sql ?? "-- give a name, and at least one value");
    button.disabled = !sql || !self().superuser;
  };
  const form = h("form", {
    class: "sql-form", aria: { label }, oninput: update, onchange: update,
    onsubmit: async (event) => {
      event.preventDefault();
      const sql = sqlOfForm();
      if (!sql) return;
      button.disabled = true;
      try {
        const { tag } = await ask(sql);
        fill(told);
        toast(`${tag}: done.`);
      } catch (refusal) {
        fill(told, problem(refusal instanceof Refusal ? refusal.error : { message: "The server does not answer." }));
      }
      update();
    },
  }, controls, h("pre", { tabindex: "0", role: "group", aria: { label: `SQL of: ${label}` } }, shown), told, button);
  update();
  return { form, update };
}

function inputs(keys) {
  return keys.map(([key, , hint]) => {
    const input = h("input", { type: "text", spellcheck: "false", maxlength: "200" });
    return [key, input, field(key.toLowerCase().replace(/^./, (c) => c.toUpperCase()), input, hint)];
  });
}

const picker = (values) => h("select", {}, values.map((value) => h("option", { value }, value || "none")));

export function make() {
  let definitions = [];
  const action = picker(["CREATE", "ALTER", "DROP"]);
  const name = h("input", { type: "text", maxlength: "63", spellcheck: "false" });
  const classInputs = inputs(CLASS_KEYS);
  const classForm = sqlForm("Class", [
    h("div", { class: "fields" }, field("Do", action), field("Class", name)),
    h("div", { class: "fields" }, classInputs.map(([, , element]) => element)),
  ], () => {
    const given = settings(classInputs);
    if (name.value.trim() === "") return null;
    if (action.value === "DROP") return `DROP WORKLOAD CLASS ${quoted(name.value.trim())}`;
    if (given === "" && action.value === "ALTER") return null;
    return `${action.value} WORKLOAD CLASS ${quoted(name.value.trim())}${given ? ` SET ${given}` : ""}`;
  }, "Run");
  const mapAction = picker(["CREATE", "DROP"]);
  const mapName = h("input", { type: "text", maxlength: "63", spellcheck: "false" });
  const mapClass = h("input", { type: "text", maxlength: "63", spellcheck: "false" });
  const wildcard = h("input", { type: "checkbox" });
  const mapInputs = inputs(MAPPING_KEYS);
  const mapForm = sqlForm("Mapping", [
    h("div", { class: "fields" }, field("Do", mapAction), field("Mapping", mapName), field("Class", mapClass)),
    h("div", { class: "fields" }, mapInputs.map(([, , element]) => element)),
    field("% stands for any rest of a value", wildcard),
  ], () => {
    const given = settings(mapInputs);
    if (mapName.value.trim() === "") return null;
    if (mapAction.value === "DROP") return `DROP WORKLOAD MAPPING ${quoted(mapName.value.trim())}`;
    if (given === "" || mapClass.value.trim() === "") return null;
    return `CREATE WORKLOAD MAPPING ${quoted(mapName.value.trim())} WORKLOAD CLASS ${quoted(mapClass.value.trim())} SET ${given}${wildcard.checked ? " WITH WILDCARD" : ""}`;
  }, "Run");
  const brake = picker(["OFF", "LIGHT", "FULL"]);
  const brakeForm = sqlForm("Brake", [field("Brake", brake, "LIGHT holds back what is below the default priority, FULL everything but classes mapped to _ADMIN.")],
    () => `ALTER SYSTEM SET WORKLOAD BRAKE = ${brake.value}`, "Run");

  const edit = (row) => {
    action.value = "ALTER";
    name.value = row.workload_class_name;
    for (const [, input] of classInputs) input.value = "";
    classForm.update();
    name.focus();
  };
  const value = (amount, unit) => (amount === null ? null : `${amount}${unit ? ` ${unit.toLowerCase().replace("percent", "%")}` : ""}`);
  const classes = new Table("Workload classes", [
    { key: "workload_class_name", label: "Class", show: (row) => h("button", { type: "button", class: "link", data: { key: row.workload_class_name }, onclick: () => edit(row), aria: { label: `Change class ${row.workload_class_name}` } }, row.workload_class_name) },
    { key: "parent_workload_class_name", label: "Below" },
    { key: "priority", label: "Priority", numeric: true },
    { key: "latency_target_p99", label: "Target p99", numeric: true, show: (row) => (row.latency_target_p99 === null ? "–" : ms(row.latency_target_p99)) },
    { key: "p99", label: "p99", numeric: true, show: (row) => ms(row.p99) },
    { key: "attainment", label: "Kept", numeric: true, show: (row) => (row.attainment === null ? "–" : percent(row.attainment)) },
    { key: "running", label: "Running", numeric: true, show: (row) => count(row.running) },
    { key: "queue", label: "Waiting", numeric: true, show: (row) => count(row.queue) },
    { key: "concurrency_limit", label: "At a time", numeric: true },
    { key: "statement_memory_limit", label: "Statement's memory", show: (row) => value(row.statement_memory_limit, row.statement_memory_limit_unit) },
    { key: "statement_timeout", label: "Timeout, s", numeric: true },
    { key: "rejected", label: "Turned away", numeric: true, show: (row) => count(row.rejected) },
  ], { sortBy: "priority" });
  const mappings = new Table("Mappings", [
    { key: "workload_mapping_name", label: "Mapping" },
    { key: "workload_class_name", label: "Class" },
    { key: "conditions", label: "Of sessions with" },
    { key: "wildcard", label: "Wildcard" },
    { key: "is_enabled", label: "Enabled", show: (row) => (row.is_enabled ? "yes" : "no") },
  ], { none: "There is no mapping yet: every statement is of _DEFAULT." });
  const controllers = new Table("Latency targets and their controllers", [
    { key: "workload_class_name", label: "Class" },
    { key: "quantile", label: "Quantile" },
    { key: "target_ms", label: "Target", numeric: true, show: (row) => ms(row.target_ms) },
    { key: "measured_ms", label: "Measured", numeric: true, show: (row) => ms(row.measured_ms) },
    { key: "state", label: "State", show: (row) => h("span", { class: row.state === "KEPT" ? "good" : "warn" }, row.state) },
    { key: "last_action", label: "Last action" },
    { key: "reason", label: "Why" },
    { key: "threads_given_up", label: "Workers given up below", numeric: true },
  ], { none: "No class has a latency target." });
  const events = new Table("Decisions", [
    { key: "event_time", label: "Ago", show: (row) => since(row.event_time) },
    { key: "event_type", label: "Decision" },
    { key: "workload_class_name", label: "Class" },
    { key: "connection_id", label: "Session", numeric: true },
    { key: "wait_ms", label: "Waited", numeric: true, show: (row) => ms(row.wait_ms) },
    { key: "event_reason", label: "Why" },
  ], { sortBy: "event_time", none: "Nobody was held up." });

  function show(panel, data) {
    if (panel !== "workload") return;
    const by = (query) => new Map(objects(data.queries[query]).map((row) => [row.workload_class_name, row]));
    const [statistics, latency, admission] = [by("classes"), by("latency"), by("admission")];
    definitions = objects(data.queries.definitions);
    for (const row of definitions) {
      const key = row.workload_class_name;
      row.running = statistics.get(key)?.running_statements ?? 0;
      row.p99 = latency.get(key)?.p99_ms ?? null;
      row.attainment = latency.get(key)?.attainment ?? null;
      row.queue = admission.get(key)?.current_queue_size ?? 0;
      row.rejected = admission.get(key)?.reject_count ?? 0;
    }
    classes.show(definitions);
    const plain = new Set(["workload_mapping_name", "workload_class_name", "wildcard", "is_enabled", "conditions"]);
    mappings.show(objects(data.queries.mappings).map((row) => ({
      ...row, conditions: Object.entries(row).filter(([key, value]) => value !== null && !plain.has(key)).map(([key, value]) => `${key.replaceAll("_", " ")} = ${value}`).join(", "),
    })));
    controllers.show(objects(data.queries.controller));
    events.show(objects(data.queries.events));
  }
  const forSuperusers = self().superuser ? null : empty("Classes and mappings are made by superusers: the forms show the SQL and do not run it.");
  const element = h("div", { class: "grid" },
    card("Classes", { wide: true, sql: ["definitions", "classes", "latency", "admission"].map((query) => sqlOf("workload", query)) }, classes.element),
    card("Targets", { wide: true, sql: sqlOf("workload", "controller") }, controllers.element),
    card("Mappings", { wide: true, sql: sqlOf("workload", "mappings") }, mappings.element),
    card("Make or change a class", { note: "The SQL below is what is run." }, forSuperusers, classForm.form),
    h("div", { class: "stack" },
      card("Make or drop a mapping", { note: "The SQL below is what is run." }, mapForm.form),
      card("Brake", {}, brakeForm.form)),
    card("Decisions of the gate and of rules", { wide: true, sql: sqlOf("workload", "events") }, events.element));
  return { element, show };
}
