/* The explorer: a text token by token. The server is asked once for each text; everything that the
   sliders do is computed here (mixture.js). Texts are only ever inserted as text. */

"use strict";

const SHOWN_NEIGHBORS = 5;
const TOP = 10;
const FULL_COLOR = 2; // nats
const SHORTEST_RUN = 5;
const $ = (id) => document.getElementById(id);
const isFile = location.protocol === "file:";

const state = { info: null, result: null, settings: null, chosen: 0, asking: null, passages: new Map() };

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/* ---- numbers and texts for people ---- */

function percent(p) {
  if (p === 0) return "0";
  const shown = 100 * p;
  if (shown >= 10) return `${shown.toFixed(1)} %`;
  return (shown >= 0.1 ? shown.toFixed(2) : shown >= 1e-4 ? String(Number(shown.toPrecision(1))) : shown.toExponential(0)) + " %";
}

function number(value) {
  return value >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
}

/** Control characters are shown, so that nothing acts and nothing is lost. */
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
    String.fromCharCode(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0)));
}

function fill(node, text) {
  const parts = visible(text).split("\n");
  parts.forEach((part, n) => {
    if (n) node.append(element("i", { class: "newline", "aria-hidden": "true" }), "\n");
    node.append(part);
  });
  if (text === "") node.append("·");
  return node;
}

const oneLine = (text) => visible(text).replace(/\n/g, "↵").replace(/^ /, "␣");

/* ---- the server ---- */

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, body, signal) {
  const headers = { "content-type": "application/json" };
  const token = sessionStorage.getItem("knnlm-token");
  if (token) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, body === undefined
      ? { headers, signal }
      : { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer. Is it still running?");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => null);
    throw new Refusal(answer.status, told?.error?.message ?? `The server answered ${answer.status}.`);
  }
  return answer;
}

function say(id, message, isError = false) {
  const line = $(id);
  line.replaceChildren(message);
  line.classList.toggle("error", isError);
}

/** Show what went wrong; where a token is needed, ask for it. */
function tellError(id, error, again) {
  if (error.name === "AbortError") return;
  if (error.status !== 401) {
    const hint = error.status === 429 ? " The server is busy: try again in a moment." : "";
    say(id, error.message + hint, true);
    return;
  }
  const field = element("input", { type: "password", "aria-label": "The token of this server", autocomplete: "off" });
  const button = element("button", { type: "button", onclick: () => {
    sessionStorage.setItem("knnlm-token", field.value);
    again();
  } }, "Use it");
  const box = element("span", {}, "This server asks for a token: ", field, " ", button);
  say(id, box, true);
}

/* ---- a text and its votes ---- */

async function explainText(text, wanted = {}) {
  state.asking?.abort();
  const asking = new AbortController();
  state.asking = asking;
  $("go").disabled = true;
  say("status", "Reading the text and searching its neighbors …");
  try {
    const answer = await ask("api/score", { text, votes: true, neighbors: 8, top: TOP }, asking.signal);
    show(await answer.json(), { text }, wanted);
    say("status", "");
  } catch (error) {
    tellError("status", error, () => explainText(text, wanted));
  } finally {
    if (state.asking === asking) $("go").disabled = false;
  }
}

function showExample(name, wanted = {}) {
  const example = EXAMPLES.examples.find((each) => each.name === name) ?? EXAMPLES.examples[0];
  if (!example) return;
  $("text").value = example.text;
  $("example").value = example.name;
  show(example.answer, { example: example.name }, wanted);
  $("source").textContent = `${EXAMPLES.about} ${example.about}`;
}

