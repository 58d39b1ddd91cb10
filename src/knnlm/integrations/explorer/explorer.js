/* The explorer begins here: what each control does, and what is behind the page. The other scripts
   are one object each: page (elements), server and served (what is behind the page), mixture
   (arithmetic), names (of documents), passages, letters and tokens (of a text), explain with its
   lists, tokenPanel and neighbors, compare, links. */

"use strict";

(() => {
  const { $, element, say, isFile, isWide } = page;

  function listenToExplain() {
    const { state, change } = explain;
    const tuned = () => state.result.settings;
    const on = (id, kind, act) => $(id).addEventListener(kind, () => act(Number($(id).value)));
    on("lambda", "input", (value) => change({ lambda: value }));
    on("tau", "input", (value) => change({ tau: tuned().tau * 2 ** value }));
    on("k", "input", (value) => change({ k: Math.round(tuned().k ** value) }));
    on("without", "change", explain.leaveOut);
    on("reset", "click", () => {
      const { lambda, tau, k } = tuned();
      change({ lambda, tau, k: k ?? 1 });
    });
    on("link", "click", copyLink);
    $("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = $("text").value;
      if (text.trim()) return void explain.ask(text);
      explain.clear();
      say("status", "Paste a text first.", true);
    });
    $("example").addEventListener("change", () => {
      say("status", "");
      if ($("example").value) explain.example($("example").value);
    });
    tokens.listen($("passage"), () => state.spans, explain.choose, $("panel"));
  }

  async function copyLink() {
    links.remember();
    try {
      await navigator.clipboard.writeText(location.href);
      say("status", "The link is copied.");
    } catch {
      say("status", "The link is in the address bar.");
    }
  }

  function listenToCompare() {
    $("continue").addEventListener("submit", (event) => {
      event.preventDefault();
      const prompt = $("prompt").value;
      if (prompt) compare.ask(prompt, Number($("length").value) || 40);
      else say("compare-status", "Write a beginning first.", true);
    });
    $("prompt").addEventListener("input", compare.drawSource);
    tokens.listen(
      $("knn-text"), () => compare.state.spans, compare.choose, $("compare-panel"));
  }

  async function begin() {
    const options = EXAMPLES.examples.map(({ name }) => element("option", { value: name }, name));
    const recorded = { label: `recorded with ${EXAMPLES.recorded_with}` };
    $("example").replaceChildren(
      element("option", { value: "" }, "a recorded example"),
      element("optgroup", recorded, ...options));
    foldSettings();
    listenToExplain();
    listenToCompare();
    if (isFile) onlyExamples("This page was opened from a file");
    else if (!await findServer()) return;
    window.addEventListener("hashchange", links.open);
    links.open();
  }

  /** Whether there is something to show; what a server refuses is told. */
  async function findServer() {
    try {
      await served.begin();
    } catch (error) {
      if (error.status === 404) onlyExamples("There is no model behind this page");
      else server.tellError("status", error, () => location.reload());
      return error.status === 404;
    }
    return true;
  }

  /** On a narrow screen the settings are one line that opens: the text comes first. */
  function foldSettings() {
    const fold = () => { $("settings").open = isWide.matches; };
    isWide.addEventListener("change", fold);
    fold();
  }

  function onlyExamples(reason) {
    for (const id of ["text", "go", "prompt", "continue-go"]) $(id).disabled = true;
    say("compare-status", "Continuing a text needs a server: run knnlm explore.");
    $("notice").textContent =
      `${reason}: it shows its examples. For texts of your own, run knnlm explore.`;
  }

  begin();
})();
