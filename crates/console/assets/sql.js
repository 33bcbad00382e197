// The SQL editor: a text field with its words in colour behind it, and completion from the catalog.

import { h, fill, fresh } from "./dom.js";
import { get } from "./api.js";
import { quoted } from "./format.js";

const KEYWORDS = new Set(`ADD ALL ALTER ANALYZE AND ANY AS ASC BEGIN BETWEEN BY CASCADE CASE CAST CHECK CHECKPOINT CLASS COLUMN COMMIT CONFLICT
CONSTRAINT COPY CREATE CROSS CURRENT DEFAULT DELETE DESC DISTINCT DO DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FETCH FILTER FOR FOREIGN FROM
FULL GRANT GROUP HAVING ILIKE IN INDEX INNER INSERT INTERSECT INTERVAL INTO IS ISOLATION JOIN KEY LATERAL LEFT LEVEL LIKE LIMIT LOCK MAINTENANCE
MAPPING MATERIALIZED NATURAL NOT NOTHING NULL OFFSET ON ONLY OR ORDER OUTER OVER PARTITION PRIMARY READ RECURSIVE REFERENCES RELEASE RETURNING
REVOKE RIGHT ROLE ROLLBACK ROW ROWS SAVEPOINT SCHEMA SELECT SEQUENCE SET SHOW STREAM SUBSCRIBE TABLE TEMPORARY THEN TO TRANSACTION TRIGGERS TRUE
TRUNCATE UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH WORKLOAD WRITE BIGINT BOOLEAN DATE DOUBLE INTEGER JSONB NUMERIC PRECISION REAL
SMALLINT TEXT TIMESTAMP TIMESTAMPTZ UUID VARCHAR`.split(/\s+/));
const FUNCTIONS = `abs avg coalesce count current_timestamp date_trunc extract generate_series greatest least length lower max min now nullif
percentile_cont row_number rank lag lead round string_agg array_agg substring sum to_char upper`.split(/\s+/);

const TOKENS = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$)|\$([A-Za-z_]*)\$[\s\S]*?(?:\$\3\$|$))|("(?:[^"]|"")*(?:"|$))|(\$\d+|\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|([A-Za-z_][A-Za-z0-9_$]*)|(\s+|.)/g;

/// A text as pieces: { text, kind }.
export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKENS)) {
    const kind = match[1] ? "comment" : match[2] ? "string" : match[4] ? "name" : match[5] ? "numeral"
      : match[6] ? (KEYWORDS.has(match[6].toUpperCase()) ? "keyword" : "word") : "other";
    found.push({ text: match[0], kind, at: match.index });
  }
  return found;
}

/// A text in colours.
export function coloured(text) {
  return tokens(text).map(({ text, kind }) => (kind === "other" || kind === "word" ? text : h("span", { class: `sql-${kind}` }, text)));
}

/// The statement around a place in a text: from the semicolon before to the one behind.
export function statementAt(text, place) {
  let begin = 0;
  for (const token of tokens(text)) {
    if (token.kind !== "other" || token.text !== ";") continue;
    if (token.at >= place) return text.slice(begin, token.at).trim() || text.slice(begin).trim();
    if (text.slice(token.at + 1).trim() !== "") begin = token.at + 1;
  }
  return text.slice(begin).trim().replace(/;$/, "");
}

class Catalog {
  constructor() {
    this.relations = new Map();
    this.schemas = new Set();
  }

  async load() {
    const { columns } = await get("/api/catalog");
    this.relations.clear();
    this.schemas.clear();
    for (const [schema, relation, column, type] of columns) {
      this.schemas.add(schema);
      const key = `${schema}.${relation}`;
      if (!this.relations.has(key)) this.relations.set(key, { schema, relation, columns: [] });
      this.relations.get(key).columns.push({ column, type });
    }
  }

  byName(name) {
    const parts = name.replaceAll('"', "").split(".");
    for (const relation of this.relations.values()) {
      if (relation.relation === parts.at(-1) && (parts.length === 1 || relation.schema === parts[0])) return relation;
    }
    return null;
  }
}