function show(answer, origin, wanted) {
  state.passages = new Map();
  for (const token of answer.tokens) {
    for (const neighbor of token.neighbors) state.passages.set(neighbor.entry, neighbor);
  }
  for (const passage of answer.passages ?? []) state.passages.set(passage.entry, passage);
  const retrieves = Boolean(answer.votes);
  if (!retrieves) answer.votes = { positions: answer.tokens.map(asVotes), documents: [], vocabulary: {} };
  state.result = { ...answer, origin, retrieves };
  $("source").textContent = "";
  const tuned = answer.settings;
  state.settings = {
    lambda: wanted.lambda ?? tuned.lambda,
    tau: wanted.tau ?? tuned.tau,
    k: Math.min(wanted.k ?? tuned.k ?? 1, tuned.k ?? 1),
    without: answer.votes.documents.indexOf(wanted.without ?? ""),
  };
  $("result").hidden = false;
  $("k").disabled = $("tau").disabled = !retrieves;
  fillDocuments();
  drawPassage();
  recompute();
  choose(wanted.token ?? largestGain(), false);
}

/** A component that retrieves nothing: its one vote for the token stands for it. */
function asVotes(token) {
  return { scores: [], entries: [], documents: [], distinct: [], which: [], lm_logprobs: [], token };
}

function mixedText() {
  const { tokens, votes, retrieves } = state.result;
  if (retrieves) return mixture.text(tokens, votes.positions, state.settings);
  const { lambda } = state.settings;
  const logs = tokens.map((token) => {
    const knn = token.component_logprob === null ? 0 : Math.exp(token.component_logprob);
    return { knn, log: Math.log((1 - lambda) * Math.exp(token.lm_logprob) + lambda * knn) };
  });
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  return {
    logs,
    lmPerplexity: Math.exp(-mean(tokens.map((token) => token.lm_logprob))),
    perplexity: Math.exp(-mean(logs.map((one) => one.log))),
  };
}

function drawPassage() {
  const { tokens, prompt } = state.result;
  const passage = $("passage");
  const given = element("span", { class: "given", title: "The first token is not predicted" });
  prompt.slice(-1).forEach((text) => fill(given, text));
  const hidesBos = prompt.length === 1 && /^<.*>$/.test(prompt[0]);
  passage.replaceChildren(...(hidesBos ? [] : [given]), ...tokens.map((token, n) => {
    const span = element("span", {
      class: "token", role: "button", tabindex: "-1", "aria-pressed": "false", "data-n": n,
    });
    if (!token.text.trim()) span.setAttribute("aria-label", "white space");
    return fill(span, token.text);
  }));
  state.spans = [...passage.querySelectorAll(".token")];
}

/** Everything that depends on the settings. */
function recompute() {
  const mixed = mixedText();
  state.mixed = mixed;
  state.spans.forEach((span, n) => shade(span, mixed.logs[n].log - state.result.tokens[n].lm_logprob));
  drawNumbers(mixed);
  drawRuns();
  drawDocuments();
  if (state.chosen < state.result.tokens.length) drawPanel();
}

function shade(span, gain) {
  span.classList.toggle("up", gain > 0);
  span.classList.toggle("down", gain < 0);
  span.style.setProperty("--gain", Math.min(1, Math.abs(gain) / FULL_COLOR).toFixed(3));
}

function drawNumbers(mixed) {
  const { lambda, tau, k, without } = state.settings;
  const tuned = state.result.settings;
  $("lambda").value = lambda;
  $("lambda-value").textContent = lambda.toFixed(3);
  $("tau").value = Math.log2(tau / tuned.tau);
  $("tau-value").textContent = number(tau);
  $("k").value = tuned.k > 1 ? Math.log(k) / Math.log(tuned.k) : 1;
  $("k-value").textContent = state.result.retrieves ? k : "none";
  $("without").value = without;
  const change = mixed.perplexity / mixed.lmPerplexity - 1;
  const sign = change < 0 ? "−" : "+";
  const line = $("perplexity");
  line.dataset.lm = mixed.lmPerplexity;
  line.dataset.mixed = mixed.perplexity;
  line.replaceChildren(
    `Perplexity (lower is better): LM ${number(mixed.lmPerplexity)}, with the vote `,
    element("b", {}, number(mixed.perplexity)),
    `, ${sign}${(100 * Math.abs(change)).toFixed(1)} %. The vote ${change < 0 ? "helped" : change > 0 ? "hurt" : "changed nothing"}`,
    without >= 0 ? `, without ${state.result.votes.documents[without]}.` : ".",
  );
  if (without >= 0 && !mixture.complete(state.result.votes.positions, state.settings)) {
    line.append(" About: at some tokens fewer neighbors are left than vote.");
  }
}

