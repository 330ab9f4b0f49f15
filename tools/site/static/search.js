// Searches the pages in the browser: the index is a file of this site, and nothing is sent.
"use strict";

// find returns the pages that contain each word of the query, the best first.
function find(index, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const hits = [];
  for (const page of index) {
    const title = page.title.toLowerCase(), text = page.text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const count = text.split(word).length - 1;
      if (!count && !title.includes(word)) { score = 0; break; }
      score += Math.min(count, 20) + (title.includes(word) ? 100 : 0);
    }
    if (score) hits.push({page, score, at: Math.max(0, text.indexOf(words[0]))});
  }
  hits.sort((a, b) => b.score - a.score || a.page.url.localeCompare(b.page.url));
  return hits.slice(0, 12);
}

if (typeof document !== "undefined") {
  const input = document.getElementById("search"), list = document.getElementById("found");
  input.addEventListener("input", () => {
    const hits = find(window.searchIndex || [], input.value);
    list.replaceChildren(...hits.map(({page, at}) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("p");
      link.href = input.dataset.root + page.url;
      link.textContent = page.title;
      text.textContent = page.text.slice(Math.max(0, at - 40), at + 120);
      item.append(link, text);
      return item;
    }));
    list.hidden = hits.length === 0;
  });
}
