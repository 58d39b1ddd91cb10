/* The address of the page says what is shown, so that a link brings it back. */

"use strict";

const links = (() => {
  const { $, isFile } = page;

  function remember() {
    const { result, settings, chosen } = explain.state;
    if (!result) return;
    const { origin, settings: tuned, votes } = result;
    const fields = new URLSearchParams(origin);
    for (const key of ["lambda", "tau", "k"]) {
      if (settings[key] !== tuned[key]) fields.set(key, settings[key]);
    }
    if (settings.without >= 0) fields.set("without", votes.documents[settings.without]);
    fields.set("token", chosen);
    history.replaceState(null, "", `#explain?${fields}`);
  }

  function open() {
    const [view, query = ""] = location.hash.slice(1).split("?");
    showView(view === "compare" ? "compare" : "explain");
    const fields = new URLSearchParams(query);
    const wanted = settingsOf(fields);
    const text = fields.get("text");
    if (text && !isFile) {
      $("text").value = text;
      explain.ask(text, wanted);
    } else if (!explain.state.result || fields.get("example")) {
      explain.example(fields.get("example"), wanted);
    }
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
    if (fields.get("without")) wanted.without = fields.get("without");
    return wanted;
  }

  function showView(view) {
    for (const each of ["explain", "compare"]) {
      $(each).hidden = each !== view;
      if (each === view) $(`tab-${each}`).setAttribute("aria-current", "page");
      else $(`tab-${each}`).removeAttribute("aria-current");
    }
  }

  return { remember, open };
})();
