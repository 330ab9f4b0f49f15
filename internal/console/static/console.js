"use strict";
// The pages work without this script. It draws the map, follows changes and copies commands. It
// writes text by textContent only: names come from tenants and drivers.
(() => {
  const $ = (id) => document.getElementById(id);
  const live = document.body.dataset.live === "true";
  const marks = ["none", "patched", "excluded", "patched-away", "unreachable", "noschedule", "noexecute", "draining", "sick"];
  const letters = ["", "P", "E", "A", "U", "N", "X", "D", "S"];
  const fills = ["free", "held", "unknown"];
  const colours = ["device", "patched", "excluded", "away", "unreachable", "noschedule", "noexecute", "draining", "sick"];
  const decode = (code) => { const n = code.charCodeAt(0) - 65; return { fill: Math.floor(n / marks.length), mark: n % marks.length }; };
  const words = (code) => { const s = decode(code); return fills[s.fill] + (s.mark ? ", " + marks[s.mark] : ""); };
  const number = (n) => n.toLocaleString("en-US");

  // Colours come from the style sheet.
  let theme = {};
  const readTheme = () => {
    const style = getComputedStyle(document.documentElement);
    theme = { text: style.getPropertyValue("--text").trim(), soft: style.getPropertyValue("--soft").trim(), panel: style.getPropertyValue("--panel").trim(), accent: style.getPropertyValue("--accent").trim(), glyph: style.getPropertyValue("--glyph").trim() };
    theme.marks = colours.map((name) => style.getPropertyValue("--" + name).trim());
    sprites.clear();
  };

  // A sprite is the picture of a state: filled if held, dotted if unknown, and a shape for its mark.
  const sprites = new Map();
  const sprite = (code, size, scale) => {
    const key = code + size + "/" + scale;
    let picture = sprites.get(key);
    if (picture) return picture;
    picture = document.createElement("canvas");
    picture.width = picture.height = Math.round(size * scale);
    const c = picture.getContext("2d");
    c.scale(scale, scale);
    drawState(c, decode(code), size);
    sprites.set(key, picture);
    return picture;
  };
  const drawState = (c, state, s) => {
    const colour = theme.marks[state.mark], held = state.fill === 1, w = s >= 12 ? 1.5 : 1;
    c.fillStyle = c.strokeStyle = colour;
    c.lineWidth = w;
    if (held) {
      c.globalAlpha = state.mark ? 1 : 0.82;
      c.fillRect(0, 0, s, s);
      c.globalAlpha = 1;
    } else {
      if (state.fill === 2) c.setLineDash([w, w * 1.5]);
      c.strokeRect(w / 2, w / 2, s - w, s - w);
      c.setLineDash([]);
    }
    if (!state.mark) return;
    c.fillStyle = c.strokeStyle = held ? theme.glyph : colour;
    if (s >= 16) {
      c.font = "600 " + Math.round(s * 0.66) + "px system-ui, sans-serif";
      c.textAlign = "center";
      c.textBaseline = "middle";
      c.fillText(letters[state.mark], s / 2, s / 2 + 0.5);
      return;
    }
    shape(c, state.mark, s);
  };
  const shape = (c, mark, s) => {
    const a = s * 0.24, b = s - a, m = s / 2;
    const line = (...points) => { c.beginPath(); points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y))); c.stroke(); };
    const area = (...points) => { c.beginPath(); points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y))); c.fill(); };
    c.lineWidth = Math.max(1, s / 7);
    switch (marks[mark]) {
      case "noexecute": line([a, a], [b, b]); line([b, a], [a, b]); break;
      case "noschedule": line([a, b], [b, a]); break;
      case "draining": area([a, a], [b, a], [m, b]); break;
      case "sick": line([m, a], [m, b]); line([a, m], [b, m]); break;
      case "unreachable": line([a, m], [b, m]); break;
      case "patched": area([s, 0], [s, s * 0.55], [s * 0.45, 0]); break;
      default: c.fillRect(m - s / 8, m - s / 8, s / 4, s / 4);
    }
  };

  const legend = () => {
    for (const swatch of document.querySelectorAll(".swatch")) {
      const scale = window.devicePixelRatio || 1, c = document.createElement("canvas");
      c.width = c.height = 14 * scale;
      c.style.width = c.style.height = "14px";
      c.getContext("2d").drawImage(sprite(swatch.dataset.code, 12, scale), scale, scale);
      swatch.replaceChildren(c);
    }
  };

  // The map: nodes as tiles of cells, tiles in lines, lines in groups. Only what is in the viewport
  // is drawn.
  const map = { data: null, cells: new Map(), lines: [], height: 0, cell: 7, selected: null, frame: 0, whole: false, touched: new Set() };
  const viewport = $("viewport"), canvas = $("canvas"), spacer = $("spacer"), pointed = $("pointed");
  const measure = () => {
    const wanted = Number($("size").value), nodes = map.data.groups.reduce((n, g) => n + g.rows.length, 0);
    map.cell = wanted || (nodes > 400 ? 7 : nodes > 24 ? 12 : 18);
    map.gap = map.cell < 10 ? 1 : 2;
    const step = map.cell + map.gap;
    const c = canvas.getContext("2d");
    c.font = labelFont();
    let widest = 0, most = 1, label = 0;
    for (const g of map.data.groups) for (const r of g.rows) {
      most = Math.max(most, r.i.length);
      widest = Math.max(widest, map.data.names[r.n].length);
    }
    map.across = Math.min(most, map.cell < 10 ? 8 : 16);
    if (map.cell >= 10) label = Math.min(150, Math.ceil(widest * 6.4) + 8);
    map.label = label;
    map.pad = map.cell < 10 ? 5 : 14;
    map.tile = label + map.across * step + map.pad;
    layout(step);
  };
  const labelFont = () => "11px system-ui, sans-serif";
  const layout = (step) => {
    const width = Math.max(120, viewport.clientWidth - 20);
    const columns = Math.max(1, Math.floor((width + map.pad) / map.tile));
    map.lines = [];
    map.cells = new Map();
    let y = 8;
    for (const group of map.data.groups) {
      if (map.data.groups.length > 1 || group.name) {
        map.lines.push({ y, height: 24, group });
        y += 24;
      }
      for (let at = 0; at < group.rows.length; at += columns) {
        const tiles = group.rows.slice(at, at + columns);
        const rows = Math.max(...tiles.map((r) => Math.ceil(r.i.length / map.across)));
        const height = Math.max(rows * step, map.label ? 15 : 0) + (map.cell < 10 ? 4 : 5);
        map.lines.push({ y, height, tiles });
        tiles.forEach((row, column) => row.i.forEach((index, k) => map.cells.set(index, {
          row, k, x: 10 + column * map.tile + map.label + (k % map.across) * step, y: y + Math.floor(k / map.across) * step })));
        y += height;
      }
      y += 8;
    }
    map.height = y;
    map.step = step;
    spacer.style.height = y + "px";
  };
  const draw = () => {
    map.frame = 0;
    map.whole = false;
    map.touched.clear();
    const scale = window.devicePixelRatio || 1, width = viewport.clientWidth, height = Math.min(map.printing ? paper : viewport.clientHeight, map.height), top = map.printing ? 0 : viewport.scrollTop;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    const c = canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = theme.panel;
    c.fillRect(0, 0, width, height);
    c.textBaseline = "middle";
    for (let i = firstLine(top); i < map.lines.length && map.lines[i].y < top + height; i++) drawLine(c, map.lines[i], top, scale);
    drawSelected(c, top);
    document.body.dataset.drawn = String(map.data.revision);
    if (!map.painted) { map.painted = true; performance.mark("map-painted"); }
  };
  const firstLine = (top) => {
    let low = 0, high = map.lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (map.lines[middle].y + map.lines[middle].height < top) low = middle + 1; else high = middle;
    }
    return low;
  };
  const drawLine = (c, line, top, scale) => {
    if (line.group) {
      c.font = "600 12px system-ui, sans-serif";
      c.fillStyle = theme.text;
      const name = line.group.name || "no " + map.data.group.replace(/^label:/, "");
      c.fillText(name, 10, line.y - top + 11);
      const at = 10 + c.measureText(name).width + 10;
      c.font = labelFont();
      c.fillStyle = theme.soft;
      c.fillText(number(line.group.rows.length) + " nodes, " + number(line.group.devices) + " devices", at, line.y - top + 11);
      return;
    }
    line.tiles.forEach((row, column) => {
      const x = 10 + column * map.tile;
      if (map.label) {
        c.font = labelFont();
        c.fillStyle = theme.soft;
        c.fillText(fitted(c, map.data.names[row.n] || "several nodes", map.label - 6), x, line.y - top + map.cell / 2 + 1);
      }
      for (let k = 0; k < row.i.length; k++) {
        c.drawImage(sprite(row.c[k], map.cell, scale), x + map.label + (k % map.across) * map.step, line.y - top + Math.floor(k / map.across) * map.step, map.cell, map.cell);
      }
    });
  };
  const fitted = (c, text, width) => {
    if (c.measureText(text).width <= width) return text;
    let from = 1; // the end of a node's name is what differs
    while (from < text.length && c.measureText("…" + text.slice(from)).width > width) from++;
    return "…" + text.slice(from);
  };
  const drawSelected = (c, top) => {
    const cell = map.cells.get(map.selected);
    if (!cell) return;
    c.strokeStyle = theme.text;
    c.lineWidth = 2;
    c.strokeRect(cell.x - 1.5, cell.y - top - 1.5, map.cell + 3, map.cell + 3);
  };
  // drawTouched draws the cells that have changed since the last frame, and leaves the others as they are.
  const drawTouched = () => {
    const scale = window.devicePixelRatio || 1, c = canvas.getContext("2d"), top = viewport.scrollTop;
    c.fillStyle = theme.panel;
    for (const index of map.touched) {
      const cell = map.cells.get(index);
      if (!cell || cell.y + map.cell < top || cell.y > top + viewport.clientHeight) continue;
      c.fillRect(cell.x, cell.y - top, map.cell, map.cell);
      c.drawImage(sprite(cell.row.c[cell.k], map.cell, scale), cell.x, cell.y - top, map.cell, map.cell);
    }
    map.frame = 0;
    map.touched.clear();
    document.body.dataset.drawn = String(map.data.revision);
  };
  const schedule = () => { if (!map.frame) map.frame = requestAnimationFrame(() => { if (map.whole || map.touched.has(map.selected)) draw(); else drawTouched(); }); };
  const redraw = () => { map.whole = true; schedule(); };
  const show = (data) => {
    map.data = data;
    $("map").hidden = data.selected === 0;
    $("map-selected").textContent = number(data.selected);
    if (data.selected === 0) { document.body.dataset.drawn = String(data.revision); return; }
    measure();
    redraw();
  };

  // Pointing and keys.
  const describe = (index) => {
    const cell = map.cells.get(index);
    if (!cell) return;
    const names = map.data.names, p = cell.row.p, k = cell.k;
    pointed.textContent = (names[cell.row.n] || "several nodes") + " · " + names[p[3 * k + 2]] + " · " + words(cell.row.c[k]) + " · " + names[p[3 * k]] + ", pool " + names[p[3 * k + 1]];
  };
  const select = (index) => {
    const cell = map.cells.get(index);
    if (!cell) return;
    map.selected = index;
    if (cell.y < viewport.scrollTop) viewport.scrollTop = cell.y - 8;
    if (cell.y + map.cell > viewport.scrollTop + viewport.clientHeight) viewport.scrollTop = cell.y + map.cell + 8 - viewport.clientHeight;
    describe(index);
    redraw();
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top + viewport.scrollTop;
    const line = map.lines[firstLine(y - 0.01)];
    if (!line || !line.tiles || y < line.y) return null;
    const column = Math.floor((x - 10) / map.tile), row = line.tiles[column];
    if (!row) return null;
    const across = Math.floor((x - 10 - column * map.tile - map.label) / map.step), down = Math.floor((y - line.y) / map.step), k = down * map.across + across;
    return across >= 0 && across < map.across && k < row.i.length ? row.i[k] : null;
  };
  const open = (index) => {
    const cell = map.cells.get(index);
    if (!cell) return;
    const p = cell.row.p, k = cell.k, names = map.data.names;
    if (live) {
      location.assign("/device?" + new URLSearchParams({ device: names[p[3 * k + 2]], driver: names[p[3 * k]], pool: names[p[3 * k + 1]] }));
    } else if (map.data.pages && map.data.pages[index]) {
      location.assign(map.data.pages[index]);
    }
  };
  const key = (event) => {
    const order = [...map.cells.keys()], here = Math.max(0, order.indexOf(map.selected)), cell = map.cells.get(map.selected);
    const vertical = (down) => {
      let best = null, least = Infinity;
      for (const [index, other] of map.cells) {
        const dy = (other.y - cell.y) * down;
        if (dy <= 0) continue;
        const far = dy * 1000 + Math.abs(other.x - cell.x);
        if (far < least) { least = far; best = index; }
      }
      return best;
    };
    let next = null;
    if (!cell && event.key.startsWith("Arrow")) next = order[0];
    else if (event.key === "ArrowRight") next = order[here + 1];
    else if (event.key === "ArrowLeft") next = order[here - 1];
    else if (event.key === "ArrowDown") next = vertical(1);
    else if (event.key === "ArrowUp") next = vertical(-1);
    else if (event.key === "Home") next = order[0];
    else if (event.key === "End") next = order[order.length - 1];
    else if (event.key === "Enter" && cell) { open(map.selected); return; } else return;
    event.preventDefault();
    if (next !== null && next !== undefined) select(next);
  };
  // On paper the map is whole and light, whatever the screen is. A longer one is cut: browsers draw no
  // larger picture, and the table has all devices.
  const paper = 8000;
  const print = (begins) => {
    map.printing = begins;
    document.documentElement.classList.toggle("printing", begins);
    readTheme();
    legend();
    if (!map.data) return;
    measure();
    draw();
  };
  const wire = () => {
    viewport.addEventListener("scroll", redraw, { passive: true });
    viewport.addEventListener("keydown", key);
    canvas.addEventListener("pointermove", (event) => {
      const index = at(event);
      canvas.style.cursor = index === null ? "default" : "pointer";
      if (index !== null && index !== map.selected) { map.selected = index; describe(index); redraw(); }
    });
    canvas.addEventListener("click", (event) => { const index = at(event); if (index !== null) open(index); });
    $("size").addEventListener("change", () => show(map.data));
    new ResizeObserver(() => { if (map.data && map.data.selected) { measure(); redraw(); } }).observe($("map"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); legend(); redraw(); });
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
  };

  // Changes.
  const status = (text, kind) => { $("status").className = "status " + kind; $("status-text").textContent = text; };
  const clock = () => new Date().toISOString().slice(11, 19) + "Z";
  // again is the reading of a whole map. laid is the revision of the newest layout, and the map fits once it has that. waiting
  // are the changes that come while a map is read, which may not have them.
  const again = { timer: 0, reading: false, laid: 0, fits: true, waiting: [] };
  const reread = (wait) => { if (!again.timer) again.timer = setTimeout(read, wait); };
  const read = async () => {
    again.reading = true;
    again.waiting = [];
    let data = null;
    try {
      const answer = await fetch("/map.json" + location.search);
      if (answer.ok) data = await answer.json();
    } catch { /* the stream reports a lost server */ }
    again.timer = 0;
    again.reading = false;
    if (!data) { reread(5000); return; }
    show(data);
    again.fits = data.revision >= again.laid;
    if (!again.fits) { reread(0); return; }
    for (const change of again.waiting) if (change.revision > data.revision) apply(change);
  };
  const cells = (event) => {
    const change = JSON.parse(event.data);
    for (const b of document.querySelectorAll("[data-count]")) b.textContent = number(count(change.totals, b.dataset.count));
    if (again.reading) again.waiting.push(change);
    if (again.fits) apply(change);
    status("live, changed " + clock(), "live");
  };
  const apply = (change) => {
    map.data.revision = change.revision;
    for (const [index, code] of change.cells) {
      const cell = map.cells.get(index);
      if (!cell) continue;
      cell.row.c = cell.row.c.slice(0, cell.k) + code + cell.row.c.slice(cell.k + 1);
      map.touched.add(index);
    }
    schedule();
    const changed = new Set([...change.cells.map(([index]) => index), ...change.others]);
    if (!changed.size) return;
    rows(changed);
    if (map.data.filtered || map.data.group === "namespace") reread(500);
  };
  const count = (totals, name) => {
    const fill = { free: totals.Free, held: totals.Held, unknown: totals.Unknown }[name];
    return fill === undefined ? totals.Marks[marks.indexOf(name)] : fill;
  };
  // rows brings the states of the table up to date. Only a reload does that for claims and taints.
  const rows = (changed) => {
    for (const tr of document.querySelectorAll("tr[data-index]")) {
      if (changed.has(Number(tr.dataset.index))) $("newer").hidden = false;
      const cell = map.cells.get(Number(tr.dataset.index)), state = tr.querySelector(".state");
      if (!cell || state.textContent === words(cell.row.c[cell.k])) continue;
      const s = decode(cell.row.c[cell.k]);
      state.textContent = words(cell.row.c[cell.k]);
      state.className = "state s-" + fills[s.fill] + " m-" + marks[s.mark];
    }
  };
  // relaid reads the map again after devices have come or gone. The table has other devices then.
  const relaid = (event) => {
    const { revision } = JSON.parse(event.data);
    if (revision === map.data.revision) return;
    again.laid = revision;
    again.fits = false;
    reread(0);
    for (const tr of document.querySelectorAll("tr[data-index]")) delete tr.dataset.index;
    $("newer").hidden = false;
    status("live, changed " + clock(), "live");
  };
  const follow = () => {
    const source = new EventSource("/events?revision=" + document.body.dataset.revision);
    source.addEventListener("open", () => status("live", "live"));
    source.addEventListener("error", () => status("disconnected since " + clock() + ", trying again", "lost"));
    source.addEventListener("stale", (event) => {
      const stale = JSON.parse(event.data);
      $("stale").hidden = !stale.reason;
      $("stale").textContent = stale.reason ? "Not current since " + stale.since + ": " + stale.reason : "";
    });
    // To reload a page that the user is leaving, as by a button whose answer takes a moment, would undo that. A user who
    // has stopped it stays.
    let left = -Infinity;
    const leaving = () => performance.now() - left < 30000;
    addEventListener("beforeunload", () => { left = performance.now(); $("newer").hidden = true; });
    const reloads = () => {
      const typed = [...document.querySelectorAll("form.change input:not([type=hidden]), form.change textarea")].some((e) => e.value !== e.defaultValue || e.checked !== e.defaultChecked);
      const quiet = !typed && (document.activeElement === document.body || document.activeElement === null);
      return quiet && document.body.dataset.template.startsWith("drain") && String(getSelection()) === "";
    };
    const renew = (now) => {
      if (leaving()) return;
      if (!reloads()) $("newer").hidden = false;
      else if (now) location.reload();
      else setTimeout(() => renew(true), 1000);
    };
    const changed = () => { if (!map.data && document.body.dataset.template !== "change") renew(false); };
    source.addEventListener("cells", (event) => { if (map.data) cells(event); else changed(); });
    source.addEventListener("layout", (event) => { if (map.data) relaid(event); else changed(); });
    addEventListener("pagehide", () => source.close());
  };

  // Commands.
  const copies = () => {
    for (const code of document.querySelectorAll("code.command")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy the command " + code.textContent);
      button.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; } catch { button.textContent = "Cannot copy"; }
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      code.after(button);
    }
  };

  readTheme();
  legend();
  copies();
  const data = $("map-data");
  if (data) {
    wire();
    $("map").hidden = false;
    show(JSON.parse(data.textContent));
  }
  if (live) follow();
})();
