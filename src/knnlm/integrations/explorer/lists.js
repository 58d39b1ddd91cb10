/* Below a text: spans that follow one document, and the documents that voted. */

"use strict";

const lists = (() => {
  const { $, element, button, visible } = page;
  const SHORTEST_RUN = 5;
  const SHOWN_RUNS = 8;
  const SHOWN_DOCUMENTS = 5;
  const LONGEST_LABEL = 60;

  const state = () => explain.state;

  /** The documents that can be left out. */
  function fillDocuments() {
    const options = state().result.votes.documents
      .map((name, n) => ({ name, n, short: explain.shortName(n) }))
      .sort((a, b) => a.short.localeCompare(b.short))
      .map(({ name, n, short }) => element("option", { value: n, title: name }, short));
    $("without").replaceChildren(element("option", { value: -1 }, "none"), ...options);
  }

  function draw() {
    drawRuns();
    drawDocuments();
  }

  function drawRuns() {
    const { result, settings, spans } = state();
    const runs = result.retrieves
      ? mixture.runs(result.tokens, result.votes.positions, settings, SHORTEST_RUN)
      : [];
    spans.forEach((span) => span.classList.remove("in-run"));
    for (const { start, length } of runs) {
      spans.slice(start, start + length).forEach((span) => span.classList.add("in-run"));
    }
    if (!runs.length) return $("runs").replaceChildren();
    const covered = runs.reduce((sum, run) => sum + run.length, 0) / result.tokens.length;
    $("runs").replaceChildren(
      element("h2", {}, "Spans that follow one document (double underline)"),
      ...(covered > 0.5 ? [retrievesItself()] : []),
      element("ul", {}, ...runs.slice(0, SHOWN_RUNS).map(runItem)),
    );
  }

  function runItem(run) {
    const inside = state().result.tokens.slice(run.start, run.start + run.length);
    const text = visible(inside.map((token) => token.text).join("")).trim().replace(/\s+/g, " ");
    const label = text.length > LONGEST_LABEL ? text.slice(0, LONGEST_LABEL) + "…" : text;
    return element("li", {},
      button(label, () => explain.choose(run.start)),
      " follows ", explain.documentLabel(run.document), ` for ${run.length} tokens`);
  }

  const retrievesItself = () => element("p", { class: "note" },
    "Most of this text follows stored documents word for word: it may be one of them, and then "
    + "it retrieves itself. Paste a text that is not stored to see what neighbors are worth.");

  function drawDocuments() {
    const { result, settings } = state();
    if (!result.retrieves) return $("documents").replaceChildren();
    const count = result.tokens.length;
    const voting = mixture.documents(result.tokens, result.votes.positions, settings);
    const items = voting.slice(0, SHOWN_DOCUMENTS).map(([n, weight]) => element("li", {},
      explain.documentLabel(n), `: ${weight.toFixed(1)} of ${count} votes `,
      button("leave out", () => explain.change({ without: n }))));
    const { without } = settings;
    const back = without >= 0
      ? [button(`take ${explain.shortName(without)} back`, () => explain.change({ without: -1 }))]
      : [];
    $("documents").replaceChildren(
      element("h2", {}, "Documents that voted for these tokens (one vote a token)"),
      element("ul", {}, ...items), ...back);
  }

  return { fillDocuments, draw };
})();
