/* The address of the page says what is shown, so that a link brings it back. */

"use strict";

const links = (() => {
  const { $ } = page;

  let view = "explain";

  /** Put what is shown into the address. A view that is not shown leaves it alone. */
  function remember() {
    const fields = view === "compare" ? compareFields() : explainFields();
    if (fields) history.replaceState(null, "", `#${view}${fields.size ? `?${fields}` : ""}`);
  }

  function explainFields() {
    const { result, settings, chosen } = explain.state;
    if (!result) return null;
    const { origin, settings: tuned, votes } = result;
    const fields = new URLSearchParams(origin);
    for (const key of ["lambda", "tau", "k"]) {
      if (settings[key] !== (tuned[key] ?? 1)) fields.set(key, settings[key]);
    }
    for (const n of settings.without) fields.append("without", votes.documents[n]);
    fields.set("token", chosen);
    return fields;
  }

  const compareFields = () => new URLSearchParams(compare.state.asked ?? {});

  /** Show what the address says. */
  function open() {
    const [name, query = ""] = location.hash.slice(1).split("?");
    const fields = new URLSearchParams(query);
    showView(name === "compare" ? "compare" : "explain");
    if (view === "compare") openCompare(fields);
    else openExplain(fields);
    remember();
  }

  function openExplain(fields) {
    const { result, asking } = explain.state;
    const wanted = settingsOf(fields);
    const text = served.state.info ? fields.get("text") : null;
    const example = fields.get("example");
    const isShown = (key, value) => value && !asking && result?.origin[key] === value;
    if (isShown("text", text) || isShown("example", example)) {
      explain.apply(wanted);
    } else if (text) {
      $("text").value = text;
      explain.ask(text, wanted);
    } else if (example !== null || !(result || asking || served.state.info)) {
      explain.example(example, wanted);
    } else if (!(result || asking)) {
      served.explainPassage(wanted);
    }
  }

  /** The form is filled in; the visitor decides whether the server writes. */
  function openCompare(fields) {
    const prompt = fields.get("prompt");
    if (!prompt) return;
    const length = Math.round(Number(fields.get("length")));
    compare.prepare(prompt, length >= 1 ? Math.min(length, Number($("length").max)) : 40);
  }

  /** What a link asks for, as far as it makes sense. */
  function settingsOf(fields) {
    const wanted = {};
    for (const key of ["lambda", "tau", "k", "token"]) {
      const value = Number(fields.get(key) ?? NaN);
      if (Number.isFinite(value)) wanted[key] = value;
    }
    if (wanted.lambda !== undefined) wanted.lambda = Math.min(1, Math.max(0, wanted.lambda));
    if (!(wanted.tau > 0)) delete wanted.tau;
    if (wanted.k !== undefined) wanted.k = Math.max(1, Math.round(wanted.k));
    if (wanted.token !== undefined) wanted.token = Math.round(wanted.token);
    wanted.without = fields.getAll("without");
    return wanted;
  }

  function showView(name) {
    view = name;
    for (const each of ["explain", "compare"]) {
      $(each).hidden = each !== view;
      if (each === view) $(`tab-${each}`).setAttribute("aria-current", "page");
      else $(`tab-${each}`).removeAttribute("aria-current");
    }
    served.drawAbout();
  }

  return { remember, open };
})();
