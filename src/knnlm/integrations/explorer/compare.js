/* Two continuations of one beginning: by the LM alone, and with its neighbors. */

"use strict";

const compare = (() => {
  const { $, element, say, fill, percent, visible } = page;

  const state = { spans: [], tokens: [], stop: null, model: null };

  async function ask(prompt, length) {
    state.stop?.abort();
    const stop = new AbortController();
    Object.assign(state, { stop, spans: [], tokens: [] });
    $("continue-go").disabled = true;
    say("compare-status", "Writing …");
    $("compare-panel").replaceChildren();
    for (const id of ["base-text", "knn-text"]) {
      $(id).replaceChildren(fill(element("span", { class: "given" }), prompt));
    }
    try {
      await write({ prompt, max_tokens: length, temperature: 0, stream: true }, stop.signal);
      const same = $("base-text").textContent === $("knn-text").textContent.replaceAll("↵", "");
      const told = same ? "Both wrote the same. " : "";
      say("compare-status", `${told}Choose a token on the right to see where it comes from.`);
    } catch (error) {
      stop.abort();
      server.tellError("compare-status", error, () => ask(prompt, length));
    } finally {
      if (state.stop === stop) $("continue-go").disabled = false;
    }
  }

  async function write(request, signal) {
    state.model ??= (await (await server.ask("api/info")).json()).model;
    const base = { ...request, model: `${state.model}:base` };
    const sources = { sources: tokenPanel.SHOWN_NEIGHBORS };
    const knn = { ...request, model: state.model, knn: sources };
    await Promise.all([
      server.stream(base, signal, (choice) => $("base-text").append(visible(choice.text))),
      server.stream(knn, signal, add),
    ]);
  }

  /** One more token of the continuation with neighbors. */
  function add(choice) {
    const token = choice.knn?.[0];
    if (!token) return void $("knn-text").append(visible(choice.text));
    if (choice.text === "" && choice.finish_reason) return;
    const span = tokens.span(state.tokens.length, choice.text);
    if (!state.tokens.length) span.tabIndex = 0;
    tokens.shade(span, token.logprob - token.lm_logprob);
    state.tokens.push({ ...token, text: choice.text });
    state.spans.push(span);
    $("knn-text").append(span);
  }

  function choose(n) {
    const token = state.tokens[tokens.press(state.spans, n)];
    const knn = token.component_logprob === null ? 0 : Math.exp(token.component_logprob);
    $("compare-panel").replaceChildren(
      ...tokenPanel.head(token, knn, token.logprob),
      element("h3", {}, "The nearest stored contexts"),
      element("ol", { class: "neighbors" }, ...token.neighbors.map(neighborItem)));
  }

  function neighborItem({ before, text, after, is_target, document, weight }) {
    return element("li", {},
      tokenPanel.snippet(before, text, after, is_target),
      element("div", { class: "from" },
        element("span", {}, document),
        element("span", { class: "number" }, percent(weight))));
  }

  return { state, ask, choose };
})();
