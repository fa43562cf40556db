// --- pages ----------------------------------------------------------------------------------

function tiles() {
  // Days of which the report knows nothing are none to compare with.
  const days = lastDays(14), oldest = data.models.flatMap(m => m.batches.filter(b => DATE.test(b)).map(b => b.slice(0, 10))).sort()[0], covered = days.filter(d => d >= oldest);
  const now = covered.slice(-7), then = covered.length === 14 ? days.slice(0, 7) : [], newest = `newest ${plural(now.length, 'day')}`;
  const within = (period, take) => sum(data.models.map(m => sum(m.batches.map((b, i) => period.includes(b.slice(0, 10)) ? take(m, i) : 0))));
  const rate = period => { const all = within(period, (m, i) => m.passed[i][1]); return all ? within(period, (m, i) => m.passed[i][0]) / all : null; };
  const failed = period => within(period, (m, i) => 'ef'.includes(m.strip[i]) ? 1 : 0);
  const open = data.findings.filter(isOpen), sick = new Set([...open.map(f => f.model), ...data.models.filter(m => m.error).map(m => m.name)]), count = status => open.filter(f => f.status === status).length;
  const [broken, hard, mild, empty] = ['error', 'fail', 'warn', 'no_data'].map(count);
  const waiting = sum(data.waiting.map(w => w.batches.length)), owners = new Set(data.waiting.map(w => w.model)).size;
  const tile = (what, value, note, tone) => h('div', {class: `card tile ${tone || ''}`}, h('div', {class: 'value'}, value), h('div', {class: 'what'}, what), h('div', {class: 'then'}, note || '\u00a0'));
  const told = [broken && `${broken} could not be computed`, plural(hard, 'failure'), plural(mild, 'warning'), empty && `${empty} without data`].filter(t => t).join(', ');
  const made = [tile('Open findings', grouped(open.length), open.length ? told : waiting ? 'but batches wait for a review' : 'nothing to look at', hard + broken ? 'down' : open.length ? 'mild' : waiting ? '' : 'up'),
    tile('Batches waiting for review', grouped(waiting), waiting ? `of ${plural(owners, 'model')}` : 'none', waiting ? 'down' : ''),
    tile('Models without findings', `${grouped(data.models.length - sick.size)} of ${grouped(data.models.length)}`, `${plural(sum(data.models.map(m => m.checks)), 'check')}`)];
  const [a, b] = [rate(now), rate(then)];
  if (a !== null) {
    const points = b === null ? 0 : (a - b) * 100, same = Math.abs(points) < .005;
    made.push(tile(`Verdicts that passed, ${newest}`, percent(a, 2), b === null ? '' : same ? 'as in the 7 days before' : `${points > 0 ? '+' : '−'}${Math.abs(points).toFixed(2)} points against the 7 before`, same || b === null ? '' : points > 0 ? 'up' : 'down'));
    const [c, d] = [failed(now), failed(then)];
    made.push(tile(`Batches with failures, ${newest}`, String(c), then.length ? `${d} in the 7 days before` : '', !then.length ? '' : c > d ? 'down' : c < d ? 'up' : ''));
  }
  const checked = sum(data.models.map(m => m.covered)), columns = sum(data.models.map(m => m.columns));
  if (columns) made.push(tile('Columns with a check', `${Math.round(100 * checked / columns)}%`, `${grouped(checked)} of ${grouped(columns)}`));
  return h('section', {class: 'tiles', 'aria-label': 'In short'}, made);
}

const nothing = () => h('p', {class: 'empty'}, 'No batch of these models has been checked yet: the report is empty until ', h('code', {}, 'dqsql run'), '.');

