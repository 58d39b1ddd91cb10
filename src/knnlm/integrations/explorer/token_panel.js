/* The panel of the chosen token: its probabilities, its neighbors, the likeliest tokens. */

"use strict";

const tokenPanel = (() => {
  const { $, element, bar, number, oneLine, percent } = page;

  const state = () => explain.state;

  function draw() {
    const { result, chosen, mixed } = state();
    const token = result.tokens[chosen];
    const { log, knn } = mixed.logs[chosen];
    const parts = [
      ...head(token, state().parts[chosen], knn, log),
      verdict(token.lm_logprob, log),
    ];
    if (result.retrieves) {
      const position = result.votes.positions[chosen];
      parts.push(
        ...neighbors.ofToken(token, position, title(token.text, state().parts[chosen])),
        likeliest(token, position),
      );
    }
    $("panel").replaceChildren(...parts);
  }

  /** A token, which may be a part of a letter, and its three probabilities. */
  function head(token, part, knn, log) {
    return [
      element("div", { class: "chosen-token" }, title(token.text, part)),
      ...(part?.letter ? [spelling(part)] : []),
      element("div", { class: "bars" },
        ...bar("LM alone", Math.exp(token.lm_logprob)),
        ...bar("neighbors", knn),
        ...bar("mixed", Math.exp(log))),
    ];
  }

  function title(text, part) {
    if (text !== "") return `“${oneLine(text)}”`;
    if (!part) return "a token without text";
    return part.letter ? `part of “${part.letter}”` : "part of a letter";
  }

  const spelling = ({ letter, place, count }) => element("p", { class: "note" },
    `The letter “${letter}” takes ${count} tokens; this is number ${place}.`);

  /** The probability before and after the vote, and the factor between them. */
  function verdict(before, after) {
    const factor = number(Math.exp(Math.abs(after - before)));
    const kind = after > before ? "likelier" : "less likely";
    const told = after === before ? "the vote changes nothing here"
      : `${kind} by a factor of ${factor}`;
    const [lm, mixed] = [before, after].map((log) => percent(Math.exp(log)));
    return element("p", { class: "verdict" },
      `LM alone ${lm} → with the vote ${mixed}: ${told}.`);
  }

  function textOf(id, token) {
    const known = token.id === id ? token : token.lm_top.find((each) => each.id === id);
    return known ? known.text : state().result.votes.vocabulary[id] ?? `token ${id}`;
  }

  function likeliest(token, position) {
    const { lm, knn, mixed } =
      mixture.distributions(token, position, state().settings, explain.TOP);
    const item = ([id, p], others) => element("li", id === token.id ? { class: "is-token" } : {},
      tokenName(textOf(id, token), id, others),
      element("span", { class: "number" }, percent(p)));
    const list = (title, pairs) => {
      const texts = pairs.map(([id]) => textOf(id, token));
      const items = pairs.map((pair, n) => item(pair, texts.filter((_, other) => other !== n)));
      return element("div", {}, element("h4", {}, title), element("ol", {}, ...items));
    };
    return element("div", { class: "tops" },
      element("h3", { class: "wide" }, "The likeliest tokens"),
      list("LM", lm), list("Neighbors", knn), list("Mixed", mixed));
  }

  /** What a token spells; one that others spell too has its number. */
  function tokenName(text, id, others) {
    if (letters.isPiece(text)) {
      return element("span", { title: `part of a letter, token ${id}` }, "·");
    }
    const name = others.includes(text) ? `${oneLine(text)} #${id}` : oneLine(text);
    return element("span", { title: name }, name);
  }

  return { draw, head, textOf };
})();