/// What fits behind `text.slice(0, place)`: { from, items: [{ insert, label, hint }] }.
export function completions(catalog, text, place) {
  const before = text.slice(0, place);
  const word = /[A-Za-z_0-9"]*$/.exec(before)[0];
  const from = place - word.length;
  const start = word.replaceAll('"', "").toLowerCase();
  const statement = statementAt(text, place);
  const items = [];
  const add = (name, hint, insert = quoted(name)) => {
    if (name.toLowerCase().startsWith(start) && name.toLowerCase() !== start) items.push({ insert, label: name, hint });
  };
  const qualifier = /([A-Za-z_0-9".]+)\.$/.exec(text.slice(0, from))?.[1];
  const names = new Map();
  for (const match of statement.matchAll(/\b(?:from|join|update|into)\s+([A-Za-z_0-9".]+)(?:\s+(?:as\s+)?([A-Za-z_][A-Za-z_0-9]*))?/gi)) {
    const relation = catalog.byName(match[1]);
    if (!relation) continue;
    names.set(relation.relation, relation);
    if (match[2] && !KEYWORDS.has(match[2].toUpperCase())) names.set(match[2], relation);
  }
  if (qualifier) {
    const bare = qualifier.replaceAll('"', "");
    const relation = names.get(bare) ?? catalog.byName(bare);
    relation?.columns.forEach(({ column, type }) => add(column, type));
    for (const { schema, relation } of catalog.relations.values()) if (schema === bare) add(relation, "relation");
    return { from, items: items.slice(0, 40) };
  }
  if (/\b(?:from|join|update|into|table|view)\s+$/i.test(text.slice(0, from))) {
    for (const { schema, relation } of catalog.relations.values()) {
      add(relation, schema, schema === "public" ? quoted(relation) : `${quoted(schema)}.${quoted(relation)}`);
    }
    catalog.schemas.forEach((schema) => add(schema, "schema", `${quoted(schema)}.`));
    return { from, items: items.slice(0, 40) };
  }
  if (start === "") return { from, items: [] };
  for (const relation of new Set(names.values())) relation.columns.forEach(({ column, type }) => add(column, `${relation.relation}, ${type}`));
  for (const { schema, relation } of catalog.relations.values()) add(relation, schema, schema === "public" ? quoted(relation) : `${quoted(schema)}.${quoted(relation)}`);
  FUNCTIONS.forEach((name) => add(name, "function", `${name}(`));
  for (const keyword of KEYWORDS) add(keyword.toLowerCase(), "keyword", keyword);
  const seen = new Set();
  return { from, items: items.filter(({ insert }) => !seen.has(insert) && seen.add(insert)).slice(0, 40) };
}

/// The editor's element, with `value`, `selection` and `run`.
export class Editor {
  constructor({ text = "", onRun, onChange }) {
    this.catalog = new Catalog();
    this.onRun = onRun;
    this.onChange = onChange;
    const list = fresh("completion");
    this.behind = h("pre", { class: "editor-behind", aria: { hidden: "true" } });
    this.area = h("textarea", {
      class: "editor-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off", rows: "9",
      value: text,
      aria: { label: "SQL", autocomplete: "list", controls: list, haspopup: "listbox" },
      oninput: () => this.changed(true), onscroll: () => this.align(), onkeydown: (event) => this.key(event), onblur: () => setTimeout(() => this.hide(), 150),
    });
    this.list = h("ul", { class: "completions", id: list, role: "listbox", hidden: true, aria: { label: "Completions" } });
    this.element = h("div", { class: "editor" }, this.behind, this.area, this.list);
    this.changed(false);
    this.catalog.load().catch(() => {});
  }

  get value() { return this.area.value; }
  set value(text) { this.area.value = text; this.changed(false); }

  /// The selected text, else everything.
  get chosen() {
    const { selectionStart, selectionEnd, value } = this.area;
    return selectionStart === selectionEnd ? value : value.slice(selectionStart, selectionEnd);
  }

  get statement() { return statementAt(this.area.value, this.area.selectionStart); }

  changed(typed) {
    fill(this.behind, coloured(this.area.value), "\n");
    this.align();
    this.onChange?.(this.area.value);
    if (typed) this.suggest(false);
  }

  align() {
    this.behind.scrollTop = this.area.scrollTop;
    this.behind.scrollLeft = this.area.scrollLeft;
  }

  suggest(asked) {
    const place = this.area.selectionStart;
    const found = completions(this.catalog, this.area.value, place);
    this.from = found.from;
    if (found.items.length === 0 || (!asked && place - found.from < 1 && !/\.$/.test(this.area.value.slice(0, place)))) return this.hide();
    this.at = 0;
    this.items = found.items;
    fill(this.list, found.items.map((item, at) => h("li", {
      role: "option", id: `${this.list.id}-${at}`, aria: { selected: at === 0 ? "true" : "false" },
      onmousedown: (event) => { event.preventDefault(); this.take(at); },
    }, h("span", {}, item.label), h("span", { class: "faint" }, item.hint))));
    this.list.hidden = false;
    this.choose(0);
    this.placeList();
  }

  // Under the line of the caret; the width of a character is the same everywhere.
  placeList() {
    const before = this.area.value.slice(0, this.from);
    const line = before.split("\n").length;
    const column = before.length - before.lastIndexOf("\n") - 1;
    const style = getComputedStyle(this.area);
    const height = parseFloat(style.lineHeight);
    const top = parseFloat(style.paddingTop) + line * height - this.area.scrollTop + 2;
    const left = Math.min(column * 0.602 * parseFloat(style.fontSize), Math.max(0, this.area.clientWidth - 280));
    this.list.style.top = `${Math.min(top, this.area.clientHeight)}px`;
    this.list.style.left = `${left + 8}px`;
  }

  choose(at) {
    this.at = (at + this.items.length) % this.items.length;
    [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", number === this.at ? "true" : "false"));
    const chosen = this.list.children[this.at];
    this.area.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  }

  take(at) {
    this.area.setRangeText(this.items[at].insert, this.from, this.area.selectionStart, "end");
    this.hide();
    this.changed(false);
    this.area.focus();
  }

  hide() {
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const open = !this.list.hidden;
    const handled = (work) => { event.preventDefault(); work(); };
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") handled(() => { this.hide(); this.onRun(event.shiftKey); });
    else if (event.ctrlKey && event.key === " ") handled(() => this.suggest(true));
    else if (open && event.key === "ArrowDown") handled(() => this.choose(this.at + 1));
    else if (open && event.key === "ArrowUp") handled(() => this.choose(this.at - 1));
    else if (open && (event.key === "Enter" || event.key === "Tab")) handled(() => this.take(this.at));
    else if (open && event.key === "Escape") handled(() => this.hide());
  }
}