function overview() {
  if (!data.models.length) return [h('h1', {}, data.project), nothing(), profiles()];
  const open = data.findings.filter(isOpen), days = data.models.flatMap(m => m.batches.filter(b => DATE.test(b)).map(b => b.slice(0, 10))).sort();
  return [h('h1', {}, 'Overview'), h('p', {class: 'dim'}, `Covers ${data.period}${days.length > 1 ? `: ${days[0]} to ${days[days.length - 1]}` : ''}.`), tiles(), troubles(data.models, true),
    h('h2', {}, 'Health by model and day'), calendar(data.models), waitingList(data.waiting),
    h('h2', {}, open.length ? `Findings (${grouped(open.length)} open)` : data.findings.length ? 'Findings (all resolved)' : 'Findings'), filtered(ranked(data.findings), findingFacets(data.findings), findingText, f => findingRow(f), {hint: 'Search findings', none: data.findings.length ? 'No finding matches.' : 'Nothing was found.'}), profiles()];
}

const profiles = () => data.profiles.length ? [h('h2', {}, 'Profiles of other relations'), data.profiles.map(p => profile(p))] : null;

function profile(p) {
  const bars = shares => { const high = Math.max(...shares); return shares.length && high > 0 ? s('svg', {width: shares.length * 8, height: 20, role: 'img', 'aria-label': 'histogram'}, shares.map((v, i) => { const t = v > 0 ? Math.max(1, v / high * 20) : 0; return s('rect', {class: 'hist', x: i * 8, y: 20 - t, width: 7, height: t}); })) : ''; };
  return h('details', {class: 'card', open: ''}, h('summary', {}, `${p.relation}: ${p.size}${p.made ? `; as of ${p.made} UTC` : ''}`), h('div', {class: 'wide'}, h('table', {class: 'small'},
    h('thead', {}, h('tr', {}, ['column', 'type'].map(t => h('th', {}, t)), ['filled', 'distinct', 'min', 'mean', 'max'].map(t => h('th', {class: 'n'}, t)), h('th', {}, ''), h('th', {}, 'most frequent'))),
    h('tbody', {}, p.columns.map(c => h('tr', {}, h('td', {}, c[0]), h('td', {class: 'dim'}, c[1]), c.slice(2, 7).map(v => h('td', {class: 'n'}, v)), h('td', {}, bars(c[8])), h('td', {}, c[7])))))));
}

const about = m => h('p', {class: 'dim'}, [m.description, m.owner && `owner ${m.owner}`, m.path].filter(t => t).join(' · '), ' ', m.tags.map(t => h('span', {class: 'tag'}, t)));

// Models that the newest run could not check, or not all of them: what else is shown is older.
const troubles = (models, named) => models.filter(m => m.error).map(m => h('div', {class: 'card trouble'}, badge('e'), ' ', named ? [h('a', {href: link('model', m.name)}, m.name), ' '] : null,
  `${m.error.whole ? 'could not be checked' : 'could not be checked in full'} since ${m.error.since} UTC:`, h('div', {class: 'small'}, m.error.text)));

