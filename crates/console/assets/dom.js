// Elements without markup: texts are always texts, so that nothing that a database holds becomes HTML.

/// An element with properties and children. `on…` are listeners, `data` and `aria` maps, `class` a string;
/// everything else is an attribute, left out where it is null or false.
export function h(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/// An element of SVG.
export function svg(tag, props = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function dress(element, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "aria") for (const [name, text] of Object.entries(value)) element.setAttribute(`aria-${name}`, text);
    else if (key === "value" || key === "checked" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/// Replaces an element's children.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let last = 0;

/// An id that no other element has.
export function fresh(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/// A labelled field of a form.
export function field(label, control, hint) {
  control.id ||= fresh("field");
  let described = null;
  if (hint) {
    described = fresh("hint");
    control.setAttribute("aria-describedby", described);
  }
  return h("div", { class: "field" },
    h("label", { for: control.id }, label), control,
    hint && h("p", { class: "hint", id: described }, hint));
}

/// A card with a heading, the SQL that it shows, and a body.
export function card(title, { sql, note, actions, wide } = {}, ...body) {
  return h("section", { class: wide ? "card wide" : "card" },
    h("div", { class: "card-head" }, h("h2", {}, title), actions),
    note && h("p", { class: "note" }, note),
    h("div", { class: "card-body" }, body),
    sql && source(sql));
}

/// The SQL behind a card, which can be taken to the SQL page.
export function source(sql) {
  const texts = [sql].flat();
  return h("details", { class: "source" },
    h("summary", {}, "Where this comes from"),
    texts.map((text) => h("div", {},
      h("pre", { tabindex: "0", role: "group", aria: { label: "SQL of this panel" } }, h("code", {}, text)),
      h("a", { href: `#/query?sql=${encodeURIComponent(text)}` }, "Open in the SQL page"))));
}

/// A message in place of data.
export function empty(text) {
  return h("p", { class: "empty" }, text);
}

/// An error of the server, in SQL's parts.
export function problem(error) {
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, h("strong", {}, error.state ? `${error.state} ` : ""), error.message),
    error.detail && h("p", {}, error.detail),
    error.hint && h("p", { class: "hint" }, error.hint));
}

/// Asks before something is done, and shows the SQL that does it. Resolves to whether it was confirmed.
export function confirmed(title, sql, verb) {
  return new Promise((resolve) => {
    const heading = fresh("dialog");
    const dialog = h("dialog", { aria: { labelledby: heading }, onclose: () => { resolve(dialog.returnValue === "yes"); dialog.remove(); } },
      h("form", { method: "dialog" },
        h("h2", { id: heading }, title),
        h("pre", { tabindex: "0", role: "group", aria: { label: "SQL to be run" } }, h("code", {}, sql)),
        h("div", { class: "buttons" },
          h("button", { value: "no", autofocus: true }, "Keep"),
          h("button", { value: "yes", class: "danger" }, verb))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/// A short message at the page's edge, read out by screen readers.
export function toast(text, isProblem = false) {
  const place = document.getElementById("toasts");
  if (!place) return;
  const note = h("p", { class: isProblem ? "toast problem-toast" : "toast" }, text);
  place.append(note);
  setTimeout(() => note.remove(), 6000);
}
