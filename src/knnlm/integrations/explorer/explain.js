/* A text and its votes. The server is asked once for each text; everything that the sliders do is
   computed here (mixture.js). */

"use strict";

const explain = (() => {
  const { $, element, say, number, fill } = page;
  const TOP = 10;

  const state = {
    result: null, mixed: null, settings: null, chosen: 0, spans: [], parts: [], asking: null,
    passages: new Map(), short: new Map(),
  };

  /** Ask the server something about a text; only the last question is answered. */
  async function question(message, act, again) {
    state.asking?.abort();
    const asking = new AbortController();
    state.asking = asking;
    $("result").setAttribute("aria-busy", "true");
    say("status", message);
    try {
      await act(asking.signal);
      if (!asking.signal.aborted) say("status", "");
    } catch (error) {
      if (error.name !== "AbortError") clear();
      server.tellError("status", error, again);
    } finally {
      if (state.asking === asking) {
        state.asking = null;
        $("go").disabled = false;
        $("result").setAttribute("aria-busy", "false");
      }
    }
  }

  function ask(text, wanted = {}) {
    $("go").disabled = true;
    const message = "Reading the text and searching its neighbors …";
    return question(message, (signal) => score(text, wanted, signal), () => ask(text, wanted));
  }

  async function score(text, wanted, signal) {
    const sent = { text, votes: true, neighbors: 8, top: TOP };
    const answer = await (await server.ask("api/score", sent, signal)).json();
    $("example").value = "";
    show(answer, { text }, wanted);
  }

  /** Nothing is shown, and no answer is awaited: neither is about the text that stands above. */
  function clear() {
    state.asking?.abort();
    state.result = null;
    $("result").hidden = true;
    $("example").value = "";
    served.drawAbout();
  }

  function example(name, wanted = {}) {
    state.asking?.abort();
    const { examples, about, source } = EXAMPLES;
    const chosen = examples.find((each) => each.name === name) ?? examples[0];
    if (!chosen) return;
    $("text").value = chosen.text;
    $("example").value = chosen.name;
    show(chosen.answer, { example: chosen.name }, wanted);
    const link = source ? [" Read on at ", names.label(source), "."] : [];
    const recorded = served.state.info
      ? "This example was recorded elsewhere, not with the datastore of this server: "
      : "Recorded: ";
    $("source").replaceChildren(`${recorded}${about} ${chosen.about}`, ...link);
  }

  /** A component that retrieves nothing: there are no votes to show. */
  const noVotes = () => ({
    scores: [], entries: [], documents: [], distinct: [], which: [], lm_logprobs: [],
  });

  function show(answer, origin, wanted) {
    state.passages = new Map();
    for (const token of answer.tokens) {
      for (const neighbor of token.neighbors) state.passages.set(neighbor.entry, neighbor);
    }
    const retrieves = Boolean(answer.votes);
    const votes = answer.votes
      ?? { positions: answer.tokens.map(noVotes), documents: [], vocabulary: {} };
    const { metric } = origin.example ? EXAMPLES : served.state.info;
    state.result = { ...answer, votes, origin, retrieves, metric };
    state.short = names.shorten(votes.documents);
    served.drawAbout();
    $("result").hidden = false;
    $("k").disabled = $("tau").disabled = !retrieves;
    lists.fillDocuments();
    drawText();
    apply(wanted);
  }

  /** The settings that a link asks for, the tuned ones otherwise. */
  function apply(wanted) {
    const { settings: tuned, votes } = state.result;
    const k = tuned.k ?? 1;
    state.settings = {
      lambda: wanted.lambda ?? tuned.lambda,
      tau: wanted.tau ?? tuned.tau,
      k: Math.min(wanted.k ?? k, k),
      without: withOwn((wanted.without ?? []).map((name) => votes.documents.indexOf(name))),
    };
    recompute();
    choose(wanted.token ?? largestGain(), false);
  }

  /** The document that the text is a passage of, if that has to be left out. */
  function own() {
    const { origin, votes } = state.result;
    return votes.documents.indexOf(served.ownDocument(origin.text));
  }

  /** Documents to leave out; the text's own is always one of them. */
  const withOwn = (numbers) => [...new Set([own(), ...numbers])].filter((n) => n >= 0);

  /** Those that a visitor chose. */
  const chosenOut = () => state.settings.without.filter((n) => n !== own());

  /** Leave this document out instead of the one chosen before; none is -1. */
  const leaveOut = (n) => change({ without: withOwn([n]) });

  /** Where the shown text comes from has become known. */
  function recognize() {
    lists.fillDocuments();
    change({ without: withOwn(state.settings.without) });
  }

  function mix() {
    const { tokens: all, votes, retrieves } = state.result;
    if (retrieves) return mixture.text(all, votes.positions, state.settings);
    return mixture.given(all, state.settings.lambda);
  }

  function drawText() {
    const { tokens: all, prompt } = state.result;
    const given = element("span", { class: "given", title: "The first token is not predicted" });
    prompt.slice(-1).forEach((text) => fill(given, text));
    const hidesBos = prompt.length === 1 && /^<.*>$/.test(prompt[0]);
    state.spans = all.map((token, n) => tokens.span(n, token.text));
    state.parts = tokens.markParts(state.spans, all.map((token) => token.text), prompt);
    $("passage").replaceChildren(...(hidesBos ? [] : [given]), ...state.spans);
  }

  /** Everything that depends on the settings. */
  function recompute() {
    const { tokens: all } = state.result;
    state.mixed = mix();
    state.spans.forEach((span, n) =>
      tokens.shade(span, state.mixed.logs[n].log - all[n].lm_logprob));
    drawSettings();
    drawSource();
    drawPerplexity();
    lists.draw();
    if (state.chosen < all.length) tokenPanel.draw();
  }

  function drawSettings() {
    const { lambda, tau, k } = state.settings;
    const { settings: tuned, retrieves } = state.result;
    $("lambda").value = lambda;
    $("lambda-value").textContent = lambda.toFixed(3);
    $("tau").value = Math.log2(tau / tuned.tau);
    $("tau-value").textContent = number(tau);
    $("k").value = tuned.k > 1 ? Math.log(k) / Math.log(tuned.k) : 1;
    $("k-value").textContent = retrieves ? k : "none";
    $("without").value = chosenOut()[0] ?? -1;
  }

  /** Where the text comes from; an example says it itself. */
  function drawSource() {
    const { origin } = state.result;
    if (!origin.example) $("source").textContent = served.note(origin.text, own() >= 0);
  }

  function drawPerplexity() {
    const { perplexity, lmPerplexity } = state.mixed;
    const { votes } = state.result;
    const { without } = state.settings;
    const ratio = perplexity / lmPerplexity - 1;
    const sign = ratio < 0 ? "−" : "+";
    const verdict = ratio < 0 ? "The vote helps" : ratio > 0 ? "The vote hurts"
      : "The vote changes nothing";
    const line = $("perplexity");
    line.dataset.lm = lmPerplexity;
    line.dataset.mixed = perplexity;
    line.replaceChildren(
      `Perplexity (lower is better): LM alone ${number(lmPerplexity)}, with the vote `,
      element("b", {}, number(perplexity)),
      ` (${sign}${(100 * Math.abs(ratio)).toFixed(1)} %). ${verdict}.`,
      without.length ? ` ${leftOut(without.map(shortName))} left out of the vote.` : "",
    );
    if (without.length && !mixture.complete(votes.positions, state.settings)) {
      line.append(" The numbers are approximate: some tokens have fewer than k neighbors left.");
    }
  }

  const leftOut = (all) => (all.length > 1
    ? `The documents ${all.slice(0, -1).join(", ")} and ${all.at(-1)} are`
    : `The document ${all[0]} is`);

  /** The name of a document as it is shown; its label tells the whole name. */
  function shortName(n) {
    return state.short.get(state.result.votes.documents[n]);
  }

  function documentLabel(n) {
    return names.label(state.result.votes.documents[n], shortName(n));
  }

  function change(some) {
    Object.assign(state.settings, some);
    recompute();
    links.remember();
  }

  /** The token that gained most; one with a letter in it, if there is one. */
  function largestGain() {
    const { tokens: all } = state.result;
    const isWord = all.map((token) => /\p{L}{2}/u.test(token.text));
    const gains = state.mixed.logs.map((one, n) =>
      one.log - all[n].lm_logprob - (isWord[n] || !isWord.includes(true) ? 0 : 1e6));
    return gains.indexOf(Math.max(...gains));
  }

  function choose(n, focus = true) {
    if (!state.spans.length) return;
    state.chosen = tokens.press(state.spans, n, focus);
    tokenPanel.draw();
    links.remember();
  }

  return {
    state, TOP, question, ask, score, clear, example, show, apply, change, choose, own, chosenOut,
    leaveOut, recognize, shortName, documentLabel,
  };
})();
