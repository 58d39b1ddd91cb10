/* What is served: it is named at the top, and a passage of it is the first thing to see. */

"use strict";

const served = (() => {
  const { $, element } = page;
  const CANDIDATES = 24;
  const BEGINNING = 8; // words

  const state = { info: null, passage: null, beginning: null };
  let reading = null; // the passage, as it comes

  /** Ask what is served. */
  async function begin() {
    state.info = await (await server.ask("api/info")).json();
    drawAbout();
    $("version").textContent = `knnlm ${state.info.version}`;
    fillBeginning();
  }

  /** Name what the shown view is about: what is served, or what an example was recorded with. */
  function drawAbout() {
    const isExample = !$("explain").hidden && explain.state.result?.origin.example;
    $("about").replaceChildren(...(isExample ? aboutExample() : state.info ? aboutServed() : []));
  }

  const aboutExample = () =>
    ["An example, recorded with ", element("b", {}, EXAMPLES.recorded_with), "."];

  function aboutServed() {
    const { model, entries, documents, base_model: lm } = state.info;
    const count = (value) => value.toLocaleString("en-US");
    return [
      "Datastore ", element("b", {}, model),
      `: ${count(entries)} entries of ${count(documents)} documents. `,
      "Language model: ", element("b", {}, lm.name),
      ` (${lm.architecture}, ${size(lm.parameters)} parameters).`,
    ];
  }

  function size(parameters) {
    const [unit, name] = parameters >= 1e9 ? [1e9, "billion"] : [1e6, "million"];
    return `${Number((parameters / unit).toPrecision(2))} ${name}`;
  }

  /** A passage of the served text: of some, the one that is most like prose. It is the same each
      time, so a text that is this passage is recognized. */
  function passage() {
    reading ??= read().catch((error) => {
      reading = null;
      throw error;
    });
    return reading;
  }

  async function read() {
    const { entries } = state.info;
    const count = Math.min(CANDIDATES, entries);
    const places = Array.from({ length: count }, (_, n) => Math.floor((n + 0.5) * entries / count));
    const answer = await (await server.ask("api/entries", { entries: places })).json();
    state.passage = answer.entries
      .map((each) => ({ text: asShown(passages.whole(each)), document: each.document }))
      .sort((a, b) => passages.quality(b.text) - passages.quality(a.text))[0];
    if (explain.state.result?.origin.text === state.passage.text) explain.recognize();
    return state.passage;
  }

  /** A text field has one kind of line break. */
  const asShown = (text) => text.replace(/\r\n?/g, "\n");

  const isPassage = (text) => Boolean(text) && text === state.passage?.text;

  /** The document that has no vote on a text, because the text is a passage of it and would find
      itself; null if there is none, or no other. */
  function ownDocument(text) {
    const isOneOfMany = state.info?.documents > 1 && state.info.metric;
    return isPassage(text) && isOneOfMany ? state.passage.document : null;
  }

  /** Where a text comes from, if it is the passage. */
  function note(text, isLeftOut) {
    if (!isPassage(text)) return "";
    return `A passage of ${state.passage.document}, a document of this datastore.`
      + (isLeftOut ? " Its own document is left out, or it would find itself." : "")
      + " One passage says little; write a text of your own.";
  }

  /** The same of a beginning. */
  function noteOfBeginning(prompt) {
    if (!prompt || prompt !== state.beginning) return "";
    return `These are the first words of a passage of ${state.passage.document}, a document of `
      + "this datastore: what follows them there may be retrieved.";
  }

  /** What a visitor has begun to write stays. */
  const isTouched = () => $("text").value !== "" || document.activeElement === $("text");

  /** Explain a passage of the served text. */
  function explainPassage(wanted) {
    if (isTouched()) return;
    explain.question("Opening the datastore …", async (signal) => {
      const { text } = await passage();
      if (signal.aborted || isTouched() || !text) return;
      $("text").value = text;
      await explain.score(text, wanted, signal);
    }, () => explainPassage(wanted));
  }

  /** A beginning for the second tab. */
  async function fillBeginning() {
    try {
      const { text } = await passage();
      const prompt = $("prompt");
      state.beginning = text.split(/\s+/).slice(0, BEGINNING).join(" ");
      if (!prompt.value && document.activeElement !== prompt) prompt.value = state.beginning;
      compare.drawSource();
    } catch { /* it stays empty, and the visitor writes one */ }
  }

  return { state, begin, drawAbout, ownDocument, note, noteOfBeginning, explainPassage };
})();
