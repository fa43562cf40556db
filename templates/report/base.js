const SVG = 'http://www.w3.org/2000/svg';
const WORDS = {p: 'pass', w: 'warn', f: 'fail', n: 'no data', e: 'could not be computed', s: 'skipped', '.': 'not checked', ' ': 'no batch'};
const HEIGHTS = {p: .5, s: .3, '.': .12, ' ': .07, n: .7, w: .8, f: 1, e: 1};
const CLASSES = {'.': 'dot', ' ': 'gap'};
const RANK = 'efwnps.';
const BAD = 'efwn';
const DATE = /^\d{4}-\d{2}-\d{2}/;
const MARKS = {error: 'ERROR', fail: 'FAIL', warn: 'WARN', no_data: 'NO DATA', f: 'FAIL', w: 'WARN', n: 'NO DATA', e: 'ERROR', p: 'PASS', s: 'SKIP'};
let data;
const models = new Map();
// The page that is shown with what is searched for on it, and how many rows of each list are shown.
let place = '';
const kept = new Map();

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
const grouped = n => n.toLocaleString('en');
const plural = (n, word, words) => `${grouped(n)} ${n === 1 ? word : words || word + 's'}`;
const badge = status => h('span', {class: `badge ${status}`}, MARKS[status] || status);
const sum = list => list.reduce((a, b) => a + b, 0);
const worst = letters => [...RANK].find(l => letters.includes(l)) || '.';

// A share that is not whole is never told as 100%, nor rounded up.
const percent = (share, digits) => `${(Math.floor(share * 100 * 10 ** digits + 1e-7) / 10 ** digits).toFixed(digits)}%`;

function number(value) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size >= 1e6 || (size && size < 1e-4)) return value.toLocaleString('en', {notation: size < 1e15 && size >= 1 ? 'compact' : 'scientific', maximumSignificantDigits: 4});
  return value.toLocaleString('en', {maximumSignificantDigits: size >= 1000 ? 6 : 4});
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
const go = target => { followed = true; location.hash = target; };
// Whether a link was followed: a page that is gone back to is scrolled to where it was.
let followed = true;

const has = v => v !== null && v !== undefined;
const quote = t => /^[\w@.,:\/=+-]+$/.test(t) ? t : `'${t.replace(/'/g, `'\\''`)}'`;

function command(text) {
  const shown = h('pre', {}, text), copy = h('button', {type: 'button', 'aria-live': 'polite', 'aria-label': `Copy ${text}`, onclick: async () => {
    // Only pages that came safely may write to the clipboard.
    if (!navigator.clipboard) return getSelection().selectAllChildren(shown);
    await navigator.clipboard.writeText(text);
    copy.textContent = 'Copied';
    copy.removeAttribute('aria-label');
  }}, 'Copy');
  return h('div', {class: 'command'}, shown, copy);
}
