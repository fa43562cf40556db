// Opens each page of a report that links lead to, in a document that knows just enough: for machines
// without a browser. Prints, as JSON, the text of each page by its address, or what went wrong.
'use strict';
const fs = require('fs'), vm = require('vm');
const html = fs.readFileSync(process.argv[2], 'utf8');

class Node {
  constructor(tag) { Object.assign(this, {tag, attributes: {}, kids: [], style: {}, dataset: {}, handlers: {}, offsetTop: 0, clientHeight: 10, offsetWidth: 10}); }
  append(...kids) { for (const kid of kids) { if (kid instanceof Node) kid.parentNode = this; this.kids.push(kid instanceof Node ? kid : String(kid)); } }
  prepend(...kids) { this.kids.unshift(...kids); }
  replaceChildren(...kids) { this.kids = []; this.append(...kids); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(event, handler) { this.handlers[event] = handler; }
  all(tag, found = []) { for (const kid of this.kids) if (kid instanceof Node) { if (kid.tag === tag) found.push(kid); kid.all(tag, found); } return found; }
  querySelector(query) { return this.all(query)[0] || null; }
  querySelectorAll(query) { return this.all(query); }
  get textContent() { return this.kids.map(kid => kid instanceof Node ? kid.textContent : kid).join(''); }
  set textContent(text) { this.kids = [String(text)]; }
  get children() { return this.kids.filter(kid => kid instanceof Node); }
  get hash() { return this.attributes.href || ''; }
  get value() { if (this.chosen !== undefined || this.tag !== 'select') return this.chosen || ''; const options = this.all('option'), set = options.find(o => 'selected' in o.attributes) || options[0]; return set ? set.attributes.value : ''; }
  set value(text) { this.chosen = text; }
  getBoundingClientRect() { return {left: 0, top: 0, width: 100, height: 10}; }
  getComputedTextLength() { return 10; }
  closest() { return null; }
  focus() {}
}

const ids = {main: new Node('main'), top: new Node('header'), tip: new Node('div')};
for (const [, id, text] of html.matchAll(/<script type="application\/octet-stream" id="([^"]+)">([\s\S]*?)<\/script>/g)) (ids[id] = new Node('script')).append(text);
const listeners = {}, location = {hash: ''}, texts = {}, errors = [];
const watcher = class { observe() {} unobserve() {} disconnect() {} };
const page = {
  document: {title: '', body: new Node('body'), documentElement: new Node('html'), createElement: tag => new Node(tag), createElementNS: (_, tag) => new Node(tag), getElementById: id => ids[id] || null, querySelector: () => new Node('a'), querySelectorAll: () => [], addEventListener() {}},
  location, console, atob, Blob, Response, DecompressionStream, URLSearchParams, setTimeout, clearTimeout, scrollTo() {}, scrollY: 0, innerWidth: 1000,
  addEventListener: (event, handler) => (listeners[event] = listeners[event] || []).push(handler),
  history: {replaceState() {}}, navigator: {}, IntersectionObserver: watcher, ResizeObserver: watcher, requestAnimationFrame: f => setTimeout(f, 0), matchMedia: () => ({matches: false, addEventListener() {}}),
};
page.window = page.globalThis = page;
process.on('unhandledRejection', error => errors.push(error));
vm.runInNewContext(html.match(/<script>\n([\s\S]*?)<\/script>/)[1], page);

const UNSEEN = 'unseen', sleep = () => new Promise(done => setTimeout(done, 5));
async function opened(address) {
  errors.length = 0;
  ids.main.replaceChildren(UNSEEN);
  location.hash = address;
  for (const handler of listeners.hashchange) handler();
  for (let i = 0; i < 400 && ids.main.textContent === UNSEEN && !errors.length; i++) await sleep();
  return errors.length ? `ERROR ${errors[0].stack}` : ids.main.textContent;
}

(async () => {
  for (let i = 0; i < 400 && !ids.top.kids.length; i++) await sleep();
  const todo = ['#/', '#/checks', ...process.argv.slice(3)];
  for (let address = todo.shift(); address; address = todo.shift()) {
    if (address in texts) continue;
    texts[address] = await opened(address);
    todo.push(...[...ids.main.all('a'), ...ids.top.all('a')].map(a => a.attributes.href).filter(a => a && a.startsWith('#/')));
  }
  process.stdout.write(JSON.stringify(texts), () => process.exit(0));
})();
