'use strict';
(() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const WORDS = {p: 'pass', w: 'warn', f: 'fail', n: 'no data', e: 'could not be computed', s: 'skipped', '.': 'not checked'};
  const HEIGHTS = {p: .5, s: .3, '.': .12, n: .7, w: .8, f: 1, e: 1};
  const RANK = 'efwnps.';
  const BAD = 'efwn';
  const DATE = /^\d{4}-\d{2}-\d{2}/;
  const MARKS = {error: 'ERROR', fail: 'FAIL', warn: 'WARN', no_data: 'NO DATA', f: 'FAIL', w: 'WARN', n: 'NO DATA', e: 'ERROR', p: 'PASS', s: 'SKIP'};
  let data;
  const models = new Map();

  // Texts become text nodes only: nothing of the data is ever read as markup.
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
    return node;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const plural = (n, word, words) => `${n.toLocaleString('en')} ${n === 1 ? word : words || word + 's'}`;
  const badge = status => h('span', {class: `badge ${status}`}, MARKS[status] || status);
  const sum = list => list.reduce((a, b) => a + b, 0);
  const worst = letters => [...RANK].find(l => letters.includes(l)) || '.';

  function number(value) {
    if (value === null || value === undefined) return '–';
    const size = Math.abs(value);
    if (size >= 1e6 || (size && size < 1e-4)) return value.toLocaleString('en', {notation: size < 1e15 && size >= 1 ? 'compact' : 'scientific', maximumSignificantDigits: 4});
    return value.toLocaleString('en', {maximumSignificantDigits: size >= 1000 ? 7 : 4});
  }

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  }

  async function detail(name) {
    const index = data.models.findIndex(m => m.name === name);
    if (index < 0) return null;
    if (!models.has(name)) models.set(name, await unpack(`model-${index}`));
    return {summary: data.models[index], ...models.get(name)};
  }

  const link = (...parts) => '#/' + parts.map(encodeURIComponent).join('/');

  // --- strips and the calendar ----------------------------------------------------------------

  // Cells of one letter each: one path a colour, however many cells.
  function strip(letters, names, options = {}) {
    const count = Math.max(letters.length, options.least || 30), height = 16, offset = count - letters.length;
    const paths = {};
    [...letters].forEach((letter, i) => {
      const tall = HEIGHTS[letter] * height;
      (paths[letter] = paths[letter] || []).push(`M${(offset + i) * 10} ${(height - tall).toFixed(1)}h8v${tall.toFixed(1)}h-8z`);
    });
    const counts = [...RANK].map(l => [l, letters.split(l).length - 1]).filter(c => c[1] && c[0] !== '.');
    const label = (options.label ? options.label + ': ' : '') + counts.map(([l, n]) => `${n} ${WORDS[l]}`).join(', ');
    const at = event => Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left) / event.currentTarget.getBoundingClientRect().width * count) - offset;
    return s('svg', {class: 'strip', viewBox: `0 0 ${count * 10} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label,
      onmousemove: event => { const i = at(event); tip(event, letters[i] && `${names[i]}: ${WORDS[letters[i]]}`); },
      onmouseleave: () => tip(), onclick: event => { const i = at(event); if (options.pick && letters[i]) options.pick(names[i]); }},
      Object.entries(paths).map(([letter, cells]) => s('path', {class: letter === '.' ? 'dot' : letter, d: cells.join('')})));
  }

  function tip(event, text) {
    const node = document.getElementById('tip');
    node.hidden = !text;
    if (!text) return;
    node.textContent = text;
    node.style.left = Math.min(event.clientX + 12, innerWidth - node.offsetWidth - 8) + 'px';
    node.style.top = event.clientY + 16 + 'px';
  }

  // Of each day the worst letter; null where batches are no days.
  function byDay(model) {
    if (!model.batches.length || !model.batches.every(b => DATE.test(b))) return null;
    const days = new Map();
    model.batches.forEach((b, i) => days.set(b.slice(0, 10), worst([days.get(b.slice(0, 10)) || '.', model.strip[i]])));
    return days;
  }

  function lastDays(count) {
    const newest = data.models.flatMap(m => m.batches.filter(b => DATE.test(b)).slice(-1)).map(b => b.slice(0, 10)).sort().pop();
    if (!newest) return [];
    const end = Date.parse(newest + 'T00:00:00Z');
    return Array.from({length: count}, (_, i) => new Date(end - (count - 1 - i) * 864e5).toISOString().slice(0, 10));
  }

  function calendar(chosen) {
    const all = chosen.map(m => [m, byDay(m)]);
    const first = all.flatMap(([, d]) => d ? [[...d.keys()].sort()[0]] : []).sort()[0];
    let days = lastDays(92).filter(d => !first || d >= first);
    const rows = [];
    if (days.length) {
      const marks = days.map((d, i) => [d, i]).filter(([d, i]) => i === 0 || d.endsWith('-01')).filter(([, i], k, list) => k + 1 === list.length || list[k + 1][1] - i > 8);
      rows.push(h('span', {}), h('div', {class: 'small dim', style: 'position:relative;height:1.2rem', 'aria-hidden': 'true'}, marks.map(([d, i]) => [d, 100 * i / Math.max(days.length, 30) + Math.max(0, 30 - days.length) * 100 / 30]).map(([d, share]) =>
        h('span', {style: `position:absolute;white-space:nowrap;${share > 85 ? 'right:0' : `left:${share}%`}`}, new Date(d).toLocaleDateString('en', {month: 'short', day: 'numeric', timeZone: 'UTC'})))));
    }
    for (const [model, map] of all) {
      const names = map ? days : model.batches.slice(-92);
      const letters = map ? days.map(d => map.get(d) || '.').join('') : model.strip.slice(-92);
      rows.push(h('a', {href: link('model', model.name), title: model.name}, model.name), strip(letters, names, {label: model.name, pick: () => { location.hash = link('model', model.name); }}));
    }
    return h('div', {class: 'card'}, h('div', {class: 'cal'}, rows), legend());
  }

  const legend = () => h('p', {class: 'legend'}, [...'pwfens'].map(l => h('span', {}, h('i', {class: l}), WORDS[l])));

  // --- charts ---------------------------------------------------------------------------------

  const at = (bound, i, value) => Array.isArray(bound) ? bound[i] : value === null ? null : bound;

  // Where a value lies: one linear scale, or, where some values are far from all others, a scale of
  // their own for these, beyond a marked break. Nothing is moved to an edge.
  function scale(series, top, bottom) {
    const bad = i => series.bad[i] === '1';
    const values = series.values.map((v, i) => [v, i]).filter(([v]) => v !== null);
    const usual = values.filter(([, i]) => !bad(i)).map(([v]) => v);
    const bounds = values.flatMap(([v, i]) => [at(series.lower, i, v), at(series.upper, i, v)]).filter(b => b !== null && b !== undefined);
    // Where nothing was as it should be, no value is the odd one.
    const core = usual.length ? usual : [...bounds, ...values.map(([v]) => v)];
    let low = Math.min(...core), high = Math.max(...core);
    const reach = 2 * (high - low || Math.abs(high) || 1);
    // A bound that is far from everything would flatten the line: its band runs to the edge.
    for (const b of bounds) if (b > low - reach && b < high + reach) { low = Math.min(low, b); high = Math.max(high, b); }
    // An anomaly is judged by the bounds: those that it broke are always seen.
    for (const [v, i] of values) if (bad(i)) {
      const [l, u] = [at(series.lower, i, v), at(series.upper, i, v)];
      if (u !== null && u !== undefined && v > u) high = Math.max(high, u);
      if (l !== null && l !== undefined && v < l) low = Math.min(low, l);
    }
    const span = high - low || Math.abs(high) * .1 || 1;
    const above = [], below = [];
    for (const [v] of values) {
      if (v > high + 1.5 * span) above.push(v); else if (v < low - 1.5 * span) below.push(v);
    }
    for (const [v] of values) if (!above.includes(v) && !below.includes(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    const pad = (high - low || span) * .07;
    low -= pad; high += pad;
    const room = 34, upper = above.length ? top + room : top, lower = below.length ? bottom - room : bottom;
    const beyond = (list, from, to) => {
      const a = Math.min(...list), b = Math.max(...list);
      return v => a === b ? (from + to) / 2 : from + (v - a) / (b - a) * (to - from);
    };
    const up = above.length ? beyond(above, upper - 14, top + 4) : null, down = below.length ? beyond(below, bottom - 4, lower + 14) : null;
    const inside = v => lower - (v - low) / (high - low) * (lower - upper);
    const y = v => up && v > high ? up(v) : down && v < low ? down(v) : inside(v);
    return {y, low, high, upper, lower, above, below, clip: v => Math.min(Math.max(inside(v), upper), lower)};
  }

  function steps(low, high) {
    // The largest round step that marks the axis three times: one mark is no scale.
    const size = 10 ** Math.floor(Math.log10(high - low)), marks = x => Math.floor(high / x) - Math.ceil(low / x) + 1;
    const step = [5, 2.5, 2, 1, .5, .25, .2, .1].map(f => f * size).find(x => marks(x) >= 3) || size / 10;
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9 && found.length < 8; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return found;
  }

  function chart(series, batches, width) {
    const height = 168, top = 6, bottom = height - 20, left = 58, right = width - 10;
    const count = batches.length;
    const x = i => count === 1 ? (left + right) / 2 : left + i * (right - left) / (count - 1);
    const f = scale(series, top, bottom);
    const parts = [];
    for (const v of steps(f.low, f.high)) parts.push(s('line', {class: 'grid', x1: left, x2: right, y1: f.y(v), y2: f.y(v)}), s('text', {class: 'axis', x: left - 6, y: f.y(v) + 4, 'text-anchor': 'end'}, number(v)));
    const zigzag = y => s('path', {class: 'break', 'data-break': 'y', d: `M${left - 8} ${y + 2}l4 -4l4 4l4 -4M${left} ${y}` + Array.from({length: Math.floor((right - left) / 6)}, (_, i) => `l3 ${i % 2 ? 3 : -3}l3 ${i % 2 ? -3 : 3}`).join('')}, s('title', {}, 'The axis is broken here'));
    const labelled = list => [...new Set([Math.max(...list), Math.min(...list)])];
    for (const [list, edge] of [[f.above, f.upper - 7], [f.below, f.lower + 7]]) if (list.length) {
      parts.push(zigzag(edge));
      const [one, two] = labelled(list);
      parts.push(s('text', {class: 'axis', x: left - 6, y: f.y(one) + 4, 'text-anchor': 'end'}, number(one)));
      if (two !== undefined && Math.abs(f.y(two) - f.y(one)) > 11) parts.push(s('text', {class: 'axis', x: left - 6, y: f.y(two) + 4, 'text-anchor': 'end'}, number(two)));
    }
    let run = [];
    const flush = () => {
      if (!run.length) return;
      // In steps, for bounds are those of one batch; an edge where there is a bound, not where the picture ends.
      const half = count === 1 ? 20 : (right - left) / (count - 1) / 2;
      const points = run.flatMap(([i, l, u]) => [-half, 0, half].map(d => [Math.min(Math.max(x(i) + d, left), right), l, u]));
      const pair = (p, k) => `${p[0].toFixed(1)},${p[k].toFixed(1)}`, of = (k, list) => list.map(p => pair(p, k)).join('L');
      parts.push(s('path', {class: 'band', d: `M${of(2, points)}L${of(1, [...points].reverse())}Z`}));
      for (const k of [1, 2]) {
        const inside = p => p && p[k] > f.upper && p[k] < f.lower;
        const edge = points.map((p, j) => inside(p) ? `${inside(points[j - 1]) ? 'L' : 'M'}${pair(p, k)}` : '').join('');
        if (edge) parts.push(s('path', {class: 'edge', d: edge}));
      }
      run = [];
    };
    series.values.forEach((v, i) => {
      const l = at(series.lower, i, v), u = at(series.upper, i, v);
      const none = b => b === null || b === undefined;
      if (none(l) && none(u)) flush(); else run.push([i, none(l) ? f.lower : f.clip(l), none(u) ? f.upper : f.clip(u)]);
    });
    flush();
    let line = '', alone = [];
    series.values.forEach((v, i) => {
      if (v === null) return;
      const before = i > 0 && series.values[i - 1] !== null, after = i + 1 < count && series.values[i + 1] !== null && series.values[i + 1] !== undefined;
      line += `${before ? 'L' : 'M'}${x(i).toFixed(1)} ${f.y(v).toFixed(1)}`;
      if (!before && !after) alone.push(i);
    });
    parts.push(s('path', {class: 'trace', d: line}));
    for (const i of alone) parts.push(s('circle', {class: 'single', cx: x(i), cy: f.y(series.values[i]), r: 2.5}));
    series.values.forEach((v, i) => {
      if (v !== null && series.bad[i] === '1') parts.push(s('circle', {class: 'odd', cx: x(i).toFixed(1), cy: f.y(v).toFixed(1), r: 4, 'data-batch': batches[i], 'data-value': v}, s('title', {}, `${batches[i]}: ${number(v)}`)));
    });
    parts.push(s('text', {class: 'axis', x: left, y: height - 4}, batches[0]), s('text', {class: 'axis', x: right, y: height - 4, 'text-anchor': 'end'}, count > 1 ? batches[count - 1] : ''));
    const cursor = s('line', {class: 'cursor', y1: top, y2: bottom, visibility: 'hidden'});
    parts.push(cursor);
    return {svg: s('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': described(series, batches)}, parts), cursor, x};
  }

  function expected(series, i) {
    const v = series.values[i], l = at(series.lower, i, v), u = at(series.upper, i, v);
    const has = b => b !== null && b !== undefined;
    if (has(l) && has(u)) return l === u ? number(l) : `${number(l)} to ${number(u)}`;
    return has(l) ? `at least ${number(l)}` : has(u) ? `at most ${number(u)}` : '';
  }

  function described(series, batches) {
    const odd = batches.filter((_, i) => series.bad[i] === '1');
    const last = series.values.length - 1 - [...series.values].reverse().findIndex(v => v !== null);
    const allowed = expected(series, last);
    return `${series.title} of ${plural(batches.length, 'batch', 'batches')}; newest ${number(series.values[last])}${allowed ? `, allowed ${allowed}` : ''}; ${odd.length ? `outside in ${odd.slice(-10).join(', ')}` : 'never outside'}`;
  }

  // Charts are drawn when they are scrolled to, or printed.
  const waiting = new Map();
  const seen = 'IntersectionObserver' in window ? new IntersectionObserver(entries => entries.forEach(e => e.isIntersecting && drawNow(e.target)), {rootMargin: '300px'}) : null;
  function drawNow(node) {
    const draw = waiting.get(node);
    waiting.delete(node);
    if (seen) seen.unobserve(node);
    if (draw) draw();
  }
  addEventListener('beforeprint', () => [...waiting.keys()].forEach(drawNow));

  function figure(series, batches) {
    const readout = h('span', {});
    const last = series.values.length - 1 - [...series.values].reverse().findIndex(v => v !== null);
    const tell = i => {
      const allowed = expected(series, i);
      readout.textContent = `${i === last ? 'newest' : batches[i] + ':'} ${number(series.values[i])}${allowed ? ` · allowed ${allowed}` : ''}`;
    };
    tell(last);
    const node = h('figure', {class: 'card'}, h('figcaption', {}, h('b', {}, series.title), readout));
    waiting.set(node, () => {
      const width = Math.max(260, Math.round(node.clientWidth - 36) || 600), made = chart(series, batches, width);
      made.svg.addEventListener('mousemove', event => {
        const box = made.svg.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * width;
        const i = batches.reduce((best, _, k) => Math.abs(made.x(k) - place) < Math.abs(made.x(best) - place) ? k : best, 0);
        tell(i);
        made.cursor.setAttribute('x1', made.x(i)); made.cursor.setAttribute('x2', made.x(i)); made.cursor.setAttribute('visibility', 'visible');
      });
      made.svg.addEventListener('mouseleave', () => { tell(last); made.cursor.setAttribute('visibility', 'hidden'); });
      node.append(made.svg);
    });
    if (seen) seen.observe(node); else setTimeout(() => drawNow(node));
    return node;
  }

  // --- lists with filters ---------------------------------------------------------------------

  function filtered(items, facets, text, row, settings = {}) {
    const list = h('div', {class: 'card'}), note = h('p', {class: 'small dim', 'aria-live': 'polite'});
    const search = h('input', {type: 'search', placeholder: settings.hint || 'Search', 'aria-label': 'Search'});
    const chosen = facets.map(([name, of, preset]) => {
      const values = [...new Set(items.flatMap(of))].filter(v => v).sort();
      const select = h('select', {'aria-label': name}, h('option', {value: ''}, `Any ${name}`), values.map(v => h('option', {value: v, selected: v === preset || undefined}, MARKS[v] || v)));
      return {select, of, values};
    });
    let limit = 50;
    const more = h('button', {type: 'button', onclick: () => { limit += 200; show(); }}, 'Show more');
    function show() {
      const words = search.value.toLowerCase().split(/\s+/).filter(w => w);
      const found = items.filter(i => chosen.every(({select, of}) => !select.value || of(i).includes(select.value)) && words.every(w => text(i).toLowerCase().includes(w)));
      list.replaceChildren(...(settings.wrap ? [settings.wrap(found.slice(0, limit).map(row))] : found.slice(0, limit).map(row)));
      if (!found.length) list.append(h('p', {class: 'empty'}, settings.none || 'Nothing matches.'));
      note.textContent = found.length > limit ? `${limit} of ${found.length} shown` : '';
      more.hidden = found.length <= limit;
    }
    for (const {select} of chosen) select.addEventListener('change', show);
    search.addEventListener('input', show);
    show();
    const bar = items.length > 1 ? h('div', {class: 'filters', role: 'search'}, search, chosen.filter(c => c.values.length > 1).map(c => c.select)) : null;
    return [bar, list, note, more];
  }

  const findingText = f => [f.model, f.label, f.message, f.owner, f.assigned, ...f.tags].join(' ');
  function findingRow(f) {
    const n = f.batches.length;
    return h('div', {class: 'finding'}, h('div', {}, badge(f.status)),
      h('div', {class: 'what'}, h('a', {href: link('finding', f.id)}, `${f.model}: ${f.label}`), h('p', {}, f.message)),
      h('div', {class: 'small'}, n === 1 ? f.batches[0] : `${f.batches[0]} – ${f.batches[n - 1]}`, h('p', {}, plural(n, 'batch', 'batches'))),
      h('div', {class: 'small dim'}, f.state === 'open' ? '' : f.state, f.assigned || f.owner ? h('p', {}, f.assigned || f.owner) : null));
  }
  const isOpen = f => f.state !== 'resolved';
  const order = f => [isOpen(f) ? 0 : 1, RANK.indexOf({error: 'e', fail: 'f', warn: 'w', no_data: 'n'}[f.status])];
  const ranked = list => [...list].sort((a, b) => {
    const [p, q] = [order(a), order(b)];
    return p[0] - q[0] || p[1] - q[1] || (a.batches[a.batches.length - 1] < b.batches[b.batches.length - 1] ? 1 : a.batches[a.batches.length - 1] > b.batches[b.batches.length - 1] ? -1 : 0) || b.batches.length - a.batches.length || (b.score || 0) - (a.score || 0);
  });
  const findingFacets = preset => [['status', f => [f.status]], ['state', f => [f.state], preset], ['model', f => [f.model]], ['assigned to', f => [f.assigned]], ['owner', f => [f.owner]], ['tag', f => f.tags]];

  // --- pages ----------------------------------------------------------------------------------

  function tiles() {
    const days = lastDays(14), now = days.slice(7), then = days.slice(0, 7);
    const within = (period, take) => sum(data.models.map(m => sum(m.batches.map((b, i) => period.includes(b.slice(0, 10)) ? take(m, i) : 0))));
    const rate = period => { const all = within(period, (m, i) => m.passed[i][1]); return all ? within(period, (m, i) => m.passed[i][0]) / all : null; };
    const failed = period => within(period, (m, i) => 'ef'.includes(m.strip[i]) ? 1 : 0);
    const open = data.findings.filter(isOpen), sick = new Set(open.map(f => f.model)), broken = open.filter(f => f.status === 'error').length, hard = open.filter(f => f.status === 'fail').length;
    const tile = (what, value, note, tone) => h('div', {class: 'card tile'}, h('div', {class: 'what'}, what), h('div', {class: 'value'}, value), h('div', {class: `then ${tone || ''}`}, note || '\u00a0'));
    const made = [tile('Open findings', String(open.length), open.length ? `${broken ? `${broken} could not be computed, ` : ''}${plural(hard, 'failure')}, ${plural(open.length - hard - broken, 'warning')}` : 'nothing to look at', hard + broken ? 'down' : open.length ? '' : 'up'),
      tile('Models without findings', `${data.models.length - sick.size} of ${data.models.length}`, `${plural(sum(data.models.map(m => m.checks)), 'check')}`)];
    const [a, b] = [rate(now), rate(then)];
    if (a !== null) {
      const points = b === null ? 0 : (a - b) * 100, same = Math.abs(points) < .005;
      made.push(tile('Verdicts that passed, newest 7 days', `${(Math.floor(a * 1e4) / 100).toFixed(2)}%`, b === null ? '' : same ? 'as in the 7 days before' : `${points > 0 ? '+' : '−'}${Math.abs(points).toFixed(2)} points against the 7 before`, same || b === null ? '' : points > 0 ? 'up' : 'down'));
      const [c, d] = [failed(now), failed(then)];
      made.push(tile('Batches with failures, newest 7 days', String(c), `${d} in the 7 days before`, c > d ? 'down' : c < d ? 'up' : ''));
    }
    const covered = sum(data.models.map(m => m.covered)), columns = sum(data.models.map(m => m.columns));
    if (columns) made.push(tile('Columns with a check', `${Math.round(100 * covered / columns)}%`, `${covered} of ${columns}`));
    return h('section', {class: 'tiles', 'aria-label': 'In short'}, made);
  }

  function overview() {
    if (!data.models.length) return [h('h1', {}, data.project), h('p', {class: 'empty'}, 'No batch of these models has been checked yet: the report is empty until ', h('code', {}, 'dqsql run'), '.'), profiles()];
    const open = data.findings.filter(isOpen), days = data.models.flatMap(m => m.batches.filter(b => DATE.test(b)).map(b => b.slice(0, 10))).sort();
    return [h('h1', {}, 'Overview'), h('p', {class: 'dim'}, `Covers ${data.period}${days.length > 1 ? `: ${days[0]} to ${days[days.length - 1]}` : ''}.`), tiles(),
      h('h2', {}, 'Health by model and day'), calendar(data.models),
      h('h2', {}, 'Findings'), filtered(ranked(data.findings), findingFacets(open.length ? 'open' : ''), findingText, findingRow, {hint: 'Search findings', none: data.findings.length ? 'No finding matches.' : 'Nothing was found.'}), profiles()];
  }

  const profiles = () => data.profiles.length ? [h('h2', {}, 'Profiles of other relations'), data.profiles.map(p => profile(p))] : null;

  function profile(p) {
    const bars = shares => { const high = Math.max(...shares); return shares.length && high > 0 ? s('svg', {width: shares.length * 8, height: 20, role: 'img', 'aria-label': 'histogram'}, shares.map((v, i) => { const t = v > 0 ? Math.max(1, v / high * 20) : 0; return s('rect', {class: 'hist', x: i * 8, y: 20 - t, width: 7, height: t}); })) : ''; };
    return h('details', {class: 'card', open: ''}, h('summary', {}, `${p.relation}: ${p.size}${p.made ? `; as of ${p.made} UTC` : ''}`), h('div', {class: 'wide'}, h('table', {class: 'small'},
      h('thead', {}, h('tr', {}, ['column', 'type'].map(t => h('th', {}, t)), ['filled', 'distinct', 'min', 'mean', 'max'].map(t => h('th', {class: 'n'}, t)), h('th', {}, ''), h('th', {}, 'most frequent'))),
      h('tbody', {}, p.columns.map(c => h('tr', {}, h('td', {}, c[0]), h('td', {class: 'dim'}, c[1]), c.slice(2, 7).map(v => h('td', {class: 'n'}, v)), h('td', {}, bars(c[8])), h('td', {}, c[7])))))));
  }

  const about = m => h('p', {class: 'dim'}, [m.description, m.owner && `owner ${m.owner}`, m.path].filter(t => t).join(' · '), ' ', m.tags.map(t => h('span', {class: 'tag'}, t)));

  async function modelPage(name) {
    const m = await detail(name);
    if (!m) return missing('model', name);
    const mine = ranked(data.findings.filter(f => f.model === name)), open = mine.filter(isOpen);
    const groups = new Map([['', []]]);
    for (const [column] of m.columns) groups.set(column, []);
    for (const c of m.checks) (groups.get(c.column) || groups.set(c.column, []).get(c.column)).push(c);
    const kinds = new Map(m.columns.map(c => [c[0], c[1]]));
    const bare = m.columns.filter(([column, , count]) => !count && !groups.get(column).length).map(([column]) => column);
    const learned = m.checks.filter(c => c.detector !== 'constraint' && c.series.length), loud = m.checks.filter(c => c.detector === 'constraint' && c.series.length && [...c.strip].some(l => BAD.includes(l)));
    const charts = [...learned, ...loud].flatMap(c => c.series);
    return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / model'), h('h1', {}, name), about(m.summary),
      h('div', {class: 'card'}, h('div', {class: 'small dim'}, `${plural(m.batches.length, 'batch', 'batches')}${m.summary.batchBy ? ` by ${m.summary.batchBy}` : ''}: ${m.batches[0]} to ${m.batches[m.batches.length - 1]}`), strip(m.summary.strip, m.batches, {label: 'All checks'}), legend()),
      h('h2', {}, open.length ? `Open findings (${open.length})` : 'Findings'),
      mine.length ? filtered(mine, [['status', f => [f.status]], ['state', f => [f.state]]], findingText, findingRow, {hint: 'Search findings of this model'}) : h('p', {class: 'empty'}, 'Nothing was found.'),
      h('h2', {}, 'Checks by column'),
      h('div', {class: 'card'}, [...groups].filter(([, list]) => list.length).map(([column, list]) => h('section', {class: 'column'}, h('h3', {}, column || 'The whole model', h('span', {class: 'kind'}, kinds.get(column) || '')), list.map(c => checkRow(c, m)))),
        bare.length ? h('p', {class: 'small dim'}, `Without a check: ${bare.join(', ')}`) : null),
      charts.length ? [h('h2', {}, 'Metrics and what was allowed'), h('div', {class: 'charts'}, charts.map(c => figure(c, m.batches)))] : null,
      m.profile ? [h('h2', {}, 'Profile'), profile(m.profile)] : null,
      m.sql ? h('details', {}, h('summary', {}, 'SQL of the model'), h('pre', {}, m.sql)) : null];
  }

  function checkRow(c, m) {
    const now = c.strip.replace(/\.+$/, '').slice(-1) || '.', f = data.findings.filter(x => x.check === c.id).pop();
    const first = c.series[0], last = first ? first.values[first.values.length - 1] : null, told = first && (first.lower !== null || first.upper !== null);
    return h('div', {class: 'check'}, h('div', {}, now === '.' ? '' : badge(now)),
      h('div', {class: 'name'}, h('a', {href: link('check', m.summary.name, c.id), title: c.description || null}, c.label), c.detector === 'constraint' ? null : h('span', {class: 'small dim'}, ' monitor')),
      strip(c.strip, m.batches, {label: c.label, pick: () => { location.hash = f ? link('finding', f.id) : link('check', m.summary.name, c.id); }}),
      h('div', {class: 'n small dim', title: told ? `${first.title}, newest batch` : null}, told && last !== null ? `now ${number(last)}` : ''));
  }

  const facts = pairs => h('dl', {class: 'facts'}, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));
  const severity = x => x.severity === 'error' ? 'error: the run exits with 1 when the check is not met' : 'warn: the run exits with 0 all the same';
  const quote = t => /^[\w@.,:\/=+-]+$/.test(t) ? t : `'${t.replace(/'/g, `'\\''`)}'`;
  function command(text) {
    const copy = h('button', {type: 'button', onclick: () => navigator.clipboard && navigator.clipboard.writeText(text).then(() => { copy.textContent = 'Copied'; })}, 'Copy');
    return h('div', {class: 'command'}, h('pre', {}, text), copy);
  }

  async function findingPage(id) {
    const f = data.findings.find(x => x.id === id);
    if (!f) return missing('finding', id);
    const m = await detail(f.model), c = m.checks.find(x => x.id === f.check), newest = f.batches[f.batches.length - 1];
    const found = c.messages.filter(x => f.batches.includes(x[0])), why = [...new Set(found.map(x => x[4]).filter(t => t))], basis = found.map(x => x[5]).find(t => t);
    const i = m.batches.indexOf(newest), odd = c.series.filter(x => x.bad[i] === '1'), several = c.series.length > 1;
    const told = what => i < 0 ? '' : (odd.length ? odd : c.series.slice(0, 1)).map(x => what(x, i) && `${several ? `${x.title}: ` : ''}${what(x, i)}`).filter(t => t).join('; ');
    const review = m.reviews[newest];
    return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / ', h('a', {href: link('model', f.model)}, f.model), ' / finding'),
      h('h1', {}, badge(f.status), ' ', f.label), h('p', {}, f.message),
      h('div', {class: 'card'}, facts([['Where', `${f.model}${f.column ? `, column ${f.column}` : ''}`], [c.detector === 'constraint' ? 'Expected' : 'Monitor', c.expression + (c.where ? ` where ${c.where}` : '')],
        ['Allowed', told(expected)], ['Seen', told((x, k) => `${number(x.values[k])} on ${newest}`)],
        ['Since', `${f.batches[0]}${f.batches.length > 1 ? `; ${plural(f.batches.length, 'batch', 'batches')}, the newest ${newest}` : ''}`], ['Noticed', `${f.opened} UTC`], ['State', isOpen(f) ? f.state : `resolved by ${f.author}${f.resolved ? `, ${f.resolved}` : ''}`], ['Reason', f.reason], ['Assigned to', f.assigned], ['Read by', f.impact],
        ['Why', why.length ? `Follows from ${why.join(', ')}` : basis ? basis : ''], ['Review', review], ['Status', f.status === 'error' && 'could not be computed: the run exits with 2'], ['Severity', severity(f)], ['Owner', f.owner], ['Written at', c.place && h('code', {}, c.place)], ['Tags', f.tags.join(', ')]])),
      c.series.length ? h('div', {class: 'charts', style: 'margin-top:1rem'}, c.series.map(x => figure(x, m.batches))) : h('div', {class: 'card', style: 'margin-top:1rem'}, strip(c.strip, m.batches, {label: c.label})),
      h('h2', {}, 'What to do'), h('p', {class: 'small dim'}, 'See the verdict, what it rests on, and compute it again:'), command(`dqsql explain ${quote(`${f.check}@${newest}`)}`),
      f.status === 'error' ? [h('p', {class: 'small dim'}, 'Mend the check; the next run takes its batches up again:'), command(`dqsql run --select ${quote(f.model)}`)] : [h('p', {class: 'small dim'}, 'The batches are fine after all, or are not:'), command(`dqsql review accept ${quote(f.model)} ${f.batches.map(quote).join(' ')} --reason "..."`), command(`dqsql review reject ${quote(f.model)} ${f.batches.map(quote).join(' ')} --reason "..."`)],
      found.length > 1 ? [h('h2', {}, 'Batch by batch'), h('div', {class: 'card'}, messages(found))] : null,
      m.failures[f.check] ? [h('h2', {}, 'Failing rows'), h('div', {class: 'card wide'}, rows(m.failures[f.check]))] : h('p', {class: 'small dim'}, 'No failing rows were kept (', h('code', {}, 'dqsql run --store-failures'), ' keeps some of checks about rows).'),
      c.learned ? [h('h2', {}, 'What has been learned by now'), h('div', {class: 'card'}, h('p', {class: 'small dim'}, c.learned.basis), c.learned.bounds.map(b => h('div', {}, h('code', {}, b))))] : null,
      m.sql ? [h('h2', {}, 'SQL of the model'), h('pre', {}, m.sql)] : null];
  }

  const messages = list => h('table', {class: 'stack'}, h('tbody', {}, list.map(([batch, segment, letter, text]) => h('tr', {}, h('td', {class: 'nowrap'}, badge(letter)), h('td', {class: 'nowrap'}, batch + (segment ? ` [${segment}]` : '')), h('td', {}, text)))));

  function rows(list) {
    const parsed = list.map(([, text]) => { try { return JSON.parse(text); } catch { return {row: text}; } });
    const names = [...new Set(parsed.flatMap(r => Object.keys(r)))];
    const shown = v => v === null || v === undefined ? 'null' : typeof v === 'object' ? JSON.stringify(v) : String(v);
    return h('table', {class: 'small'}, h('thead', {}, h('tr', {}, names.map(n => h('th', {}, n)))), h('tbody', {}, parsed.map(r => h('tr', {}, names.map(n => h('td', {}, shown(r[n])))))));
  }

  async function checkPage(model, id) {
    const m = await detail(model), c = m && m.checks.find(x => x.id === id);
    if (!c) return missing('check', id);
    const mine = ranked(data.findings.filter(f => f.check === id));
    return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / ', h('a', {href: link('model', model)}, model), ' / check'), h('h1', {}, c.label), c.description ? h('p', {}, c.description) : null,
      h('div', {class: 'card'}, facts([['Expression', h('code', {}, c.expression)], ['Where', c.where], ['Severity', severity(c)], ['Kind', c.detector], ['Written at', c.place && h('code', {}, c.place)], ['Tags', c.tags.join(', ')], ['Id', h('code', {}, c.id)]]), strip(c.strip, m.batches, {label: c.label})),
      c.series.length ? h('div', {class: 'charts', style: 'margin-top:1rem'}, c.series.map(x => figure(x, m.batches))) : null,
      mine.length ? [h('h2', {}, 'Findings'), h('div', {class: 'card'}, mine.map(findingRow))] : null,
      c.learned ? [h('h2', {}, 'What has been learned by now'), h('div', {class: 'card'}, h('p', {class: 'small dim'}, c.learned.basis), c.learned.bounds.map(b => h('div', {}, h('code', {}, b))))] : null];
  }

  async function checksPage() {
    const every = [];
    for (const summary of data.models) {
      const m = await detail(summary.name);
      for (const c of m.checks) {
        const known = c.strip.replace(/[.s]/g, ''), good = known.split('p').length - 1;
        let flips = 0;
        for (let i = 1; i < known.length; i++) if ((known[i] === 'p') !== (known[i - 1] === 'p')) flips++;
        every.push({...c, model: summary.name, owner: summary.owner, runs: known.length, rate: known.length ? good / known.length : null, flips, now: known.slice(-1), tags: [...new Set([...c.tags, ...summary.tags])], names: m.batches});
      }
    }
    every.sort((a, b) => a.rank - b.rank || b.flips - a.flips || (a.model < b.model ? -1 : 1));
    const percent = v => v === null ? '–' : `${(Math.floor(v * 1000) / 10).toFixed(1)}%`;
    const head = list => h('thead', {}, h('tr', {}, list.map(([t, n]) => h('th', {class: n ? 'n' : null}, t))));
    const bytes = v => v === null || v === undefined ? '–' : v >= 2 ** 30 ? `${(v / 2 ** 30).toFixed(1)} GiB` : v >= 2 ** 20 ? `${(v / 2 ** 20).toFixed(1)} MiB` : `${(v / 1024).toFixed(0)} KiB`;
    const row = c => h('tr', {}, h('td', {}, c.now ? badge(c.now) : ''), h('td', {}, h('a', {href: link('check', c.model, c.id)}, c.label), h('div', {class: 'small dim'}, c.model)), h('td', {class: 'small dim'}, c.detector), h('td', {class: 'n', 'data-head': 'verdicts'}, String(c.runs)), h('td', {class: 'n', 'data-head': 'passed'}, percent(c.rate)), h('td', {class: 'n', 'data-head': 'changes'}, String(c.flips)));
    return [h('h1', {}, 'Checks'), h('p', {class: 'dim'}, 'A check that often changes between pass and fail is flaky: its bound may be too tight, or its data may vary too much. The kind ', h('i', {}, 'constraint'), ' is a condition that somebody wrote; the other kinds are monitors.'),
      filtered(every, [['status', c => [c.now]], ['model', c => [c.model]], ['owner', c => [c.owner]], ['tag', c => c.tags], ['kind', c => [c.detector]]], c => [c.model, c.label, c.expression, c.owner].join(' '), row,
        {hint: 'Search checks', wrap: found => h('table', {class: 'stack'}, head([['now'], ['check'], ['kind'], ['verdicts', 1], ['passed', 1], ['changes', 1]]), h('tbody', {}, found))}),
      h('h2', {}, 'Coverage and cost by model'), h('div', {class: 'card'}, h('table', {class: 'stack'}, head([['model'], ['owner'], ['columns with a check', 1], ['checks', 1], ['newest run', 1], ['scans', 1], ['rows', 1], ['read', 1]]),
        h('tbody', {}, data.models.map(m => h('tr', {}, h('td', {}, h('a', {href: link('model', m.name)}, m.name)), h('td', {class: 'dim'}, m.owner), h('td', {class: 'n', 'data-head': 'columns with a check'}, m.columns ? `${m.covered} of ${m.columns}` : '–'), h('td', {class: 'n', 'data-head': 'checks'}, String(m.checks)),
          h('td', {class: 'n', 'data-head': 'newest run', title: m.cost ? m.cost.phases.map(([p, t]) => `${p} ${t.toFixed(1)} s`).join(', ') : null}, m.cost ? `${m.cost.seconds.toFixed(1)} s` : '–'), h('td', {class: 'n', 'data-head': 'scans'}, m.cost ? number(m.cost.scans) : '–'), h('td', {class: 'n', 'data-head': 'rows'}, m.cost ? number(m.cost.rows) : '–'), h('td', {class: 'n', 'data-head': 'read'}, m.cost ? bytes(m.cost.bytes) : '–'))))))];
  }

  const missing = (what, name) => [h('h1', {}, 'Not in this report'), h('p', {class: 'empty'}, `There is no ${what} ${name} in it. `, h('a', {href: '#/'}, 'Overview'))];

  async function show() {
    const [page, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
    if (location.hash === '#main') return;
    waiting.clear();
    tip();
    const makers = {model: modelPage, finding: findingPage, check: checkPage, checks: checksPage};
    const content = await (makers[page] || overview)(...rest);
    document.querySelectorAll('header nav a').forEach(a => { if ((page === 'checks') === (a.hash === '#/checks')) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current'); });
    const main = document.getElementById('main');
    main.replaceChildren();
    fill(main, {}, [content]);
    main.setAttribute('data-page', page || 'overview');
    scrollTo(0, 0);
    if (shown) main.focus({preventScroll: true});
    shown = true;
  }
  let shown = false;

  addEventListener('hashchange', show);
  unpack('overview').then(found => {
    data = found;
    fill(document.getElementById('top'), {}, [h('div', {class: 'bar'}, h('b', {}, data.project), h('nav', {'aria-label': 'Pages'}, h('a', {href: '#/'}, 'Overview'), h('a', {href: '#/checks'}, 'Checks')), h('span', {class: 'made small'}, `target ${data.target} · ${data.made.slice(0, 16).replace('T', ' ')} UTC · dqsql ${data.version}`))]);
    return show();
  });
})();
