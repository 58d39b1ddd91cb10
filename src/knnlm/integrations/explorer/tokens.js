/* The tokens of a text as things to choose, by mouse or keys, colored by what the vote did. */

"use strict";

const tokens = (() => {
  const { element, fill, reveal } = page;
  const FULL_COLOR = 2; // nats

  function span(n, text) {
    const made = element("span", {
      class: "token", role: "button", tabindex: "-1", "aria-pressed": "false", "data-n": n,
    });
    if (text === "") describe(made, "no text");
    else if (!text.trim()) made.setAttribute("aria-label", "white space");
    return fill(made, text);
  }

  function describe(made, words) {
    made.setAttribute("aria-label", words);
    made.title = words;
  }

  /** Mark the tokens that are a part of a letter, which may begin in the texts before them; what
      each is a part of. */
  function markParts(spans, texts, before = []) {
    const parts = letters.parts([...before, ...texts]).slice(before.length);
    parts.forEach((part, n) => {
      const isPart = part !== null && texts[n] === "";
      spans[n].classList.toggle("part", isPart);
      if (isPart) describe(spans[n], "part of a letter");
    });
    return parts;
  }

  function shade(made, gain) {
    made.classList.toggle("up", gain > 0);
    made.classList.toggle("down", gain < 0);
    made.style.setProperty("--gain", Math.min(1, Math.abs(gain) / FULL_COLOR).toFixed(3));
  }

  /** Mark one of them as chosen; its number, kept within the text. */
  function press(spans, n, focus = true) {
    const at = Math.max(0, Math.min(spans.length - 1, n));
    spans.forEach((each, i) => {
      each.setAttribute("aria-pressed", i === at);
      each.tabIndex = i === at ? 0 : -1;
    });
    if (focus) spans[at].focus();
    return at;
  }

  /** Clicks, arrow keys, Home and End choose a token of a text. A click, Enter or the space bar
      brings its panel into view; keys that move from token to token leave the text in place. */
  function listen(text, spans, choose, panel) {
    text.addEventListener("click", (event) => {
      const chosen = event.target.closest(".token");
      if (!chosen) return;
      choose(Number(chosen.dataset.n));
      reveal(panel);
    });
    text.addEventListener("keydown", (event) => {
      const now = spans().indexOf(event.target);
      if (now < 0) return;
      const places = {
        ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: now + 10, ArrowUp: now - 10,
        Home: 0, End: spans().length - 1, Enter: now, " ": now,
      };
      if (!(event.key in places)) return;
      choose(places[event.key]);
      if (event.key === "Enter" || event.key === " ") reveal(panel);
      event.preventDefault();
    });
  }

  return { span, markParts, shade, press, listen };
})();