async function modelPage(name) {
  const m = await detail(name);
  if (!m) return missing('model', name);
  const mine = ranked(data.findings.filter(f => f.model === name)), open = mine.filter(isOpen), live = m.checks.filter(c => !c.gone);
  const groups = new Map([['', []]]);
  for (const [column] of m.columns) groups.set(column, []);
  for (const c of live) (groups.get(c.column) || groups.set(c.column, []).get(c.column)).push(c);
  const kinds = new Map(m.columns.map(c => [c[0], c[1]]));
  const bare = m.columns.filter(([column, , count]) => !count && !groups.get(column).length).map(([column]) => column);
  const learned = live.filter(c => c.detector !== 'constraint'), loud = live.filter(c => c.detector === 'constraint' && [...c.strip].some(l => BAD.includes(l)));
  const drawn = charts([...learned, ...loud].flatMap(c => c.series), m, undefined, 8);
  const marks = new Map();
  for (const f of open) { const c = m.checks.find(x => x.id === f.check); if (c && c.line) marks.set(c.line, worst([marks.get(c.line) || '.', {error: 'e', fail: 'f', warn: 'w', no_data: 'n'}[f.status]])); }
  return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / model'), h('h1', {}, name), about(m.summary), troubles([m.summary]),
    !m.batches.length ? h('p', {class: 'empty'}, 'No batch of it has been checked yet.') : h('div', {class: 'card'}, h('div', {class: 'small dim'}, `${plural(m.batches.length, 'batch', 'batches')}${m.summary.batchBy ? ` by ${m.summary.batchBy}` : ''}: ${extent(m.batches)}`), strip(m.summary.strip, m.batches, {label: 'All checks'}), legend(live.some(c => c.strip.includes('.')) ? '.' : '')),
    h('h2', {}, open.length ? `Findings (${open.length} open)` : mine.length ? 'Findings (all resolved)' : 'Findings'),
    mine.length ? filtered(mine, [['status', f => [f.status]], stateFacet(mine)], findingText, f => findingRow(f, true), {hint: 'Search findings of this model'}) : h('p', {class: 'empty'}, m.batches.length ? 'Nothing was found.' : 'Nothing has been checked.'),
    waitingList(data.waiting.filter(w => w.model === name)),
    live.length || bare.length ? [h('h2', {}, 'Checks by column'), h('div', {class: 'card'}, [...groups].filter(([, list]) => list.length).map(([column, list]) => h('section', {class: 'column'}, h('h3', {}, column || 'The whole model', h('span', {class: 'kind'}, kinds.get(column) || '')), list.map(c => checkRow(c, m)))),
      bare.length ? h('p', {class: 'small dim'}, `Without a check: ${bare.join(', ')}`) : null)] : null,
    drawn ? [h('h2', {}, 'Metrics and what was allowed'), drawn] : null,
    m.profile ? [h('h2', {}, 'Profile'), profile(m.profile)] : null,
    m.sql.text ? h('details', {class: 'others'}, h('summary', {}, `SQL of the model${m.sql.file ? `: ${m.sql.file}` : ''}`), source(m, marks)) : null];
}

// The text of the model's file, with the numbers of its lines and those of checks marked; without a file its SELECT.
function source(m, marks) {
  if (!m.sql.file) return h('pre', {}, m.sql.text);
  return h('pre', {class: 'sql', tabindex: 0}, m.sql.text.split('\n').map((text, i) => h('span', {class: marks.has(i + 1) ? `line marked ${marks.get(i + 1)}` : 'line', 'data-line': i + 1}, text + '\n')));
}

function sourceOf(m, c, letter) {
  if (!m.sql.text) return null;
  return [h('h2', {}, m.sql.file ? `SQL of the model: ${m.sql.file}` : 'SQL of the model'), source(m, c.line ? new Map([[c.line, letter]]) : new Map())];
}

function checkRow(c, m) {
  const now = c.strip.replace(/\.+$/, '').slice(-1) || '.', f = data.findings.filter(x => x.check === c.id).pop();
  const first = c.series[0], last = first ? first.values[first.values.length - 1] : null, shown = first && (first.lower !== null || first.upper !== null);
  return h('div', {class: 'check'}, h('div', {}, now === '.' ? '' : badge(now)),
    h('div', {class: 'name'}, h('a', {href: link('check', m.summary.name, c.id), title: c.description || null}, c.name), c.detector === 'constraint' ? null : h('span', {class: 'small dim'}, ' monitor')),
    strip(c.strip, m.batches, {label: c.label, pick: () => go(f ? link('finding', f.id) : link('check', m.summary.name, c.id))}),
    h('div', {class: 'n small dim', title: shown ? `${ofRows(first) ? 'rows that pass' : first.title}, newest batch` : null}, shown && last !== null ? ofRows(first) ? `${share(last)} of rows` : `now ${number(last)}` : ''));
}

