/* Two continuations of one beginning: by the LM alone, and with its neighbors. */

"use strict";

const compare = (() => {
  const { $, element, say, fill } = page;
  const SOURCES = 10; // neighbors that come with a token: the most that the server sends

  const nothing = () => ({ spans: [], tokens: [], parts: [], baseText: "", knnText: "" });
  const state = { asked: null, stop: null, ...nothing() };

  /** Fill in the form, unless it is what was asked last. */
  function prepare(prompt, length) {
    const { asked } = state;
    if (asked?.prompt === prompt && asked.length === length) return;
    state.stop?.abort();
    Object.assign(state, { asked: { prompt, length }, ...nothing() });
    $("prompt").value = prompt;
    $("length").value = length;
    drawSource();
    for (const id of ["base-text", "knn-text", "compare-panel"]) $(id).replaceChildren();
    if (!$("prompt").disabled) say("compare-status", "");
  }

  /** Where the beginning comes from. */
  function drawSource() {
    $("beginning").textContent = served.noteOfBeginning($("prompt").value);
  }

  async function ask(prompt, length) {
    state.stop?.abort();
    const stop = new AbortController();
    Object.assign(state, { asked: { prompt, length }, stop, ...nothing() });
    links.remember();
    $("continue-go").disabled = true;
    say("compare-status", "Writing …");
    $("compare-panel").replaceChildren();
    for (const id of ["base-text", "knn-text"]) {
      $(id).replaceChildren(fill(element("span", { class: "given" }), prompt));
    }
    try {
      await write({ prompt, max_tokens: length, temperature: 0, stream: true }, stop.signal);
      const told = state.baseText === state.knnText ? "Both wrote the same. " : "";
      const advice = `${told}Choose a token of the second text to see where it comes from.`;
      say("compare-status", state.spans.length ? advice : "");
    } catch (error) {
      stop.abort();
      server.tellError("compare-status", error, () => ask(prompt, length));
    } finally {
      if (state.stop === stop) $("continue-go").disabled = false;
    }
  }

  async function write(request, signal) {
    const { model } = served.state.info;
    const base = { ...request, model: `${model}:base` };
    const knn = { ...request, model, knn: { sources: SOURCES } };
    await Promise.all([
      server.stream(base, signal, addBase),
      server.stream(knn, signal, add),
    ]);
  }

  function addBase({ text, finish_reason: reason }) {
    state.baseText += text;
    if (text) fill($("base-text"), text);
    if (reason) tellEnd("base-text", state.baseText, reason);
  }

  /** A text that ends where it begins looks as if nothing had been asked. */
  function tellEnd(id, written, reason) {
    if (written || reason !== "stop") return;
    $(id).append(element("p", { class: "note" }, "The model ended the text at once."));
  }

  /** One more token of the continuation with neighbors. */
  function add(choice) {
    state.knnText += choice.text;
    if (choice.finish_reason) tellEnd("knn-text", state.knnText, choice.finish_reason);
    const token = choice.knn?.[0];
    if (!token) return void (choice.text && fill($("knn-text"), choice.text));
    if (choice.text === "" && choice.finish_reason) return;
    const span = tokens.span(state.tokens.length, choice.text);
    if (!state.tokens.length) span.tabIndex = 0;
    tokens.shade(span, token.logprob - token.lm_logprob);
    state.tokens.push({ ...token, text: choice.text });
    state.spans.push(span);
    state.parts = tokens.markParts(state.spans, state.tokens.map(({ text }) => text));
    $("knn-text").append(span);
  }

  function choose(n) {
    const at = tokens.press(state.spans, n);
    const token = state.tokens[at];
    const knn = token.component_logprob === null ? 0 : Math.exp(token.component_logprob);
    $("compare-panel").replaceChildren(
      ...tokenPanel.head(token, state.parts[at], knn, token.logprob),
      ...voters(token, knn));
  }

  /** The nearest neighbors, as many as come with a token; those that voted for it first. */
  function voters({ text, neighbors: near }, knn) {
    const all = state.tokens.flatMap((token) => token.neighbors.map((each) => each.document));
    const short = names.shorten(all);
    const items = near.map((each) => ({
      passage: each, isHit: each.is_target, share: each.weight,
      name: each.document, short: short.get(each.document),
    }));
    const isFar = knn > 0 && !near.some((each) => each.is_target);
    const none = isFar ? `None of the ${near.length} nearest voted for it; others did.` : undefined;
    return neighbors.groups(items, `Voted for “${page.oneLine(text)}”`, none);
  }

  return { state, prepare, drawSource, ask, choose };
})();