function drawRuns() {
  const { tokens, votes, retrieves } = state.result;
  const runs = retrieves ? mixture.runs(tokens, votes.positions, state.settings, SHORTEST_RUN) : [];
  state.spans.forEach((span) => span.classList.remove("in-run"));
  for (const run of runs) {
    for (let n = run.start; n < run.start + run.length; n++) state.spans[n].classList.add("in-run");
  }
  if (!runs.length) return $("runs").replaceChildren();
  const items = runs.slice(0, 8).map((run) => {
    const words = tokens.slice(run.start, run.start + run.length).map((t) => t.text).join("");
    const label = visible(words).trim().replace(/\s+/g, " ");
    return element("li", {},
      element("button", { type: "button", onclick: () => choose(run.start) },
        label.length > 60 ? label.slice(0, 60) + "…" : label),
      ` follows ${votes.documents[run.document]} for ${run.length} tokens`);
  });
  const covered = runs.reduce((sum, run) => sum + run.length, 0) / tokens.length;
  const warning = covered > 0.5
    ? [element("p", { class: "note" }, "Most of this text follows stored documents word for word: it may be one of them, "
      + "and then it retrieves itself. Paste a text that is not stored to see what neighbors are worth.")]
    : [];
  $("runs").replaceChildren(element("h2", {}, "Spans that follow one document (double underline)"), ...warning, element("ul", {}, ...items));
}

function fillDocuments() {
  const { documents } = state.result.votes;
  const options = documents
    .map((name, n) => [name, n])
    .sort((a, b) => a[0].localeCompare(b[0]))
    .map(([name, n]) => element("option", { value: n }, name));
  $("without").replaceChildren(element("option", { value: -1 }, "none"), ...options);
}

function drawDocuments() {
  const { tokens, votes, retrieves } = state.result;
  if (!retrieves) return $("documents").replaceChildren();
  const voting = mixture.documents(tokens, votes.positions, state.settings).slice(0, 5);
  const items = voting.map(([n, weight]) => element("li", {},
    `${votes.documents[n]}: ${weight.toFixed(1)} of ${tokens.length} votes `,
    element("button", { type: "button", onclick: () => change({ without: n }) }, "leave out")));
  const back = state.settings.without >= 0
    ? [element("button", { type: "button", onclick: () => change({ without: -1 }) },
      `take ${votes.documents[state.settings.without]} back`)]
    : [];
  $("documents").replaceChildren(element("h2", {}, "Documents that voted for these tokens"), element("ul", {}, ...items), ...back);
}

function change(some) {
  Object.assign(state.settings, some);
  recompute();
  remember();
}

/* ---- one token ---- */

/** The token that gained most; one with a letter in it, if there is one. */
function largestGain() {
  const { tokens } = state.result;
  const isWord = tokens.map((token) => /\p{L}{2}/u.test(token.text));
  const gains = state.mixed.logs.map((one, n) =>
    one.log - tokens[n].lm_logprob - (isWord[n] || !isWord.includes(true) ? 0 : 1e6));
  return gains.indexOf(Math.max(...gains));
}

function choose(n, focus = true) {
  const count = state.spans.length;
  if (!count) return;
  state.chosen = Math.max(0, Math.min(count - 1, n));
  state.spans.forEach((span, i) => {
    const is = i === state.chosen;
    span.setAttribute("aria-pressed", is);
    span.tabIndex = is ? 0 : -1;
    if (is && focus) span.focus({ preventScroll: false });
  });
  drawPanel();
  remember();
}

function bar(label, p) {
  const inner = element("i");
  inner.style.width = `${100 * Math.min(1, p)}%`;
  return [element("span", {}, label), element("span", { class: "bar" }, inner), element("span", { class: "number" }, percent(p))];
}

