/* The page's elements, and numbers and texts as people read them. Texts are only ever inserted as
   text, never as HTML. */

"use strict";

const page = (() => {
  const isFile = location.protocol === "file:";

  const $ = (id) => document.getElementById(id);

  /** An element: `class`, listeners (`onclick`) and attributes are options. */
  function element(name, options = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") made.className = value;
      else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  function button(label, onclick, options = {}) {
    return element("button", { type: "button", onclick, ...options }, label);
  }

  function say(id, message, isError = false) {
    const line = $(id);
    line.replaceChildren(message);
    line.classList.toggle("error", isError);
  }

  function percent(p) {
    if (p === 0) return "0";
    const shown = 100 * p;
    if (shown >= 10) return `${shown.toFixed(1)} %`;
    if (shown >= 0.1) return `${shown.toFixed(2)} %`;
    if (shown >= 1e-4) return `${Number(shown.toPrecision(1))} %`;
    return `${shown.toExponential(0)} %`;
  }

  function number(value) {
    if (value >= 1000) return Math.round(value).toLocaleString("en-US");
    return value.toPrecision(3);
  }

  /** Control characters are shown, so that nothing acts and nothing is lost. */
  function visible(text) {
    return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
      String.fromCharCode(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0)));
  }

  const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥" };

  /** A token in one line. White space alone is told by its signs and how many there are, as ␣×4. */
  function oneLine(text) {
    if (text.trim()) {
      return visible(text).replace(/[\n\t]/g, (c) => SIGNS[c]).replace(/^ /, "␣");
    }
    return text.replace(/(.)\1*/gsu, (run, c) =>
      sign(c) + (run.length > 1 ? `×${run.length}` : ""));
  }

  function sign(c) {
    const code = c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return SIGNS[c] ?? (visible(c) === c ? `U+${code}` : visible(c));
  }

  /** Put a text into an element, with a sign at the end of each line. */
  function fill(node, text) {
    visible(text).split("\n").forEach((part, n) => {
      if (n) node.append(element("i", { class: "newline", "aria-hidden": "true" }), "\n");
      node.append(part);
    });
    if (text === "") node.append("·");
    return node;
  }

  const isWide = window.matchMedia("(min-width: 52.01rem)");
  const isCalm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const PANEL_AT = 0.4; // of the screen: what was chosen stays in view above

  /** On a narrow screen a panel is below its text: scroll as far as it takes to read it. */
  function reveal(panel) {
    const below = panel.getBoundingClientRect().top - PANEL_AT * window.innerHeight;
    if (isWide.matches || below <= 0) return;
    window.scrollBy({ top: below, behavior: isCalm.matches ? "instant" : "smooth" });
  }

  /** Three cells of a grid: a label, a bar and its number. */
  function bar(label, p) {
    const inner = element("i");
    inner.style.width = `${100 * Math.min(1, p)}%`;
    return [
      element("span", {}, label),
      element("span", { class: "bar" }, inner),
      element("span", { class: "number" }, percent(p)),
    ];
  }

  return {
    $, element, button, say, percent, number, visible, oneLine, fill, bar, reveal, isFile, isWide,
  };
})();
