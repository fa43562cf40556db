// --- lists with filters ---------------------------------------------------------------------

// The lists of the page, which are whole on paper; what people unfold stays as they left it.
const lists = new Set();
addEventListener('beforeprint', () => {
  lists.forEach(show => show(Infinity));
  document.querySelectorAll('.waiting details:not([open]), details.rest:not([open])').forEach(d => { d.open = true; d.setAttribute('data-folded', ''); });
});
addEventListener('afterprint', () => {
  lists.forEach(show => show());
  document.querySelectorAll('details[data-folded]').forEach(d => { d.open = false; d.removeAttribute('data-folded'); });
});

function filtered(items, facets, text, row, settings = {}) {
  const path = place.replace(/\?.*/, ''), asked = new URLSearchParams(place.slice(path.length));
  const list = h('div', {class: 'card'}), note = h('p', {class: 'small dim', 'aria-live': 'polite'}), only = h('p', {class: 'small dim only'});
  const query = h('input', {type: 'search', placeholder: settings.hint || 'Search', 'aria-label': 'Search'});
  query.value = asked.get('q') || '';
  const chosen = facets.map(([name, of, preset]) => {
    const values = [...new Set(items.flatMap(of))].filter(v => v).sort(), wanted = asked.has(name) ? asked.get(name) : preset;
    const select = h('select', {'aria-label': name}, h('option', {value: ''}, `Any ${name}`), values.map(v => h('option', {value: v, selected: v === wanted || undefined}, MARKS[v] || v)));
    return {name, select, of, values, preset: preset || ''};
  });
  let limit = kept.get(path) || 50;
  const more = h('button', {type: 'button', onclick: () => { limit += 200; kept.set(path, limit); show(); }}, 'Show more');
  function show(most = limit) {
    const words = query.value.toLowerCase().split(/\s+/).filter(w => w);
    const found = items.filter(i => chosen.every(({select, of}) => !select.value || of(i).includes(select.value)) && words.every(w => text(i).toLowerCase().includes(w)));
    const rows = found.slice(0, most).map(row);
    list.replaceChildren(...(settings.wrap ? [settings.wrap(rows)] : rows));
    if (!found.length) list.append(h('p', {class: 'empty'}, settings.none || 'Nothing matches.'));
    note.textContent = found.length > most ? `${most} of ${found.length} shown` : '';
    more.hidden = found.length <= most;
    only.textContent = [...chosen.filter(c => c.select.value).map(c => `${c.name} ${c.select.value}`), words.length && `search “${query.value.trim()}”`].filter(t => t).join(', ');
    if (only.textContent) only.prepend(`${found.length} of ${items.length}: `);
  }
  function change() {
    const wanted = chosen.filter(c => c.select.value !== c.preset).map(c => [c.name, c.select.value]);
    search([...(query.value.trim() ? [['q', query.value.trim()]] : []), ...wanted]);
    show();
  }
  for (const {select} of chosen) select.addEventListener('change', change);
  query.addEventListener('input', change);
  show();
  lists.add(show);
  const bar = items.length > 1 ? h('div', {class: 'filters', role: 'search'}, query, chosen.filter(c => c.values.length > 1).map(c => c.select)) : null;
  return [bar, only, list, note, more];
}

// --- findings -------------------------------------------------------------------------------

const isOpen = f => f.state !== 'resolved';
const extent = batches => !batches.length ? 'none' : batches.length === 1 ? batches[0] : `${batches[0]} – ${batches[batches.length - 1]}`;
const findingText = f => [f.model, f.label, f.message, f.owner, f.assigned, ...f.tags].join(' ');
// The finding of a check that is about a batch.
const findingOf = (check, batch) => data.findings.find(f => f.check === check && f.batches.includes(batch));

function follows(f) {
  if (!f.cause) return null;
  const root = findingOf(f.cause[0], f.batches[f.batches.length - 1]);
  return ['follows from ', root ? h('a', {href: link('finding', root.id)}, f.cause[1]) : f.cause[1]];
}

