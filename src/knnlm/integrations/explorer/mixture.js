/* The arithmetic of the page: log P of a token from the votes that the server sent.

     P = (1-λ)·p_LM + λ·Σ softmax(score/τ) over the k nearest neighbors that hold the token

   A position of `votes` has parallel arrays, nearest neighbor first: `scores`, `entries`,
   `documents` (numbers of names), `which` (places in `distinct`, the tokens that were voted for,
   whose log p_LM is in `lm_logprobs`). There are more neighbors than vote, so that the next ones
   take the places of documents that are left out (`without`, their numbers). */

"use strict";

const mixture = (() => {
  /** The neighbors that vote: the first k that are in no document left out. */
  function voters(position, settings) {
    const { scores, documents } = position;
    const places = [];
    for (let i = 0; i < scores.length && places.length < settings.k; i++) {
      if (!settings.without.includes(documents[i])) places.push(i);
    }
    return places;
  }

  /** softmax(score/τ) of those neighbors, in their order. */
  function weights(position, places, tau) {
    if (!places.length) return [];
    const best = position.scores[places[0]];
    const raw = places.map((i) => Math.exp((position.scores[i] - best) / tau));
    const total = raw.reduce((sum, value) => sum + value, 0);
    return raw.map((value) => value / total);
  }

  function mixed(lm, knn, lambda) {
    return Math.log((1 - lambda) * Math.exp(lm) + lambda * knn);
  }

  /** p_kNN and log P of a token. */
  function tokenProbability(token, position, settings) {
    const target = position.distinct.indexOf(token.id);
    const places = voters(position, settings);
    let knn = 0;
    if (target >= 0 && places.length) {
      const best = position.scores[places[0]];
      let total = 0;
      for (const i of places) {
        const vote = Math.exp((position.scores[i] - best) / settings.tau);
        total += vote;
        if (position.which[i] === target) knn += vote;
      }
      knn /= total;
    }
    return { knn, log: mixed(token.lm_logprob, knn, settings.lambda) };
  }

  /** The likeliest tokens of the LM, of the neighbors and of the mixture. */
  function distributions(token, position, settings, count) {
    const places = voters(position, settings);
    const shares = weights(position, places, settings.tau);
    const knn = new Map();
    places.forEach((i, n) => {
      const id = position.distinct[position.which[i]];
      knn.set(id, (knn.get(id) || 0) + shares[n]);
    });
    const lm = new Map(position.distinct.map((id, n) => [id, position.lm_logprobs[n]]));
    for (const known of token.lm_top) lm.set(known.id, known.logprob);
    lm.set(token.id, token.lm_logprob);
    const both = [...lm].map(([id, log]) => [
      id,
      (1 - settings.lambda) * Math.exp(log) + settings.lambda * (knn.get(id) || 0),
    ]);
    const largest = (pairs) => pairs.sort((a, b) => b[1] - a[1]).slice(0, count);
    return {
      lm: token.lm_top.slice(0, count).map((known) => [known.id, Math.exp(known.logprob)]),
      knn: largest([...knn]),
      mixed: largest(both),
    };
  }

  /** The whole text: log P of each token, and perplexities per token. */
  function text(tokens, positions, settings) {
    let lm = 0;
    let log = 0;
    const logs = tokens.map((token, n) => {
      const one = tokenProbability(token, positions[n], settings);
      lm += token.lm_logprob;
      log += one.log;
      return one;
    });
    const count = Math.max(1, tokens.length);
    return { logs, lmPerplexity: Math.exp(-lm / count), perplexity: Math.exp(-log / count) };
  }

  /** The same for a component without votes: its own probability of each token is given. */
  function given(tokens, lambda) {
    let lm = 0;
    let log = 0;
    const logs = tokens.map((token) => {
      const knn = token.component_logprob === null ? 0 : Math.exp(token.component_logprob);
      const one = { knn, log: mixed(token.lm_logprob, knn, lambda) };
      lm += token.lm_logprob;
      log += one.log;
      return one;
    });
    const count = Math.max(1, tokens.length);
    return { logs, lmPerplexity: Math.exp(-lm / count), perplexity: Math.exp(-log / count) };
  }

  /** Runs of tokens that neighbors of one document predict one after the other: entry e, then
      e + 1, and so on. The longest first; a token belongs to one run. */
  function runs(tokens, positions, settings, shortest) {
    const ended = [];
    let before = new Map();
    tokens.forEach((token, n) => {
      const position = positions[n];
      const target = position.distinct.indexOf(token.id);
      const now = new Map();
      if (target >= 0) {
        for (const i of voters(position, settings)) {
          if (position.which[i] !== target) continue;
          const entry = position.entries[i];
          const run = before.get(entry - 1);
          const same = run && run.document === position.documents[i];
          const grown = same
            ? { ...run, length: run.length + 1 }
            : { start: n, length: 1, document: position.documents[i], entry };
          now.set(entry, grown);
        }
      }
      for (const [entry, run] of before) {
        const next = now.get(entry + 1);
        if (!(next && next.start === run.start)) ended.push(run);
      }
      before = now;
    });
    ended.push(...before.values());
    const taken = new Set();
    return ended
      .filter((run) => run.length >= shortest)
      .sort((a, b) => b.length - a.length || a.start - b.start)
      .filter((run) => {
        const places = Array.from({ length: run.length }, (_, i) => run.start + i);
        if (places.some((place) => taken.has(place))) return false;
        places.forEach((place) => taken.add(place));
        return true;
      });
  }

  /** How much of the vote for the true tokens each document has, the most first. */
  function documents(tokens, positions, settings) {
    const total = new Map();
    tokens.forEach((token, n) => {
      const position = positions[n];
      const target = position.distinct.indexOf(token.id);
      if (target < 0) return;
      const places = voters(position, settings);
      const shares = weights(position, places, settings.tau);
      places.forEach((i, m) => {
        if (position.which[i] !== target) return;
        const number = position.documents[i];
        total.set(number, (total.get(number) || 0) + shares[m]);
      });
    });
    return [...total].sort((a, b) => b[1] - a[1]);
  }

  /** Whether k neighbors are left at every position without the documents left out. */
  function complete(positions, settings) {
    return positions.every((position) => {
      const all = position.scores.length;
      return voters(position, settings).length >= Math.min(settings.k, all) || position.all;
    });
  }

  return {
    voters, weights, tokenProbability, distributions, text, given, runs, documents, complete,
  };
})();

if (typeof module !== "undefined") module.exports = mixture;