const facts = pairs => h('dl', {class: 'facts'}, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));
const undrawn = c => c.undrawn ? h('p', {class: 'small dim'}, `${plural(c.undrawn, 'more segment is', 'more segments are')} not drawn.`) : null;
const severity = x => x.severity === 'error' ? 'error: the run exits with 1 when the check is not met' : 'warn: the run still exits with 0';
async function findingPage(id) {
  const f = data.findings.find(x => x.id === id);
  if (!f) return missing('finding', id);
  const m = await detail(f.model), c = m.checks.find(x => x.id === f.check), newest = f.batches[f.batches.length - 1];
  const sample = m.failures[f.id], found = c.messages.filter(x => f.batches.includes(x[0])), basis = found.map(x => x[5]).find(t => t);
  const i = m.batches.indexOf(newest), odd = c.series.filter(x => x.bad[i] === '1'), several = c.series.length > 1;
  const each = what => i < 0 ? '' : (odd.length ? odd : c.series.slice(0, 1)).map(x => what(x, i) && h('div', {}, `${several ? `${x.title}: ` : ''}${what(x, i)}`)).filter(t => t);
  const [allowed, seenThen] = [each(expected), each((x, k) => `${x.values[k] === null ? NO_VALUE : told(x, x.values[k])} on ${newest}`)];
  const hot = x => f.batches.some(b => x.bad[m.batches.indexOf(b)] === '1');
  return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / ', h('a', {href: link('model', f.model)}, f.model), ' / finding'),
    h('h1', {}, badge(f.status), ' ', f.label), h('p', {}, f.message),
    h('div', {class: 'card'}, facts([['Where', `${f.model}${f.column ? `, column ${f.column}` : ''}`], [c.detector === 'constraint' ? 'Expected' : 'Monitor', c.expression + (c.where ? ` where ${c.where}` : '')],
      ['Allowed', allowed.length ? allowed : ''], ['Seen', seenThen.length ? seenThen : ''],
      ['Since', `${f.batches[0]}${f.batches.length > 1 ? `; ${plural(f.batches.length, 'batch', 'batches')}, the newest ${newest}` : ''}${i < 0 ? ' (older than what this report covers)' : ''}`], ['Noticed', `${f.opened} UTC`], ['State', isOpen(f) ? `${f.state_text}${f.state !== 'open' && f.author ? ` by ${f.author}` : ''}` : `resolved by ${f.author}${f.resolved ? `, ${f.resolved}` : ''}`], ['Reason', f.reason], ['Assigned to', f.assigned], ['Read by', f.impact],
      ['Cause', f.cause && h('span', {class: 'follows'}, follows(f))], ['History', basis], ['Review', m.reviews[newest]], ['Status', f.status === 'error' && 'could not be computed: the run exits with 2'], ['Severity', severity(f)], ['Owner', f.owner], ['Written at', c.place && h('code', {}, c.place)], ['Tags', f.tags.join(', ')]])),
    c.series.length ? h('div', {class: 'below'}, charts(c.series, m, hot), undrawn(c)) : h('div', {class: 'card below'}, strip(c.strip, m.batches, {label: c.label}), legend(c.strip.includes('.') ? '.' : '')),
    h('h2', {}, 'What to do'), todo(f, newest),
    found.length > 1 ? [h('h2', {}, 'Batch by batch'), c.verdicts > c.messages.length ? h('p', {class: 'small dim'}, `The newest ${found.length} verdicts that were not met.`) : null, h('div', {class: 'card'}, messages(found))] : null,
    sample ? [h('h2', {}, `${sample[0] === newest ? 'Failing rows' : `Failing rows of ${sample[0]}`}${sample[2] > sample[1].length ? ` (${sample[1].length} of ${grouped(sample[2])} kept)` : ''}`), h('div', {class: 'card wide'}, rows(sample[1], f.column))] : c.series.some(x => ofRows(x) && x.lower !== null) && c.detector === 'constraint' ? h('p', {class: 'small dim'}, 'No failing rows were kept: ', h('code', {}, 'dqsql run --store-failures'), ' keeps some.') : null,
    c.learned ? [h('h2', {}, 'What has been learned so far'), h('div', {class: 'card'}, h('p', {class: 'small dim'}, c.learned.basis), c.learned.bounds.map(b => h('div', {}, h('code', {}, b))))] : null,
    sourceOf(m, c, {error: 'e', fail: 'f', warn: 'w', no_data: 'n'}[f.status])];
}

