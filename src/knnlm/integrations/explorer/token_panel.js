/* The panel of the chosen token: its probabilities, the passages that voted, the likeliest
   tokens. */

"use strict";

const tokenPanel = (() => {
  const { $, element, button, bar, fill, number, oneLine, percent, visible, isFile } = page;
  const SHOWN_NEIGHBORS = 5;
  const SHOWN_BEFORE = 140;
  const SHOWN_AFTER = 60;

  const state = () => explain.state;

  function draw() {
    const { result, chosen, mixed } = state();
    const token = result.tokens[chosen];
    const { log, knn } = mixed.logs[chosen];
    const parts = [
      ...head(token, state().parts[chosen], knn, log),
      verdict(log - token.lm_logprob),
    ];
    if (result.retrieves) {
      const position = result.votes.positions[chosen];
      parts.push(
        element("h3", {}, "The nearest stored contexts"),
        neighbors(token, position),
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
        ...bar("LM", Math.exp(token.lm_logprob)),
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

  function verdict(gain) {
    const factor = number(Math.exp(Math.abs(gain)));
    const kind = gain > 0 ? "likelier" : "less likely";
    return element("p", { class: "note" }, gain === 0
      ? "The vote changed nothing here."
      : `The vote made it ${kind}, by a factor of ${factor}.`);
  }

  /** A stored token between the texts around it. */
  function snippet(before, text, after, isHit) {
    return element("div", { class: "snippet", dir: "auto" },
      visible(before.slice(-SHOWN_BEFORE)),
      fill(element("mark", isHit ? { class: "hit" } : {}), text),
      visible(after.slice(0, SHOWN_AFTER)));
  }

  function neighbors(token, position) {
    const { result, settings, passages } = state();
    const places = mixture.voters(position, settings);
    const shares = mixture.weights(position, places, settings.tau);
    const shown = places.slice(0, SHOWN_NEIGHBORS);
    const entries = shown.map((i) => position.entries[i]);
    const missing = entries.filter((entry) => !passages.has(entry));
    if (missing.length && !isFile && !result.origin.example) fetchPassages(missing);
    const items = shown.map((i, m) => neighborItem(token, position, i, shares[m]));
    return element("ol", { class: "neighbors" }, ...items);
  }

  function neighborItem(token, position, i, share) {
    const { passages } = state();
    const passage = passages.get(position.entries[i]);
    const id = position.distinct[position.which[i]];
    const text = passage?.text ?? textOf(id, token);
    const similarity = signed(position.scores[i]);
    const document_ = position.documents[i];
    return element("li", {},
      snippet(passage?.before ?? "… ", text, passage?.after ?? "", id === token.id),
      element("div", { class: "bars" }, ...bar("vote", share)),
      element("div", { class: "from" },
        element("span", {}, explain.documentLabel(document_), `, similarity ${similarity}`),
        button("leave out", () => explain.change({ without: document_ }), {
          "aria-label": `leave out ${explain.shortName(document_)}`,
        })));
  }

  /** With two digits and a minus sign; never −0.00. */
  const signed = (score) => (score.toFixed(2) * 1 || 0).toFixed(2).replace("-", "−");

  async function fetchPassages(entries) {
    const { passages } = state();
    try {
      const answer = await server.ask("api/entries", { entries });
      for (const passage of (await answer.json()).entries) passages.set(passage.entry, passage);
      if (passages === state().passages) draw();
    } catch (error) {
      for (const entry of entries) passages.set(entry, { before: "… ", after: "" });
    }
  }

  function textOf(id, token) {
    const known = token.id === id ? token : token.lm_top.find((each) => each.id === id);
    return known ? known.text : state().result.votes.vocabulary[id] ?? `token ${id}`;
  }

  function likeliest(token, position) {
    const { lm, knn, mixed } =
      mixture.distributions(token, position, state().settings, explain.TOP);
    const item = ([id, p]) => element("li", id === token.id ? { class: "is-token" } : {},
      tokenName(textOf(id, token), id),
      element("span", { class: "number" }, percent(p)));
    const list = (title, pairs) => element("div", {},
      element("h4", {}, title), element("ol", {}, ...pairs.map(item)));
    return element("div", { class: "tops" },
      element("h3", { class: "wide" }, "The likeliest tokens"),
      list("LM", lm), list("Neighbors", knn), list("Mixed", mixed));
  }

  function tokenName(text, id) {
    if (!letters.isPiece(text)) return element("span", {}, oneLine(text));
    return element("span", { title: `part of a letter, token ${id}` }, "·");
  }

  return { draw, head, snippet, SHOWN_NEIGHBORS };
})();
