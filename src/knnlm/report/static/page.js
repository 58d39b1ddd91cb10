// The panel of an explained text: shows what was retrieved for the token under the pointer, in focus, or named
// in the address (page.html#t12). All text is inserted as text, never as markup. Without this script the page
// still has its colors and titles.
(() => {
  "use strict";

  const make = (tag, name, ...children) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children);
    return element;
  };

  const bar = (share, name) => {
    const fill = make("i", "");
    fill.style.setProperty("--share", share);
    const track = make("span", name, fill);
    track.setAttribute("aria-hidden", "true");
    return track;
  };

  const probability = ({ of, text, share }) => {
    const symbol = make("span", "", make("i", "", of ? "p" : "P"));
    if (of) symbol.append(make("sub", "", of));
    return make("div", "part", symbol, make("span", "", text), bar(share, of ? "bar" : "bar main"));
  };

  const neighborItem = ({ before, token, weight, share, document: source, target }) => {
    const text = make("div", target ? "neighbor target" : "neighbor", before, make("span", "token-text", token));
    if (target) text.append(" ✓");
    const vote = make("div", "vote", bar(share, "bar main"), make("span", "", weight), make("span", "from", source));
    return make("li", "", text, vote);
  };

  const arrowSteps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

  const start = (reader) => {
    const prefix = reader.dataset.prefix;
    const named = (name) => document.getElementById(prefix + name);
    const data = JSON.parse(named("passage-data").textContent);
    const passage = named("passage");
    const panel = named("panel");
    const spans = data.tokens.map((_, index) => named(`t${index}`));
    let chosen = data.start;

    const show = (index) => {
      const token = data.tokens[index];
      const link = make("a", "", `#${prefix}t${index}`);
      link.href = `#${prefix}t${index}`;
      link.title = "Link to this token";
      const title = make("h3", "", make("span", "token-text", token.text), token.gain, link);
      const parts = [title, ...token.parts.map(probability)];
      if (token.neighbors.length) {
        parts.push(make("h4", "", "The strongest neighbors: their context, the token that followed, their share of the vote"));
        parts.push(make("ol", "", ...token.neighbors.map(neighborItem)));
      } else {
        parts.push(make("h4", "", "No neighbors are recorded for this token."));
      }
      panel.replaceChildren(...parts);
      panel.scrollTop = 0;
    };

    const choose = (index) => {
      const old = spans[chosen];
      old.classList.remove("chosen");
      old.tabIndex = -1; // one tab stop for the whole passage; the arrow keys move within it
      old.setAttribute("aria-pressed", "false");
      chosen = index;
      spans[index].classList.add("chosen");
      spans[index].tabIndex = 0;
      spans[index].setAttribute("aria-pressed", "true");
      show(index);
    };

    const indexOf = (target) => {
      const span = target.closest && target.closest(".passage .token");
      return span ? spans.indexOf(span) : -1;
    };

    const chooseFromAddress = () => {
      const index = spans.findIndex((span) => `#${span.id}` === location.hash);
      if (index >= 0) choose(index);
      return index >= 0;
    };

    spans.forEach((span) => {
      span.removeAttribute("title"); // the panel says it better
      span.tabIndex = -1;
      span.setAttribute("role", "button");
      span.setAttribute("aria-controls", panel.id);
      span.setAttribute("aria-pressed", "false");
    });

    const on = (type, act) => passage.addEventListener(type, (event) => {
      const index = indexOf(event.target);
      if (index >= 0) act(index, event);
    });
    on("mouseover", show);
    passage.addEventListener("mouseleave", () => show(chosen));
    on("focusin", choose);
    on("click", choose);
    on("keydown", (index, event) => {
      const ends = { Home: 0, End: spans.length - 1 };
      const next = event.key in ends ? ends[event.key] : index + (arrowSteps[event.key] ?? NaN);
      if (!(next in spans)) return;
      event.preventDefault();
      spans[next].focus();
    });
    window.addEventListener("hashchange", chooseFromAddress);

    panel.hidden = false;
    if (!chooseFromAddress()) choose(data.start);
  };

  document.querySelectorAll(".reader").forEach(start);
})();