function drawPanel() {
  const n = state.chosen;
  const token = state.result.tokens[n];
  const position = state.result.votes.positions[n];
  const one = state.mixed.logs[n];
  const gain = one.log - token.lm_logprob;
  const parts = [
    element("div", { class: "chosen-token" }, `“${oneLine(token.text)}”`),
    element("div", { class: "bars" }, ...bar("LM", Math.exp(token.lm_logprob)), ...bar("neighbors", one.knn), ...bar("mixed", Math.exp(one.log))),
    element("p", { class: "note" }, gain === 0 ? "The vote changed nothing here."
      : `The vote made it ${gain > 0 ? "likelier" : "less likely"}, by a factor of ${number(Math.exp(Math.abs(gain)))}.`),
  ];
  if (state.result.retrieves) {
    parts.push(element("h3", {}, "The nearest stored contexts"), drawNeighbors(token, position), drawTops(token, position));
  }
  $("panel").replaceChildren(...parts);
}

function name(id, token) {
  const known = token.lm_top.find((each) => each.id === id) ?? (token.id === id ? token : null);
  return known ? known.text : state.result.votes.vocabulary[id] ?? `token ${id}`;
}

function drawTops(token, position) {
  const likeliest = mixture.distributions(token, position, state.settings, TOP);
  const list = (title, pairs) => element("div", {}, element("h4", {}, title),
    element("ol", {}, ...pairs.map(([id, p]) => element("li", id === token.id ? { class: "is-token" } : {},
      element("span", {}, oneLine(name(id, token))), element("span", { class: "number" }, percent(p))))));
  return element("div", { class: "tops" }, element("h3", { class: "wide" }, "The likeliest tokens"), list("LM", likeliest.lm), list("Neighbors", likeliest.knn), list("Mixed", likeliest.mixed));
}

function drawNeighbors(token, position) {
  const places = mixture.voters(position, state.settings);
  const shares = mixture.weights(position, places, state.settings.tau);
  const shown = places.slice(0, SHOWN_NEIGHBORS);
  const missing = shown.map((i) => position.entries[i]).filter((entry) => !state.passages.has(entry));
  if (missing.length && !isFile && !state.result.origin.example) fetchPassages(missing);
  return element("ol", { class: "neighbors" }, ...shown.map((i, m) => {
    const passage = state.passages.get(position.entries[i]);
    const hit = position.distinct[position.which[i]] === token.id;
    const document_ = state.result.votes.documents[position.documents[i]];
    const mark = fill(element("mark", hit ? { class: "hit" } : {}), passage?.text ?? name(position.distinct[position.which[i]], token));
    const snippet = element("div", { class: "snippet", dir: "auto" },
      visible((passage?.before ?? "… ").slice(-140)), mark, visible((passage?.after ?? "").slice(0, 60)));
    const inner = element("i");
    inner.style.width = `${100 * shares[m]}%`;
    return element("li", {}, snippet, element("div", { class: "bars" },
      element("span", {}, "vote"), element("span", { class: "bar" }, inner), element("span", { class: "number" }, percent(shares[m]))),
      element("div", { class: "from" }, element("span", {}, `${document_}, similarity ${position.scores[i].toFixed(2).replace("-", "−")}`),
        element("button", { type: "button", onclick: () => change({ without: position.documents[i] }) }, "leave out this document")));
  }));
}

async function fetchPassages(entries) {
  try {
    const answer = await ask("api/entries", { entries });
    for (const passage of (await answer.json()).entries) state.passages.set(passage.entry, passage);
    drawPanel();
  } catch (error) {
    for (const entry of entries) state.passages.set(entry, { before: "… ", after: "", text: undefined });
  }
}

/** Arrow keys, Home and End move from token to token. */
function onKey(event, spans, go) {
  const now = spans.indexOf(event.target);
  if (now < 0) return;
  const places = { ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: now + 10, ArrowUp: now - 10, Home: 0, End: spans.length - 1 };
  if (event.key in places) go(places[event.key]);
  else if (event.key === "Enter" || event.key === " ") go(now);
  else return;
  event.preventDefault();
}

/* ---- links ---- */

