// The panel of the passage: shows what was retrieved for the token under the pointer, in focus, or named in
// the address (page.html#t12). All text goes in as text, never as markup. Without this script the page still
// has its colours and titles.
(() => {
  "use strict";
  const block = document.getElementById("passage-data");
  if (!block) return;
  const data = JSON.parse(block.textContent);
  const passage = document.getElementById("passage");
  const panel = document.getElementById("panel");
  const spans = data.tokens.map((_, place) => document.getElementById(`t${place}`));
  let chosen = data.start;

  const make = (tag, name, ...inside) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...inside);
    return element;
  };

  const bar = (share, name) => {
    const fill = make("i", "");
    fill.style.setProperty("--share", share);
    const track = make("span", name, fill);
    track.setAttribute("aria-hidden", "true");
    return track;
  };

  const part = ({ of, text, share }) => {
    const symbol = make("span", "", make("i", "", of ? "p" : "P"));
    if (of) symbol.append(make("sub", "", of));
    return make("div", "part", symbol, make("span", "", text), bar(share, of ? "bar" : "bar main"));
  };

  const hit = ({ before, token, weight, share, document: from, target }) => {
    const text = make("div", target ? "hit target" : "hit", before, make("span", "word", token));
    if (target) text.append(" ✓");
    const vote = make("div", "vote", bar(share, "bar main"), make("span", "", weight), make("span", "from", from));
    return make("li", "", text, vote);
  };

  const show = (place) => {
    const token = data.tokens[place];
    const link = make("a", "", `#t${place}`);
    link.href = `#t${place}`;
    link.title = "Link to this token";
    const parts = [make("h3", "", make("span", "word", token.text), token.gain, link), ...token.parts.map(part)];
    if (token.hits.length) {
      parts.push(make("h4", "", "The strongest neighbours: their context, the token that followed, their share of the vote"));
      parts.push(make("ol", "", ...token.hits.map(hit)));
    } else {
      parts.push(make("h4", "", "No neighbours are recorded for this token."));
    }
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
  };

  const choose = (place) => {
    const old = spans[chosen];
    old.classList.remove("chosen");
    old.tabIndex = -1; // one tab stop for the whole passage; the arrow keys move within it
    old.setAttribute("aria-pressed", "false");
    chosen = place;
    spans[place].classList.add("chosen");
    spans[place].tabIndex = 0;
    spans[place].setAttribute("aria-pressed", "true");
    show(place);
  };

  const placeOf = (target) => {
    const span = target.closest && target.closest(".passage .token");
    return span ? Number(span.id.slice(1)) : -1;
  };

  const fromAddress = () => {
    const found = /^#t(\d+)$/.exec(location.hash);
    if (!found || Number(found[1]) >= spans.length) return false;
    choose(Number(found[1]));
    return true;
  };

  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

  spans.forEach((span) => {
    span.removeAttribute("title"); // the panel says it better
    span.tabIndex = -1;
    span.setAttribute("role", "button");
    span.setAttribute("aria-controls", "panel");
    span.setAttribute("aria-pressed", "false");
  });

  const on = (type, act) => passage.addEventListener(type, (event) => {
    const place = placeOf(event.target);
    if (place >= 0) act(place, event);
  });
  on("mouseover", show);
  passage.addEventListener("mouseleave", () => show(chosen));
  on("focusin", choose);
  on("click", choose);
  on("keydown", (place, event) => {
    const ends = { Home: 0, End: spans.length - 1 };
    const next = event.key in ends ? ends[event.key] : place + (steps[event.key] ?? NaN);
    if (!(next in spans)) return;
    event.preventDefault();
    spans[next].focus();
  });
  window.addEventListener("hashchange", fromAddress);

  panel.hidden = false;
  if (!fromAddress()) choose(data.start);
})();
