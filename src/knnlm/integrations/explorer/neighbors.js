/* The neighbors of a token: first those that voted for it, then the nearest of the others. */

"use strict";

const neighbors = (() => {
  const { element, button, bar, fill, percent, visible, isFile } = page;
  const SHOWN_HITS = 5;
  const SHOWN_OTHERS = 3;
  const SHOWN_ALONE = 5;
  const SIMILARITY = {
    l2: "Similarity is minus the squared distance between two hidden states: 0 is the same state, "
      + "and higher is nearer.",
    ip: "Similarity is the inner product of two hidden states: higher is nearer.",
  };
  const COMING = { before: "… ", after: " …", cut_before: false, cut_after: false };
  const NOT_RECORDED = { before: "", after: "", isMissing: true };

  const state = () => explain.state;

  /** The neighbors of a token of the explained text. */
  function ofToken(token, position, name) {
    const { settings, result } = state();
    const places = mixture.voters(position, settings);
    const shares = mixture.weights(position, places, settings.tau);
    const isHit = (i) => idOf(position, i) === token.id;
    const all = places.map((i, m) => ({ i, share: shares[m], isHit: isHit(i) }));
    const hits = all.filter((each) => each.isHit);
    const others = all.filter((each) => !each.isHit).slice(0, shownOthers(hits));
    const shown = [...hits.slice(0, SHOWN_HITS), ...others];
    fetchMissing(shown.map(({ i }) => position.entries[i]));
    const total = hits.reduce((sum, each) => sum + each.share, 0);
    const title = `Voted for ${name}: ${hits.length} of ${all.length} neighbors, with `
      + `${percent(total)} of the vote`;
    return [
      ...groups(shown.map((each) => described(token, position, each)), title,
        `None of the ${all.length} neighbors voted for it.`),
      element("p", { class: "note" }, SIMILARITY[result.metric] ?? ""),
    ];
  }

  const idOf = (position, i) => position.distinct[position.which[i]];
  const shownOthers = (hits) => (hits.length ? SHOWN_OTHERS : SHOWN_ALONE);

  function described(token, position, { i, share, isHit }) {
    const { result, passages: known } = state();
    const text = tokenPanel.textOf(idOf(position, i), token);
    const number = position.documents[i];
    return {
      passage: { text, ...(known.get(position.entries[i]) ?? NOT_RECORDED) },
      isHit, share, number,
      similarity: position.scores[i],
      name: result.votes.documents[number],
      short: explain.shortName(number),
    };
  }

  /** Two lists with their titles. */
  function groups(items, title, none = "None of the nearest voted for it.") {
    const hits = items.filter((each) => each.isHit);
    const others = items.filter((each) => !each.isHit);
    const list = (kind, some) => element("ol", { class: `neighbors ${kind}` }, ...some.map(item));
    const parts = hits.length
      ? [element("h3", {}, title), list("hits", hits.slice(0, SHOWN_HITS))]
      : [element("p", {}, none)];
    if (!others.length) return parts;
    return [
      ...parts,
      element("h3", {}, "The nearest that voted for another token"),
      list("others", others.slice(0, shownOthers(hits))),
    ];
  }

  function item({ passage, isHit, share, number, similarity, name, short }) {
    const near = similarity === undefined ? "" : `, similarity ${signed(similarity)}`;
    const leave = number === undefined ? [] : [
      button("leave out", () => explain.leaveOut(number), {
        "aria-label": `leave out ${short}`,
      })];
    return element("li", {},
      snippet(passage, isHit),
      element("div", { class: "bars" }, ...bar("vote", share)),
      element("div", { class: "from" },
        element("span", {}, names.label(name, short), near), ...leave),
      ...(short === name ? [] : [element("div", { class: "whole-name" }, name)]));
  }

  /** A stored token between the texts around it. */
  function snippet(passage, isHit) {
    const { before, text, after, cut_before: cutBefore, cut_after: cutAfter } = passage;
    const mark = fill(element("mark", isHit ? { class: "hit" } : {}), text);
    if (passage.isMissing) {
      const told = element("span", { class: "note" }, " (the text around it was not recorded)");
      return element("div", { class: "snippet", dir: "auto" }, mark, told);
    }
    return element("div", { class: "snippet", dir: "auto" },
      visible(passages.before(before, cutBefore)), mark, visible(passages.after(after, cutAfter)));
  }

  /** With two digits and a minus sign; never −0.00. */
  const signed = (score) => (score.toFixed(2) * 1 || 0).toFixed(2).replace("-", "−");

  /** Passages that did not come with the text are asked for; an example has no others. */
  async function fetchMissing(entries) {
    const { passages: known, result } = state();
    const missing = entries.filter((entry) => !known.has(entry));
    if (!missing.length || isFile || result.origin.example) return;
    for (const entry of missing) known.set(entry, COMING);
    try {
      const answer = await server.ask("api/entries", { entries: missing });
      for (const passage of (await answer.json()).entries) known.set(passage.entry, passage);
      if (known === state().passages) tokenPanel.draw();
    } catch { /* the tokens are shown without the text around them */ }
  }

  return { ofToken, groups };
})();