function remember() {
  if (!state.result) return;
  const { origin, settings: tuned, votes } = state.result;
  const { lambda, tau, k, without } = state.settings;
  const fields = new URLSearchParams();
  for (const [key, value] of Object.entries(origin)) fields.set(key, value);
  if (lambda !== tuned.lambda) fields.set("lambda", lambda);
  if (tau !== tuned.tau) fields.set("tau", tau);
  if (k !== tuned.k) fields.set("k", k);
  if (without >= 0) fields.set("without", votes.documents[without]);
  fields.set("token", state.chosen);
  history.replaceState(null, "", `#explain?${fields}`);
}

function openLink() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  showView(view === "compare" ? "compare" : "explain");
  const fields = new URLSearchParams(query);
  const wanted = {};
  for (const key of ["lambda", "tau", "k", "token"]) {
    const value = Number(fields.get(key) ?? NaN);
    if (Number.isFinite(value)) wanted[key] = value;
  }
  if (wanted.lambda !== undefined) wanted.lambda = Math.min(1, Math.max(0, wanted.lambda));
  if (!(wanted.tau > 0)) delete wanted.tau;
  if (wanted.k !== undefined) wanted.k = Math.max(1, Math.round(wanted.k));
  if (wanted.token !== undefined) wanted.token = Math.round(wanted.token);
  if (fields.get("without")) wanted.without = fields.get("without");
  if (fields.get("text") && !isFile) {
    $("text").value = fields.get("text");
    explainText(fields.get("text"), wanted);
  } else if (!state.result || fields.get("example")) {
    showExample(fields.get("example"), wanted);
  }
}

function showView(view) {
  for (const each of ["explain", "compare"]) {
    $(each).hidden = each !== view;
    if (each === view) $(`tab-${each}`).setAttribute("aria-current", "page");
    else $(`tab-${each}`).removeAttribute("aria-current");
  }
}

/* ---- two continuations ---- */

const compared = { spans: [], tokens: [], stop: null };

async function compareContinuations(prompt, length) {
  compared.stop?.abort();
  const stop = new AbortController();
  compared.stop = stop;
  Object.assign(compared, { spans: [], tokens: [] });
  $("continue-go").disabled = true;
  say("compare-status", "Writing …");
  $("compare-panel").replaceChildren();
  for (const id of ["base-text", "knn-text"]) $(id).replaceChildren(fill(element("span", { class: "given" }), prompt));
  const request = { prompt, max_tokens: length, temperature: 0, stream: true };
  try {
    const model = (state.info ??= await (await ask("api/info")).json()).model;
    await Promise.all([
      stream({ ...request, model: `${model}:base` }, stop.signal, (choice) => $("base-text").append(visible(choice.text))),
      stream({ ...request, model, knn: { sources: SHOWN_NEIGHBORS } }, stop.signal, addToken),
    ]);
    const same = $("base-text").textContent === $("knn-text").textContent.replaceAll("↵", "");
    say("compare-status", `${same ? "Both wrote the same. " : ""}Choose a token on the right to see where it comes from.`);
  } catch (error) {
    stop.abort();
    tellError("compare-status", error, () => compareContinuations(prompt, length));
  } finally {
    if (compared.stop === stop) $("continue-go").disabled = false;
  }
}

async function stream(body, signal, take) {
  const answer = await ask("v1/completions", body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const parsed = JSON.parse(data);
      if (parsed.error) throw new Refusal(parsed.status ?? 500, parsed.error.message);
      for (const choice of parsed.choices) take(choice);
    }
  }
}

function addToken(choice) {
  const token = choice.knn?.[0];
  if (!token) return void $("knn-text").append(visible(choice.text));
  if (choice.text === "" && choice.finish_reason) return;
  const n = compared.tokens.length;
  const span = element("span", { class: "token", role: "button", tabindex: n ? "-1" : "0", "aria-pressed": "false", "data-n": n });
  fill(span, choice.text);
  shade(span, token.logprob - token.lm_logprob);
  compared.tokens.push({ ...token, text: choice.text });
  compared.spans.push(span);
  $("knn-text").append(span);
}

