"use strict";
// Draws the plots of a page: `plots.data` in plots.py says what is in #plots, #plots-time and #plots-numbers.
(async () => {
  const text = id => document.getElementById(id).textContent;
  const spec = JSON.parse(text("plots"));
  const t = await unpacked(text("plots-time"), Float64Array);
  const numbers = await unpacked(text("plots-numbers"), Float32Array);
  const begin = t[0], end = t[t.length - 1], NEAR_S = 0.25, SHORTEST_S = 1e-3;
  const shown = new Set(spec.shown), charts = [], maps = [];
  let from = begin, to = end, marked = null;

  async function unpacked(base64, Numbers) {
    const bytes = Uint8Array.from(atob(base64.trim()), letter => letter.charCodeAt(0));
    const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(inflated).arrayBuffer());
    const size = Numbers.BYTES_PER_ELEMENT, count = planes.length / size, merged = new Uint8Array(planes.length);
    for (let p = 0; p < size; p++) for (let i = 0; i < count; i++) merged[size * i + p] = planes[p * count + i];
    return new Numbers(merged.buffer);
  }

  function column(k) {
    const values = numbers.subarray(k * t.length, (k + 1) * t.length);
    return values.some(Number.isNaN) ? Array.from(values, v => Number.isNaN(v) ? null : v) : values;
  }

  const isShown = curve => curve.of.every(name => shown.has(name));
  const digits = v => v == null ? "–" : Number(v.toPrecision(4)).toString();
  const few = (u, i) => u.data[0].length < 2 || (u.scales.x.max - u.scales.x.min) / (t[1] - t[0]) < u.bbox.width / 8;
  const held = uPlot.paths.stepped({align: 1}), joined = uPlot.paths.linear();

  function series(curve) {
    const bar = curve.look === "bar";
    return {
      label: curve.name, stroke: curve.color, width: bar ? 7 : curve.look === "dashed" ? 1 : 1.3, show: isShown(curve),
      dash: curve.look === "dashed" ? [5, 3] : undefined, fill: curve.look === "area" ? curve.color + "30" : undefined,
      // single rows are seen: what a row says holds until the next one
      paths: (u, i, first, last) => (few(u) ? held : joined)(u, i, first, last), cap: "butt",
      points: {show: false}, value: (u, v) => bar ? "" : digits(v),
    };
  }

  // Windows: all charts show the same one, whoever changes it.
  function show(a, b) {
    const length = Math.min(Math.max(b - a, SHORTEST_S), end - begin);
    from = Math.min(Math.max(a, begin), end - length);
    to = from + length;
    for (const {chart} of charts) chart.setScale("x", {min: from, max: to});
    const at = s => overview.valToPos(s, "x");
    overview.setSelect({left: at(from), width: Math.max(at(to) - at(from), 2), top: 0, height: overview.over.clientHeight}, false);
    maps.forEach(draw => draw());
    document.querySelector(".window output").textContent = `${from.toFixed(3)} s to ${to.toFixed(3)} s`;
  }
  function jump(s) {
    marked = s;
    show(s - NEAR_S, s + NEAR_S);
    charts.forEach(({chart}) => chart.redraw(false));
  }
  function mark(u) {
    if (marked === null || marked < from || marked > to) return;
    const x = Math.round(u.valToPos(marked, "x", true));
    u.ctx.save();
    u.ctx.strokeStyle = "#b3261e";
    u.ctx.setLineDash([4, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  }

  const grid = {stroke: "#eceff1", width: 1}, font = "11px system-ui, sans-serif";
  function panel(place, {label, curves, log, ticks}) {
    const words = ticks.length > 0;
    const options = {
      width: place.clientWidth, height: words ? 60 + 22 * ticks.length : 190,
      padding: [8, 22, 0, 0],
      scales: {
        x: {time: false},
        y: words ? {range: [-0.5, ticks.length - 0.5]} : log
          ? {distr: 3, range: (u, low, high) => high > 0 ? [Math.max(low, high * 1e-5), high * 1.3] : [0.1, 1]} : {},
      },
      axes: [
        {font, grid, ticks: grid, values: (u, at, axis, space, step) => at.map(v => v.toFixed(step < 0.01 ? 3 : step < 1 ? 2 : 0) + " s")},
        {font, grid, ticks: grid, label, labelFont: font, labelSize: 18, size: 70,
          ...(words ? {splits: () => ticks.map((_, i) => i), values: () => ticks} : {}),
          // uPlot's own has three digits after the point: 0 where the axis is at 1e-4
          ...(log ? {values: (u, at) => at.map(v => v == null ? "" : digits(v))} : {})},
      ],
      series: [{label: "t", value: (u, v) => v == null ? "–" : v.toFixed(3) + " s"}, ...curves.map(series)],
      legend: {live: true}, cursor: {sync: {key: "page", filters: {pub: what => what === "mousemove" || what === "mouseleave"}}, drag: {x: true, y: false}, points: {size: 5}, bind: {dblclick: () => () => show(begin, end)}},
      hooks: {
        setScale: [(u, key) => {
          const {min, max} = u.scales[key];
          if (key === "x" && (min !== from || max !== to)) show(min, max);
        }],
        setCursor: [u => maps.forEach(draw => draw(u.cursor.idx))], draw: [mark],
      },
    };
    const chart = new uPlot(options, [t, ...curves.map(c => column(c.column))], place);
    chart.root.querySelector(".u-legend").classList.add("u-inline");
    charts.push({chart, curves, place});
  }

  // The way from above: all of it, the chosen window, and where the cursor is.
  function map(svg, tracks, marks) {
    const ways = tracks.map(({x, y}) => [column(x), column(y)]);
    const [x, y] = ways[ways.length - 1];
    const places = [...marks, ...ways.flatMap(([x, y]) => Array.from(x, (v, i) => [v, y[i]]).filter(p => p[0] !== null && p[1] !== null))];
    if (!places.length) return;
    const span = k => places.reduce(([a, b], p) => [Math.min(a, p[k]), Math.max(b, p[k])], [Infinity, -Infinity]);
    const [left, right] = span(0), [low, high] = span(1);
    const size = Math.max(right - left, 1.5 * (high - low), 0.05), edge = 0.06 * size, unit = size / 700;
    svg.setAttribute("viewBox", [left - edge, -high - edge, right - left + 2 * edge, high - low + 2 * edge].join(" "));
    const line = (xs, ys, first, last) => {
      const step = Math.max(1, Math.floor((last - first) / 3000)), points = [];
      for (let i = first; i <= last; i += step) if (xs[i] !== null && ys[i] !== null) points.push(`${xs[i].toFixed(4)},${(-ys[i]).toFixed(4)}`);
      return points.join(" ");
    };
    const add = (name, attributes, words) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const key in attributes) node.setAttribute(key, attributes[key]);
      if (words) node.textContent = words;
      return svg.appendChild(node);
    };
    for (const [xs, ys] of ways) add("polyline", {points: line(xs, ys, 0, t.length - 1), fill: "none", stroke: "#b4bac0", "stroke-width": 1.2 * unit});
    const now = add("polyline", {fill: "none", stroke: "#0072b2", "stroke-width": 2 * unit});
    marks.forEach(([a, b], i) => {
      add("circle", {cx: a, cy: -b, r: 4 * unit, fill: "#d55e00"});
      add("text", {x: a + 7 * unit, y: -b - 7 * unit, "font-size": 13 * unit, fill: "#d55e00"}, i + 1);
    });
    const scale = 10 ** Math.floor(Math.log10(size / 3)), corner = high + edge * 0.4;
    add("path", {d: `M${left} ${-low + edge * 0.7}h${scale}`, stroke: "#444", "stroke-width": 1.5 * unit});
    add("text", {x: left + scale + 5 * unit, y: -low + edge * 0.7 + 4 * unit, "font-size": 12 * unit, fill: "#444"}, `${digits(scale)} m`);
    const dot = add("circle", {r: 5 * unit, fill: "#202124", visibility: "hidden"});
    maps.push(row => {
      if (row !== undefined) {
        const seen = row !== null && x[row] !== null;
        dot.setAttribute("visibility", seen ? "visible" : "hidden");
        if (seen) { dot.setAttribute("cx", x[row]); dot.setAttribute("cy", -y[row]); }
        return;
      }
      const after = t.findIndex(s => s >= from), last = t.findLastIndex(s => s <= to);
      now.setAttribute("points", line(x, y, Math.max(after, 0), last));
    });
  }

  // choices would hide the plots behind them on a small screen; one tap opens them
  if (matchMedia("(max-width: 760px)").matches) document.querySelectorAll(".choice").forEach(one => { one.open = false; });
  const strip = document.querySelector(".overview");
  const overview = new uPlot({
    width: strip.clientWidth, height: 58, padding: [4, 14, 0, 14], legend: {show: false},
    scales: {x: {time: false}, y: {range: (u, low, high) => [0, high || 1]}},
    axes: [{font, grid: {show: false}, ticks: {show: false}, size: 20, gap: 4, values: (u, at) => at.map(v => v + " s")},
      {show: false, size: 0}],
    cursor: {y: false, points: {show: false}, drag: {x: true, y: false, setScale: false}},
    series: [{}, series(spec.overview)],
    hooks: {setSelect: [u => u.select.width > 1
      ? show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"))
      : show(u.posToVal(u.select.left, "x") - (to - from) / 2, u.posToVal(u.select.left, "x") + (to - from) / 2)]},
  }, [t, column(spec.overview.column)], strip);

  spec.sections.forEach((section, i) => {
    const place = document.getElementById(`plots-${i}`);
    if (section.track.length) map(place.querySelector("svg"), section.track, section.marks);
    section.panels.forEach((one, k) => panel(place.querySelectorAll(".panel")[k], one));
  });
  show(...(spec.window ?? [begin, end]));

  const act = {
    all: () => show(begin, end), in: () => show(from + (to - from) / 4, to - (to - from) / 4),
    out: () => show(from - (to - from) / 2, to + (to - from) / 2),
    back: () => show(from - (to - from) / 2, to - (to - from) / 2), on: () => show(from + (to - from) / 2, to + (to - from) / 2),
  };
  const choose = (names, on) => {
    names.forEach(name => on ? shown.add(name) : shown.delete(name));
    document.querySelectorAll("input[data-of]").forEach(box => box.checked = shown.has(box.dataset.of));
    for (const {chart, curves} of charts) chart.batch(() => curves.forEach((c, i) => {
      if (chart.series[i + 1].show !== isShown(c)) chart.setSeries(i + 1, {show: isShown(c)});
    }));
  };
  document.addEventListener("click", ({target}) => {
    const {act: name, jump: s, all} = target.dataset ?? {};
    if (name) act[name]();
    if (s) jump(Number(s));
    if (all) choose(Array.from(target.parentElement.querySelectorAll("input"), box => box.dataset.of), all === "yes");
  });
  document.addEventListener("change", ({target}) => {
    if (target.dataset.of) choose([target.dataset.of], target.checked);
    if (target.matches(".window select") && target.value) { jump(Number(target.value)); target.value = ""; }
  });
  choose([], true);
  new ResizeObserver(() => {
    overview.setSize({width: strip.clientWidth, height: 58});
    for (const {chart, place} of charts) chart.setSize({width: place.clientWidth, height: chart.height});
    queueMicrotask(() => show(from, to)); // after uPlot, which scales the chosen window with the strip
  }).observe(strip);
})();