// `own`: on the page of its model, which need not be named again.
function findingRow(f, own) {
  return h('div', {class: 'finding'}, h('div', {}, badge(f.status)),
    h('div', {class: 'what'}, h('a', {href: link('finding', f.id)}, own ? f.label : `${f.model}: ${f.label}`), h('p', {class: 'message'}, f.message), f.cause ? h('p', {class: 'follows'}, follows(f)) : null),
    h('div', {class: 'seen'}, f.spark ? spark(f.spark) : null),
    h('div', {class: 'small'}, extent(f.batches), h('p', {}, plural(f.batches.length, 'batch', 'batches'))),
    h('div', {class: 'small dim'}, f.state === 'open' ? '' : f.state_text, f.assigned || f.owner && !own ? h('p', {}, f.assigned || f.owner) : null));
}

const STATES = ['open', 'acknowledged', 'muted', 'resolved'], UNRESOLVED = 'not resolved';
const order = f => [STATES.indexOf(f.state), RANK.indexOf({error: 'e', fail: 'f', warn: 'w', no_data: 'n'}[f.status])];
const ranked = list => [...list].sort((a, b) => {
  const [p, q] = [order(a), order(b)], [x, y] = [a, b].map(f => f.batches[f.batches.length - 1]);
  // What follows from another finding of the same batch comes after it, and what is known for long after what is new.
  return p[0] - q[0] || p[1] - q[1] || (x < y ? 1 : x > y ? -1 : 0) || !!a.cause - !!b.cause || a.batches.length - b.batches.length || (b.score || 0) - (a.score || 0);
});
const stateFacet = list => ['state', f => isOpen(f) ? [f.state, UNRESOLVED] : [f.state], list.some(isOpen) ? UNRESOLVED : ''];
const findingFacets = list => [['status', f => [f.status]], stateFacet(list), ['model', f => [f.model]], ['assigned to', f => [f.assigned]], ['owner', f => [f.owner]], ['tag', f => f.tags]];

// --- batches that wait for a review ---------------------------------------------------------

const reviews = (model, batches) => ['accept', 'reject'].map(word => command(`dqsql review ${word} ${quote(model)} ${batches.map(quote).join(' ')} --reason "..."`));

const CHECKS_OF_BATCH = 10;

function waitingRow(w, unfolded) {
  const newest = w.batches[w.batches.length - 1];
  const failed = w.failed.map(([check, text]) => {
    const f = findingOf(check, newest);
    return h('p', {}, f ? h('a', {href: link('finding', f.id)}, text) : text);
  }), most = failed.length > CHECKS_OF_BATCH + 1 ? CHECKS_OF_BATCH : failed.length;
  return h('div', {class: 'finding waiting'}, h('div', {}, badge('fail')),
    h('div', {class: 'what'}, h('a', {href: link('model', w.model)}, w.model), failed.slice(0, most),
    failed.length > most ? h('details', {}, h('summary', {}, plural(failed.length - most, 'more check')), failed.slice(most)) : null, h('details', {open: unfolded ? '' : null}, h('summary', {}, 'Accept or reject'), reviews(w.model, w.batches))),
    h('div', {class: 'small'}, extent(w.batches), h('p', {}, plural(w.batches.length, 'batch', 'batches'))));
}

function waitingList(list) {
  if (!list.length) return null;
  const newest = w => w.batches[w.batches.length - 1], sorted = [...list].sort((a, b) => newest(a) < newest(b) ? 1 : newest(a) > newest(b) ? -1 : 0);
  const rows = sorted.map(w => waitingRow(w, list.length <= 2)), most = rows.length > 4 ? 3 : rows.length;
  return [h('h2', {}, 'Batches waiting for review'),
    h('p', {class: 'small dim'}, 'A check of severity error failed on these batches. Monitors do not learn from them until somebody accepts them.'),
    h('div', {class: 'card'}, rows.slice(0, most), rows.length > most ? h('details', {class: 'rest'}, h('summary', {}, `${rows.length - most} more`), rows.slice(most)) : null)];
}
