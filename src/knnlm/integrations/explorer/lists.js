/* Below a text: spans that follow one document, and the documents that voted. */

"use strict";

const lists = (() => {
  const { $, element, button, reveal, visible } = page;
  const SHORTEST_RUN = 5;
  const SHOWN_RUNS = 8;
  const SHOWN_DOCUMENTS = 5;
  const LONGEST_LABEL = 60;

  const state = () => explain.state;

  /** The documents that can be left out; the text's own is left out already. */
  function fillDocuments() {
    const own = explain.own();
    const options = state().result.votes.documents
      .map((name, n) => ({ name, n, short: explain.shortName(n) }))
      .filter(({ n }) => n !== own)
      .sort((a, b) => a.short.localeCompare(b.short))
      .map(({ name, n, short }) => element("option", { value: n, title: name }, short));
    $("without").replaceChildren(
      element("option", { value: -1 }, own < 0 ? "none" : "no other"),
      ...options);
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
      button(label, () => {
        explain.choose(run.start);
        reveal($("panel"));
      }),
      " follows ", explain.documentLabel(run.document), ` for ${run.length} tokens`);
  }

  const retrievesItself = () => element("p", { class: "note" },
    "Most of this text follows stored documents word for word: it may be one of them, and then "
    + "it retrieves itself. Paste a text that is not stored to see what neighbors are worth.");

  function drawDocuments() {
    const { result, settings } = state();
    if (!result.retrieves) return $("documents").replaceChildren();
    const voting = mixture.documents(result.tokens, result.votes.positions, settings);
    const right = sum(voting);
    const items = voting.slice(0, SHOWN_DOCUMENTS).map(([n, weight]) => element("li", {},
      explain.documentLabel(n), `: ${share(weight / right)} `,
      button("leave out", () => explain.leaveOut(n), {
        "aria-label": `leave out ${explain.shortName(n)}`,
      })));
    const others = voting.slice(SHOWN_DOCUMENTS);
    if (others.length) {
      const named = others.length === 1 ? "1 other document" : `${others.length} other documents`;
      items.push(element("li", {}, `${named}: ${share(sum(others) / right)}`));
    }
    const back = explain.chosenOut().map((n) => button(`take ${explain.shortName(n)} back`, () =>
      explain.change({ without: settings.without.filter((each) => each !== n) })));
    $("documents").replaceChildren(
      element("h2", {}, "Documents with the right votes"),
      element("p", { class: "note" }, right > 0
        ? `${share(right / result.tokens.length)} of the whole vote is for the tokens of this `
          + "text. It comes from:"
        : "No neighbor voted for a token of this text."),
      element("ul", {}, ...items), ...back);
  }

  const sum = (voting) => voting.reduce((total, [, weight]) => total + weight, 0);

  /** With one digit; what is less is not shown as nothing. */
  const share = (p) => (p < 0.0005 ? "<0.1 %" : `${(100 * p).toFixed(1)} %`);

  return { fillDocuments, draw, share };
})();