// The commands of a finding, in the order in which people need them.
function todo(f, newest) {
  const say = text => h('p', {class: 'small dim'}, text), about = quote(f.check);
  const waits = f.batches.filter(b => data.waiting.some(w => w.model === f.model && w.batches.includes(b)));
  const soon = new Date(Date.now() + 7 * 864e5).toISOString().slice(0, 10);
  const parts = [say('See the verdict and what it rests on, and compute it again:'), command(`dqsql explain ${about} --batch ${quote(newest)}`)];
  if (!isOpen(f)) return [...parts, say('Open the finding again:'), command(`dqsql finding reopen ${quote(f.id)}`)];
  if (f.status === 'error') parts.push(say('Repair the check; the next run checks its batches again:'), command(`dqsql run --select ${quote(f.model)}`));
  else if (waits.length) parts.push(say(`${waits.length === 1 ? `${waits[0]} waits` : `${waits.length} of its batches wait`} for a review. Accept if the data is right after all, reject if it is wrong; monitors learn from accepted batches only:`), reviews(f.model, waits));
  else parts.push(say('Accept its batches if the data is right after all, which resolves the finding; reject them if it is wrong, so that monitors do not learn from them:'), reviews(f.model, f.batches));
  const assign = command(`dqsql finding assign ${about} --to NAME`);
  if (f.state === 'muted') return [...parts, say('Assign the finding, or send messages about it again:'), assign, command(`dqsql finding unmute ${about}`)];
  if (f.state === 'acknowledged') return [...parts, say('Assign the finding, or open it again, so that messages are sent about it:'), assign, command(`dqsql finding reopen ${quote(f.id)}`)];
  return [...parts, say('Assign the finding, acknowledge it (no more messages), or mute it until a day:'), assign, command(`dqsql finding acknowledge ${about} --reason "..."`), command(`dqsql finding mute ${about} --until ${soon} --reason "..."`)];
}

const messages = list => h('table', {class: 'stack'}, h('tbody', {}, list.map(([batch, segment, letter, text]) => h('tr', {}, h('td', {class: 'nowrap'}, badge(letter)), h('td', {class: 'nowrap'}, batch + (segment ? ` [${segment}]` : '')), h('td', {}, text)))));

// Failing rows as a table; the column that the finding is about comes first, and is marked.
function rows(list, culprit) {
  const parsed = list.map(text => { try { return JSON.parse(text); } catch { return {row: text}; } });
  const names = [...new Set(parsed.flatMap(r => Object.keys(r)))].sort((a, b) => (b === culprit) - (a === culprit));
  const cell = (n, v) => { const text = shown(v); return h('td', {class: [n === culprit && 'culprit', typeof text === 'string' && text.length <= 40 && 'nowrap'].filter(t => t).join(' ') || null}, text); };
  const shown = v => v === null || v === undefined ? h('i', {class: 'dim'}, 'null') : typeof v === 'object' ? JSON.stringify(v) : String(v);
  return h('table', {class: 'small'}, h('thead', {}, h('tr', {}, names.map(n => h('th', {}, n)))),
    h('tbody', {}, parsed.map(r => h('tr', {}, names.map(n => cell(n, r[n]))))));
}

async function checkPage(model, id) {
  const m = await detail(model), c = m && m.checks.find(x => x.id === id);
  if (!c) return missing('check', id);
  const mine = ranked(data.findings.filter(f => f.check === id));
  return [h('p', {class: 'crumb'}, h('a', {href: '#/'}, 'Overview'), ' / ', h('a', {href: link('model', model)}, model), ' / check'), h('h1', {}, c.label), c.description ? h('p', {}, c.description) : null,
    h('div', {class: 'card'}, facts([['Expression', h('code', {}, c.expression)], ['Where', c.where], ['Severity', severity(c)], ['Kind', c.detector], ['Written at', c.place && h('code', {}, c.place)], ['Tags', c.tags.join(', ')], ['Id', h('code', {}, c.id)]]), strip(c.strip, m.batches, {label: c.label}), legend(c.strip.includes('.') ? '.' : '')),
    c.series.length ? h('div', {class: 'below'}, charts(c.series, m), undrawn(c)) : null,
    mine.length ? [h('h2', {}, 'Findings'), h('div', {class: 'card'}, mine.map(f => findingRow(f, true)))] : null,
    c.learned ? [h('h2', {}, 'What has been learned so far'), h('div', {class: 'card'}, h('p', {class: 'small dim'}, c.learned.basis), c.learned.bounds.map(b => h('div', {}, h('code', {}, b))))] : null,
    sourceOf(m, c, c.strip.slice(-1))];
}

