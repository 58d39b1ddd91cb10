/* The names of documents, as people read them. */

"use strict";

const names = (() => {
  const { element } = page;
  const SCHEME = /^https?:\/\//i;

  /** From each name to a shorter one: the folders that all names share are left out. A bare number
      keeps its folder. */
  function shorten(all) {
    const paths = all.map((name) => name.replace(SCHEME, "").split("/"));
    let shared = 0;
    const isShared = (n) => paths.every((path) =>
      n < path.length - 1 && path[n] === paths[0][n]);
    while (paths.length && isShared(shared)) shared++;
    return new Map(all.map((name, n) => {
      const kept = paths[n].slice(shared).join("/");
      const bare = /^\d*$/.test(kept) && shared > 0;
      return [name, bare ? paths[n].slice(shared - 1).join("/") : kept];
    }));
  }

  /** The page that a document comes from: its name, or its name within a file of rows
      (`pages.jsonl:https://…`). Nothing but http and https. */
  function address(name) {
    const found = /^(?:[^\s:]+:)?(https?:\/\/\S+)$/i.exec(name);
    if (!found || !URL.canParse(found[1])) return null;
    const { protocol, href } = new URL(found[1]);
    return protocol === "https:" || protocol === "http:" ? href : null;
  }

  /** The short name, which tells the whole one; a link if it is an address. */
  function label(name, short = name) {
    const href = address(name);
    if (!href) return element("span", short === name ? {} : { title: name }, short);
    const safe = { target: "_blank", rel: "noopener noreferrer" };
    return element("a", { href, title: name, ...safe }, short);
  }

  return { shorten, address, label };
})();