function chooseCompared(n) {
  const at = Math.max(0, Math.min(compared.spans.length - 1, n));
  compared.spans.forEach((span, i) => {
    span.setAttribute("aria-pressed", i === at);
    span.tabIndex = i === at ? 0 : -1;
  });
  compared.spans[at].focus();
  const token = compared.tokens[at];
  const knn = token.component_logprob === null ? 0 : Math.exp(token.component_logprob);
  $("compare-panel").replaceChildren(
    element("div", { class: "chosen-token" }, `“${oneLine(token.text)}”`),
    element("div", { class: "bars" }, ...bar("LM", Math.exp(token.lm_logprob)), ...bar("neighbors", knn), ...bar("mixed", Math.exp(token.logprob))),
    element("h3", {}, "The nearest stored contexts"),
    element("ol", { class: "neighbors" }, ...token.neighbors.map((neighbor) => element("li", {},
      element("div", { class: "snippet", dir: "auto" }, visible(neighbor.before.slice(-140)),
        fill(element("mark", neighbor.is_target ? { class: "hit" } : {}), neighbor.text), visible(neighbor.after.slice(0, 60))),
      element("div", { class: "from" }, element("span", {}, neighbor.document), element("span", { class: "number" }, percent(neighbor.weight)))))));
}

/* ---- the page ---- */

function listen() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("text").value;
    if (text.trim()) explainText(text);
    else say("status", "Paste a text first.", true);
  });
  $("example").addEventListener("change", () => {
    state.asking?.abort();
    say("status", "");
    showExample($("example").value);
  });
  $("lambda").addEventListener("input", () => change({ lambda: Number($("lambda").value) }));
  $("tau").addEventListener("input", () => change({ tau: state.result.settings.tau * 2 ** Number($("tau").value) }));
  $("k").addEventListener("input", () => change({ k: Math.round(state.result.settings.k ** Number($("k").value)) }));
  $("without").addEventListener("change", () => change({ without: Number($("without").value) }));
  $("reset").addEventListener("click", () => {
    const { lambda, tau, k } = state.result.settings;
    change({ lambda, tau, k: k ?? 1, without: -1 });
  });
  $("link").addEventListener("click", async () => {
    remember();
    try {
      await navigator.clipboard.writeText(location.href);
      say("status", "The link is copied.");
    } catch {
      say("status", "The link is in the address bar.");
    }
  });
  $("passage").addEventListener("click", (event) => {
    const span = event.target.closest(".token");
    if (span) choose(Number(span.dataset.n));
  });
  $("passage").addEventListener("keydown", (event) => onKey(event, state.spans, choose));
  $("continue").addEventListener("submit", (event) => {
    event.preventDefault();
    const prompt = $("prompt").value;
    if (prompt) compareContinuations(prompt, Number($("length").value) || 40);
    else say("compare-status", "Write a beginning first.", true);
  });
  $("knn-text").addEventListener("click", (event) => {
    const span = event.target.closest(".token");
    if (span) chooseCompared(Number(span.dataset.n));
  });
  $("knn-text").addEventListener("keydown", (event) => onKey(event, compared.spans, chooseCompared));
  window.addEventListener("hashchange", openLink);
}

async function begin() {
  listen();
  $("example").replaceChildren(...EXAMPLES.examples.map((each) => element("option", { value: each.name }, each.name)));
  openLink();
  if (isFile) {
    onlyExamples("This page was opened from a file");
  } else {
    try {
      state.info = await (await ask("api/info")).json();
      $("about").textContent = `${state.info.model}: ${state.info.entries.toLocaleString("en-US")} entries of `
        + `${state.info.documents.toLocaleString("en-US")} documents. knnlm ${state.info.version}.`;
    } catch (error) {
      if (error.status === 404) onlyExamples("There is no model behind this page");
      else tellError("status", error, () => location.reload());
    }
  }
}

function onlyExamples(reason) {
  for (const id of ["text", "go", "prompt", "continue-go"]) $(id).disabled = true;
  say("compare-status", "Continuing a text needs a server: run knnlm explore.");
  $("notice").textContent = `${reason}: it shows its examples. For texts of your own, run knnlm explore.`;
}

begin();