async function checksPage() {
  if (!data.models.length) return [h('h1', {}, 'Checks'), nothing()];
  const every = [];
  for (const summary of data.models) {
    const m = await detail(summary.name);
    for (const c of m.checks.filter(x => !x.gone)) {
      const known = c.strip.replace(/[.s]/g, ''), good = known.split('p').length - 1;
      let flips = 0;
      for (let i = 1; i < known.length; i++) if ((known[i] === 'p') !== (known[i - 1] === 'p')) flips++;
      every.push({...c, model: summary.name, owner: summary.owner, runs: known.length, rate: known.length ? good / known.length : null, flips, now: known.slice(-1), tags: [...new Set([...c.tags, ...summary.tags])], names: m.batches});
    }
  }
  every.sort((a, b) => a.rank - b.rank || b.flips - a.flips || (a.model < b.model ? -1 : 1));
  const head = list => h('thead', {}, h('tr', {}, list.map(([t, n]) => h('th', {class: n ? 'n' : null}, t))));
  const bytes = v => v === null || v === undefined ? '–' : v >= 2 ** 30 ? `${(v / 2 ** 30).toFixed(1)} GiB` : v >= 2 ** 20 ? `${(v / 2 ** 20).toFixed(1)} MiB` : `${(v / 1024).toFixed(0)} KiB`;
  const row = c => h('tr', {}, h('td', {}, c.now ? badge(c.now) : ''), h('td', {}, h('a', {href: link('check', c.model, c.id)}, c.label), h('div', {class: 'small dim'}, c.model)), h('td', {class: 'small dim nowrap'}, c.detector), h('td', {class: 'n', 'data-head': 'verdicts'}, String(c.runs)), h('td', {class: 'n', 'data-head': 'passed'}, c.rate === null ? '–' : percent(c.rate, 1)), h('td', {class: 'n', 'data-head': 'changes'}, String(c.flips)));
  return [h('h1', {}, 'Checks'), h('p', {class: 'dim'}, 'A check that often changes between pass and fail is flaky: its bound may be too tight, or its data may vary too much. The kind ', h('i', {}, 'constraint'), ' is a condition that you wrote; the other kinds are monitors.'),
    filtered(every, [['status', c => [c.now]], ['model', c => [c.model]], ['owner', c => [c.owner]], ['tag', c => c.tags], ['kind', c => [c.detector]]], c => [c.model, c.label, c.expression, c.owner].join(' '), row,
      {hint: 'Search checks', wrap: found => h('table', {class: 'stack'}, head([['now'], ['check'], ['kind'], ['verdicts', 1], ['passed', 1], ['changes', 1]]), h('tbody', {}, found))}),
    h('h2', {}, 'Coverage and cost by model'), h('div', {class: 'card'}, h('table', {class: 'stack'}, head([['model'], ['owner'], ['columns with a check', 1], ['checks', 1], ['newest run', 1], ['scans', 1], ['rows', 1], ['read', 1]]),
      h('tbody', {}, data.models.map(m => h('tr', {}, h('td', {}, h('a', {href: link('model', m.name)}, m.name)), h('td', {class: 'dim'}, m.owner), h('td', {class: 'n', 'data-head': 'columns with a check'}, m.columns ? `${m.covered} of ${m.columns}` : '–'), h('td', {class: 'n', 'data-head': 'checks'}, String(m.checks)),
        h('td', {class: 'n', 'data-head': 'newest run', title: m.cost ? m.cost.phases.map(([p, t]) => `${p} ${t.toFixed(1)} s`).join(', ') : null}, m.cost ? `${m.cost.seconds.toFixed(1)} s` : '–'), h('td', {class: 'n', 'data-head': 'scans'}, m.cost ? number(m.cost.scans) : '–'), h('td', {class: 'n', 'data-head': 'rows'}, m.cost ? number(m.cost.rows) : '–'), h('td', {class: 'n', 'data-head': 'read'}, m.cost ? bytes(m.cost.bytes) : '–'))))))];
}
