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
    Object.entries(paths).map(([letter, cells]) => s('path', {class: CLASSES[letter] || letter, d: cells.join('')})));
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

// Of many models those with open findings come first, and most of the others are folded.
function calendar(models) {
  const open = m => data.findings.filter(f => f.model === m.name && f.state !== 'resolved').length;
  const many = models.length > 20, chosen = many ? models.map(m => [open(m), m]).sort((a, b) => b[0] - a[0]).map(([, m]) => m) : models;
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
    const letters = map ? days.map(d => map.get(d) || ' ').join('') : model.strip.slice(-92);
    rows.push(h('a', {href: link('model', model.name), title: model.name}, model.name), strip(letters, names, {label: model.name, pick: () => go(link('model', model.name))}));
  }
  // Two nodes a model, and those of the head.
  const most = many ? rows.length - 2 * (models.length - 15) : rows.length;
  return h('div', {class: 'card'}, h('div', {class: 'cal'}, rows.slice(0, most)),
    many ? h('details', {class: 'rest'}, h('summary', {}, `${models.length - 15} more models`), h('div', {class: 'cal'}, rows.slice(most))) : null, legend(rows.length > 1 && all.some(([, map]) => map && days.some(d => !map.has(d))) ? ' ' : ''));
}

const legend = (more = '') => h('p', {class: 'legend'}, [...'pwfens', ...more].map(l => h('span', {}, h('i', {class: CLASSES[l] || l}), WORDS[l])));
