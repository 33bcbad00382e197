// The frame of the console: login, navigation, theme, and the stream of live data for the page that is open.

import { Live, Refusal, get, logIn, logOut, onLoginOver, recognise, self } from "./api.js";
import { repaint } from "./chart.js";
import { card, field, fill, h, problem } from "./dom.js";
import * as overview from "./pages/overview.js";
import * as query from "./pages/query.js";
import * as sessions from "./pages/sessions.js";
import * as views from "./pages/views.js";
import * as statements from "./pages/statements.js";
import * as memory from "./pages/memory.js";
import * as workload from "./pages/workload.js";
import * as machine from "./pages/machine.js";

const PAGES = { overview, query, sessions, views, statements, memory, workload, machine };
const app = document.getElementById("app");
let page = null;
let frame = null;

const live = new Live((panel, data) => {
  if (panel === "overview") overview.remember(data);
  page?.show?.(panel, data);
}, state);

function state(now) {
  if (!frame) return;
  frame.status.className = `status ${now}`;
  fill(frame.status, h("span", { class: "dot", aria: { hidden: "true" } }), now === "live" ? "live" : now === "away" ? "no answer" : "connecting");
  frame.banner.hidden = now !== "away";
}

// Theme: the system's, unless somebody chose another one here.
function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  repaint();
}
theme(localStorage.getItem("halcyon-theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

function toggleTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const next = dark ? "light" : "dark";
  localStorage.setItem("halcyon-theme", next);
  theme(next);
}

function brand() {
  return h("span", { class: "brand" }, h("img", { src: "/assets/icon.svg", alt: "", width: "26", height: "26" }), "Halcyon");
}

function build() {
  const status = h("span", { class: "status", role: "status" });
  const banner = h("p", { class: "banner", role: "alert", hidden: true }, "The server does not answer. What you see is what it said last; the page tries again every second.");
  const links = Object.entries(PAGES).map(([name, { title }]) => h("a", { href: `#/${name}`, data: { page: name } }, title));
  const main = h("main", { id: "main", tabindex: "-1" });
  frame = { status, banner, links, main };
  fill(app,
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the page"),
    h("header", { class: "top" }, brand(), status,
      h("span", { class: "who" }, h("span", { class: "role" }, self().role, self().superuser ? " (superuser)" : "")),
      h("button", { type: "button", class: "quiet", onclick: toggleTheme, aria: { label: "Switch between dark and light" } }, "◐"),
      h("button", { type: "button", class: "quiet", onclick: leave }, "Log out")),
    h("nav", { class: "side", aria: { label: "Pages" } }, links),
    h("div", { class: "content" }, banner, main),
    h("div", { id: "toasts", class: "toasts", role: "status", aria: { live: "polite" } }));
  state("connecting");
}

function show() {
  const [path, search] = location.hash.replace(/^#\//, "").split("?");
  const name = Object.hasOwn(PAGES, path) ? path : "overview";
  page?.destroy?.();
  page = null;
  const { title, panels, make } = PAGES[name];
  document.title = `${title} · Halcyon`;
  for (const link of frame.links) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(frame.main, h("h1", {}, title));
  page = make(new URLSearchParams(search ?? ""));
  frame.main.append(page.element);
  // The overview's history grows on every page.
  live.want(["overview", ...panels]);
}

async function leave() {
  live.stop();
  try {
    await logOut();
  } finally {
    login("You are logged out.");
  }
}

async function login(note) {
  live.stop();
  page?.destroy?.();
  page = null;
  frame = null;
  document.title = "Log in · Halcyon";
  const role = h("input", { name: "role", autocomplete: "username", required: true, maxlength: "63", spellcheck: "false", autocapitalize: "off" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", maxlength: "1000" });
  const place = h("div");
  const button = h("button", { class: "primary" }, "Log in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(place);
    try {
      await logIn(role.value, password.value);
      enter();
    } catch (refusal) {
      fill(place, problem(refusal instanceof Refusal ? refusal.error : { message: "The server does not answer." }));
      password.select();
    } finally {
      button.disabled = false;
    }
  };
  const form = h("form", { class: "login", method: "post", onsubmit: submit },
    h("h1", {}, brand()),
    note && h("p", { class: "note", role: "status" }, note),
    field("Role", role), field("Password", password, "The same as over SQL. Empty for a role without one, on this machine."), place, button);
  fill(app, h("main", { class: "login-page" }, form));
  role.focus();
  try {
    const { trusted } = await get("/api/greeting");
    if (trusted && role.value === "") {
      role.value = trusted;
      button.focus();
    }
  } catch {
    // The form works without a proposal.
  }
}

function enter() {
  build();
  show();
}

onLoginOver(() => login("Your login has ended. Log in again to go on."));
window.addEventListener("hashchange", () => { if (frame) { show(); frame.main.focus({ preventScroll: true }); scrollTo(0, 0); } });

async function begin() {
  try {
    if (await recognise()) enter();
    else await login();
  } catch {
    fill(app, h("main", { class: "login-page" }, card("The server does not answer yet", { note: "It may be reading its log. This page tries again every second." })));
    setTimeout(begin, 1000);
  }
}
begin();
