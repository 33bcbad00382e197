// Requests to the server, and the stream of live data.

let me = null;

export class Refusal extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.error = error ?? { message: this.message };
  }
}

async function answer(response) {
  const value = response.headers.get("content-type")?.startsWith("application/json") ? await response.json() : {};
  if (!response.ok) {
    if (response.status === 401 && me) loginIsOver();
    throw new Refusal(response.status, value.error);
  }
  return value;
}

export async function get(path) {
  return answer(await fetch(path, { credentials: "same-origin", cache: "no-store" }));
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  if (me) headers["x-halcyon-token"] = me.token;
  return answer(await fetch(path, { method: "POST", credentials: "same-origin", headers, body: JSON.stringify(body) }));
}

/// Who is logged in; null if nobody is.
export const self = () => me;

export async function recognise() {
  try {
    me = await get("/api/me");
  } catch (refusal) {
    if (!(refusal instanceof Refusal) || refusal.status !== 401) throw refusal;
    me = null;
  }
  return me;
}

export async function logIn(role, password) {
  me = await post("/api/login", { role, password });
  return me;
}

export async function logOut() {
  await post("/api/logout", {});
  me = null;
}

/// The SQL of a panel's query.
export const sqlOf = (panel, query) => me?.panels?.[panel]?.[query] ?? "";

// The session of this tab: it lives in sessionStorage, so that a reload keeps its transaction.
function tab() {
  let name = sessionStorage.getItem("halcyon-tab");
  if (!name) {
    name = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("halcyon-tab", name);
  }
  return name;
}

/// Runs a text in this tab's session.
export const run = (sql, rows = 500) => post("/api/run", { tab: tab(), sql, rows });

/// Ends what this tab's session runs.
export const cancel = () => post("/api/cancel", { tab: tab() });

/// Runs one statement beside the SQL page, in a session of its own, and returns its rows as objects.
export async function ask(sql, rows = 500) {
  const told = await post("/api/run", { tab: `${tab()}-side`, sql, rows });
  if (told.error) throw new Refusal(200, told.error);
  const result = told.results.at(-1);
  return {
    columns: result.columns ?? [],
    rows: result.rows ?? [],
    tag: result.tag,
  };
}

let overListener = () => {};
export const onLoginOver = (listener) => { overListener = listener; };

function loginIsOver() {
  me = null;
  overListener();
}

/// The stream of panels: opened anew when the wanted panels change, closed while the tab is hidden, and taken up
/// again when a server that went away comes back.
export class Live {
  constructor(onData, onState) {
    this.onData = onData;
    this.onState = onState;
    this.panels = [];
    this.source = null;
    this.retry = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
  }

  want(panels) {
    const sorted = [...new Set(panels)].sort();
    if (sorted.join() === this.panels.join() && this.source) return;
    this.panels = sorted;
    this.open();
  }

  stop() {
    this.panels = [];
    this.close();
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  open() {
    this.close();
    if (this.panels.length === 0 || document.hidden) return;
    const source = new EventSource(`/api/live/${this.panels.join(",")}`);
    this.source = source;
    for (const panel of this.panels) {
      source.addEventListener(panel, (event) => {
        this.onState("live");
        this.onData(panel, JSON.parse(event.data));
      });
    }
    source.addEventListener("over", () => {
      this.stop();
      loginIsOver();
    });
    source.onerror = () => {
      if (source !== this.source) return;
      this.onState("away");
      this.close();
      this.retry = setTimeout(() => this.again(), 1000);
    };
  }

  // A server that was restarted does not know the login any more.
  async again() {
    try {
      if (await recognise()) this.open();
      else { this.stop(); loginIsOver(); }
    } catch {
      this.retry = setTimeout(() => this.again(), 1000);
    }
  }
}

/// Follows a view. Returns a function that ends it.
export function follow(schema, view, { columns, changes, refused }) {
  const source = new EventSource(`/api/follow/${encodeURIComponent(schema)}/${encodeURIComponent(view)}`);
  source.addEventListener("columns", (event) => columns(JSON.parse(event.data)));
  source.addEventListener("changes", (event) => changes(JSON.parse(event.data)));
  source.addEventListener("refused", (event) => { refused(JSON.parse(event.data)); source.close(); });
  source.addEventListener("over", () => { source.close(); loginIsOver(); });
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return;
    refused({ message: "The server does not let this page follow the view: the view has too many rows, its name is not one of a materialized view, or the role may not read it." });
  };
  return () => source.close();
}
