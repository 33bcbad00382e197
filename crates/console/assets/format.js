// Numbers, times and names as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  let size = Number(value);
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 2 : 1)} ${UNITS[unit]}`;
}

export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function rate(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  const time = Number(value);
  if (time === 0) return "0";
  if (time < 0.001) return `${(time * 1e6).toFixed(0)} ns`;
  if (time < 1) return `${(time * 1e3).toFixed(time < 0.01 ? 1 : 0)} µs`;
  if (time < 1000) return `${time.toFixed(time < 10 ? 2 : time < 100 ? 1 : 0)} ms`;
  if (time < 120000) return `${(time / 1000).toFixed(time < 10000 ? 2 : 1)} s`;
  return `${(time / 60000).toFixed(1)} min`;
}

export const ns = (value) => ms(value === null || value === undefined ? null : Number(value) / 1e6);

export function percent(value) {
  if (value === null || value === undefined || !Number.isFinite(Number(value))) return "–";
  return `${Number(value).toFixed(Number(value) < 10 ? 1 : 0)} %`;
}

/// The time since a moment that PostgreSQL has printed.
export function since(text, now = Date.now()) {
  const at = moment(text);
  if (at === null) return "–";
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 1) return "now";
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} d`;
}

/// A moment as PostgreSQL prints it, in milliseconds since 1970.
export function moment(text) {
  if (!text) return null;
  const parts = /^(\d+-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d)(?::?(\d\d))?/.exec(text);
  if (!parts) return null;
  const at = Date.parse(`${parts[1]}T${parts[2]}${parts[3]}:${parts[4] ?? "00"}`);
  return Number.isNaN(at) ? null : at;
}

/// A name as SQL writes it.
export function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/// A text as SQL writes it.
export function literal(text) {
  return `'${String(text).replaceAll("'", "''")}'`;
}

/// The rows of a query of a panel as objects.
export function objects(query) {
  if (!query?.rows) return [];
  return query.rows.map((row) => Object.fromEntries(query.columns.map((column, at) => [column, row[at]])));
}
