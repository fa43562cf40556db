// --- charts ---------------------------------------------------------------------------------

// Shares of rows are told in percent, all else as numbers.
const ofRows = x => /^(compliance|completeness)\(/.test(x.metric);
// With as many digits as tell it from none and from all.
function share(v) {
  const off = 100 * Math.min(Math.abs(v), Math.abs(1 - v));
  return percent(v, off ? Math.min(12, Math.max(2, 1 + Math.ceil(-Math.log10(off)))) : 0).replace(/(\.\d*?)0+%$/, '$1%').replace('.%', '%');
}
const told = (series, v) => ofRows(series) && has(v) ? share(v) : number(v);

const at = (bound, i, value) => Array.isArray(bound) ? bound[i] : value === null ? null : bound;

// How batches that monitors do not learn from are marked, by the letter of their status.
const TINTS = {f: ['flagged', 'waits for a review'], r: ['rejected', 'rejected by a review']};

// How many times the span of the usual values lies between these and what gets a scale of its own.
const FAR = 5;

// Where a value lies: one linear scale, or, where some values are far from all others, a scale of
// their own for these, beyond a marked break. Nothing is moved to an edge.
function scale(series, top, bottom) {
  const bad = i => series.bad[i] === '1';
  const values = series.values.map((v, i) => [v, i]).filter(([v]) => v !== null);
  const usual = values.filter(([, i]) => !bad(i)).map(([v]) => v);
  const bounds = values.flatMap(([v, i]) => [at(series.lower, i, v), at(series.upper, i, v)]).filter(has);
  // Where nothing was as it should be, no value is the odd one.
  const core = usual.length ? usual : [...bounds, ...values.map(([v]) => v)];
  let low = Math.min(...core), high = Math.max(...core);
  const reach = 2 * (high - low || Math.abs(high) || 1);
  // A bound that is far from everything would flatten the line: its band runs to the edge.
  for (const b of bounds) if (b > low - reach && b < high + reach) { low = Math.min(low, b); high = Math.max(high, b); }
  // An anomaly is judged by the bounds: those that it broke are always seen.
  for (const [v, i] of values) if (bad(i)) {
    const [l, u] = [at(series.lower, i, v), at(series.upper, i, v)];
    if (has(u) && v > u) high = Math.max(high, u);
    if (has(l) && v < l) low = Math.min(low, l);
  }
  const span = high - low || Math.abs(high) * .1 || 1;
  const above = [], below = [];
  // Shares are never so far apart that they need it.
  if (values.some(([v]) => v < 0 || v > 1)) for (const [v] of values) {
    if (v > high + FAR * span) above.push(v); else if (v < low - FAR * span) below.push(v);
  }
  for (const [v] of values) if (!above.includes(v) && !below.includes(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  const pad = (high - low || span) * .07;
  low -= pad; high += pad;
  const room = 34, upper = above.length ? top + room : top, lower = below.length ? bottom - room : bottom;
  const far = (list, from, to) => {
    const a = Math.min(...list), b = Math.max(...list);
    return v => a === b ? (from + to) / 2 : from + (v - a) / (b - a) * (to - from);
  };
  const up = above.length ? far(above, upper - 14, top + 4) : null, down = below.length ? far(below, bottom - 4, lower + 14) : null;
  const inside = v => lower - (v - low) / (high - low) * (lower - upper);
  const y = v => up && v > high ? up(v) : down && v < low ? down(v) : inside(v);
  return {y, low, high, upper, lower, above, below, clip: v => Math.min(Math.max(inside(v), upper), lower)};
}

function steps(low, high) {
  // The largest round step that marks the axis three times: one mark is no scale.
  const size = 10 ** Math.floor(Math.log10(high - low)), marks = x => Math.floor(high / x) - Math.ceil(low / x) + 1;
  const step = [5, 2.5, 2, 1, .5, .25, .2, .1].map(f => f * size).find(x => marks(x) >= 3) || size / 10;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9 && found.length < 8; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Where the dot of an anomaly is: at its value, but with all of the dot (`size` is its radius) beyond the bound
// that was broken, so that what is barely outside does not look as if it were inside.
function beyond(series, i, y, size) {
  const v = series.values[i], l = at(series.lower, i, v), u = at(series.upper, i, v);
  if (has(u) && v >= u) return Math.min(y(v), y(u) - size);
  return has(l) && v <= l ? Math.max(y(v), y(l) + size) : y(v);
}

function chart(series, batches, width, ledger) {
  const height = 168, top = 6, bottom = height - 20, left = 58, right = width - 10;
  const count = batches.length;
  const x = i => count === 1 ? (left + right) / 2 : left + i * (right - left) / (count - 1);
  const f = scale(series, top, bottom);
  const parts = [];
  const half = count === 1 ? 20 : (right - left) / (count - 1) / 2;
  // Batches that monitors do not learn from, in all charts of the model.
  [...ledger].forEach((letter, i) => {
    if (!TINTS[letter]) return;
    const reach = Math.max(half, 1.5), from = Math.max(x(i) - reach, left), to = Math.min(x(i) + reach, right);
    parts.push(s('rect', {class: TINTS[letter][0], x: from.toFixed(1), y: top, width: (to - from).toFixed(1), height: bottom - top, 'data-batch': batches[i]}, s('title', {}, `${batches[i]}: ${TINTS[letter][1]}`)));
  });
  for (const v of steps(f.low, f.high)) if (!ofRows(series) || v <= 1 && v >= 0) parts.push(s('line', {class: 'grid', x1: left, x2: right, y1: f.y(v), y2: f.y(v)}), s('text', {class: 'axis', x: left - 6, y: f.y(v) + 4, 'text-anchor': 'end'}, told(series, v)));
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
    if (!has(l) && !has(u)) flush(); else run.push([i, has(l) ? f.clip(l) : f.lower, has(u) ? f.clip(u) : f.upper]);
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
    if (series.bad[i] !== '1') return;
    const none = v === null;
    parts.push(s('circle', {class: none ? 'odd none' : 'odd', cx: x(i).toFixed(1), cy: (none ? bottom - 5 : beyond(series, i, f.y, 4.5)).toFixed(1), r: 4, 'data-batch': batches[i], 'data-value': v}, s('title', {}, `${batches[i]}: ${none ? NO_VALUE : told(series, v)}`)));
  });
  parts.push(s('text', {class: 'axis', x: left, y: height - 4}, batches[0]), s('text', {class: 'axis', x: right, y: height - 4, 'text-anchor': 'end'}, count > 1 ? batches[count - 1] : ''));
  const cursor = s('line', {class: 'cursor', y1: top, y2: bottom, visibility: 'hidden'});
  parts.push(cursor);
  return {svg: s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0, 'aria-label': described(series, batches)}, parts), cursor, x};
}

