// Tables with columns that sort, by mouse and keyboard.

import { h, fill, empty } from "./dom.js";

/// A table over objects. `columns`: { key, label, show(row) → text or element, sort(row) → value, numeric }.
export class Table {
  constructor(label, columns, { sortBy, descending = true, none = "Nothing to show.", rowClass, limit = 500 } = {}) {
    this.columns = columns;
    this.sortBy = sortBy ?? null;
    this.descending = descending;
    this.none = none;
    this.rowClass = rowClass;
    this.limit = limit;
    this.rows = [];
    this.body = h("tbody");
    this.heads = new Map();
    const head = columns.map((column) => {
      const sorts = column.sort || column.key;
      const cell = h("th", { scope: "col", class: column.numeric ? "number" : null },
        sorts && column.sort !== false
          ? h("button", { type: "button", class: "sorter", onclick: () => this.sort(column) }, column.label)
          : column.label || h("span", { class: "hidden" }, column.hiddenLabel ?? "Actions"));
      this.heads.set(column, cell);
      return cell;
    });
    this.none = h("div", {}, empty(none));
    this.element = h("div", { class: "scroll", tabindex: "0", role: "region", aria: { label } },
      h("table", {}, h("caption", { class: "hidden" }, label), h("thead", {}, h("tr", {}, head)), this.body), this.none);
    this.showSorting();
  }

  sort(column) {
    if (this.sortBy === (column.key ?? column.label)) this.descending = !this.descending;
    else {
      this.sortBy = column.key ?? column.label;
      this.descending = Boolean(column.numeric);
    }
    this.showSorting();
    this.show(this.rows);
  }

  showSorting() {
    for (const [column, cell] of this.heads) {
      if ((column.key ?? column.label) === this.sortBy) cell.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }

  show(rows) {
    this.rows = rows;
    const column = this.columns.find((column) => (column.key ?? column.label) === this.sortBy);
    const by = column && (column.sort || ((row) => row[column.key]));
    const sorted = by ? [...rows].sort((a, b) => compare(by(a), by(b)) * (this.descending ? -1 : 1)) : rows;
    // A button that has the focus keeps it when its row is drawn anew.
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(this.body, sorted.slice(0, this.limit).map((row) => h("tr", { class: this.rowClass?.(row) || null },
      this.columns.map((column) => {
        const value = column.show ? column.show(row) : row[column.key];
        return h("td", { class: column.numeric ? "number" : column.long ? "long" : null },
          value === null || value === undefined || value === "" ? h("span", { class: "faint" }, "–") : value);
      }))));
    this.none.hidden = rows.length > 0;
    if (focused) this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