function expected(series, i) {
  const [l, u] = [at(series.lower, i, 0), at(series.upper, i, 0)], say = v => told(series, v);
  if (has(l) && has(u)) return l === u ? say(l) : `${say(l)} to ${say(u)}`;
  const strict = series.strict ? ['above', 'below'] : ['at least', 'at most'];
  return has(l) ? `${strict[0]} ${say(l)}` : has(u) ? `${strict[1]} ${say(u)}` : '';
}

const NO_VALUE = 'no value';

// The batch that is told first: the newest one with a value, or the newest of all if something is wrong with it.
function newestOf(series) {
  const end = series.values.length - 1;
  return series.bad[end] === '1' ? end : Math.max(0, end - [...series.values].reverse().findIndex(v => v !== null));
}

function reading(series, batches, i) {
  const allowed = expected(series, i), when = i === batches.length - 1 ? 'newest' : batches[i] + ':';
  return `${when} ${series.values[i] === null ? NO_VALUE : told(series, series.values[i])}${allowed ? ` · allowed ${allowed}` : ''}`;
}

function described(series, batches) {
  const odd = batches.filter((_, i) => series.bad[i] === '1');
  return `${series.title} of ${plural(batches.length, 'batch', 'batches')}; ${reading(series, batches, newestOf(series))}; ${odd.length ? `outside in ${odd.slice(-10).join(', ')}` : 'never outside'}`;
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
// What is folded has no size to be drawn in.
addEventListener('beforeprint', () => [...waiting.keys()].filter(n => n.clientWidth).forEach(drawNow));

function figure(series, m) {
  const batches = m.batches;
  const readout = h('span', {'aria-live': 'polite'});
  const last = newestOf(series), tell = i => { readout.textContent = reading(series, batches, i); };
  tell(last);
  const node = h('figure', {class: 'card'}, h('figcaption', {}, h('b', {}, series.title), readout));
  waiting.set(node, () => {
    const width = Math.max(260, Math.round(node.clientWidth - 36) || 600), made = chart(series, batches, width, m.summary.ledger);
    let chosen = last;
    const point = i => {
      chosen = i;
      tell(i);
      made.cursor.setAttribute('x1', made.x(i)); made.cursor.setAttribute('x2', made.x(i)); made.cursor.setAttribute('visibility', 'visible');
    };
    const leave = () => { chosen = last; tell(last); made.cursor.setAttribute('visibility', 'hidden'); };
    made.svg.addEventListener('mousemove', event => {
      const box = made.svg.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * width;
      point(batches.reduce((best, _, k) => Math.abs(made.x(k) - place) < Math.abs(made.x(best) - place) ? k : best, 0));
    });
    made.svg.addEventListener('mouseleave', leave);
    made.svg.addEventListener('blur', leave);
    made.svg.addEventListener('keydown', event => {
      const to = {ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: batches.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      point(Math.min(Math.max(to, 0), batches.length - 1));
    });
    node.append(made.svg);
  });
  if (seen) seen.observe(node); else setTimeout(() => drawNow(node));
  return node;
}

// The charts of some series: first those that matter (`hot`), the newest break first; the others are folded.
function charts(list, m, hot = x => x.bad.includes('1'), most = Infinity) {
  if (!list.length) return null;
  const broken = list.filter(hot).sort((a, b) => b.bad.lastIndexOf('1') - a.bad.lastIndexOf('1'));
  const lead = list.length <= 4 ? [...broken, ...list.filter(x => !hot(x))] : broken.length ? broken.slice(0, most) : list.slice(0, 4);
  const others = list.filter(x => !lead.includes(x));
  return [chartLegend(list, m), h('div', {class: 'charts'}, lead.map(x => figure(x, m))),
    others.length ? h('details', {class: 'others'}, h('summary', {}, `Other metrics (${others.length})`), h('div', {class: 'charts'}, others.map(x => figure(x, m)))) : null];
}

function chartLegend(list, m) {
  const bound = list.some(x => x.values.some((v, i) => v !== null && (has(at(x.lower, i, v)) || has(at(x.upper, i, v)))));
  const marks = [bound && ['band', 'allowed for that batch'], bound && ['white', 'no bound for that batch'], list.some(x => x.bad.includes('1')) && ['odd', 'not as expected'],
    ...Object.entries(TINTS).filter(([l]) => m.summary.ledger.includes(l)).map(([, tint]) => tint)];
  return marks.some(t => t) ? h('p', {class: 'legend'}, marks.filter(t => t).map(([c, words]) => h('span', {}, h('i', {class: c}), words))) : null;
}

// What a finding saw, as a picture of the size of a word.
function spark(series) {
  const width = 132, height = 30, count = series.values.length, x = i => count === 1 ? width / 2 : 3 + i * (width - 6) / (count - 1);
  const known = series.values.filter(v => v !== null), last = count - 1;
  const bounds = series.values.flatMap((v, i) => [at(series.lower, i, v), at(series.upper, i, v)]).filter(has);
  let low = Math.min(...known), high = Math.max(...known);
  const reach = high - low || Math.abs(high) || 1;
  for (const b of bounds) if (b > low - reach && b < high + reach) { low = Math.min(low, b); high = Math.max(high, b); }
  const y = v => high === low ? height / 2 : height - 4 - (Math.min(Math.max(v, low), high) - low) / (high - low) * (height - 8);
  const step = count === 1 ? width : (width - 6) / (count - 1);
  const band = series.values.map((v, i) => {
    const l = at(series.lower, i, v), u = at(series.upper, i, v);
    if (!has(l) && !has(u)) return '';
    const from = has(u) ? y(u) : 0, to = has(l) ? y(l) : height;
    return `M${Math.max(x(i) - step / 2, 0).toFixed(1)} ${from.toFixed(1)}H${Math.min(x(i) + step / 2, width).toFixed(1)}V${Math.max(to, from + 1).toFixed(1)}H${Math.max(x(i) - step / 2, 0).toFixed(1)}Z`;
  }).join('');
  const line = series.values.map((v, i) => v === null ? '' : `${i && series.values[i - 1] !== null ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  const dots = series.values.map((v, i) => v !== null && series.bad[i] === '1' ? s('circle', {class: 'dot', cx: x(i).toFixed(1), cy: beyond(series, i, y, 3).toFixed(1), r: 3}) : null);
  return s('svg', {class: 'spark', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${series.title}: ${number(series.values[last])} in the newest of ${plural(count, 'batch', 'batches')}`}, s('title', {}, series.title), s('path', {class: 'reach', d: band}), s('path', {class: 'trace', d: line}), dots);
}
