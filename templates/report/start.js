const missing = (what, name) => [h('h1', {}, 'Not in this report'), h('p', {class: 'empty'}, `There is no ${what} ${name} in it. `, h('a', {href: '#/'}, 'Overview'))];

const MAKERS = {model: modelPage, finding: findingPage, check: checkPage, checks: checksPage};
// How far each page was scrolled, and which one is seen.
const scrolled = new Map();
let displayed = '', turns = 0;

// An address that somebody wrote by hand.
function decoded(part) {
  try { return decodeURIComponent(part); } catch (error) { return part; }
}

async function show() {
  const turn = ++turns, back = !followed;
  followed = false;
  place = location.hash || '#/';
  const [page, ...rest] = place.replace(/\?.*/, '').replace(/^#\/?/, '').split('/').map(decoded);
  waiting.clear();
  lists.clear();
  tip();
  // The checks of hundreds of models take seconds to read.
  const slow = setTimeout(() => {
    displayed = '';
    document.getElementById('main').replaceChildren(h('p', {class: 'empty', role: 'status'}, 'Reading ..'));
  }, 300);
  const content = await (MAKERS[page] || overview)(...rest);
  clearTimeout(slow);
  // Somebody has gone on meanwhile.
  if (turn !== turns) return;
  document.querySelectorAll('header nav a').forEach(a => { if ((page === 'checks') === (a.hash === '#/checks')) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current'); });
  const main = document.getElementById('main');
  main.replaceChildren();
  fill(main, {}, [content]);
  main.setAttribute('data-page', page || 'overview');
  document.title = MAKERS[page] ? `${main.querySelector('h1').textContent} · ${title}` : title;
  for (const line of document.querySelectorAll('pre.sql .marked')) line.parentNode.scrollTop = line.offsetTop - line.parentNode.clientHeight / 2;
  displayed = place;
  scrollTo(0, back && scrolled.get(place) || 0);
  if (turn > 1) main.focus({preventScroll: true});
}
const title = document.title;

// What is searched for is a part of the address, which may be sent to somebody.
function search(wanted) {
  const query = String(new URLSearchParams(wanted));
  place = place.replace(/\?.*/, '') + (query ? `?${query}` : '');
  displayed = place;
  history.replaceState(null, '', place);
}

history.scrollRestoration = 'manual';
addEventListener('scroll', () => scrolled.set(displayed, scrollY));
addEventListener('click', event => { if (event.target.closest('a[href^="#"]')) followed = true; });
addEventListener('hashchange', show);
// The address of the page stays as it is.
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  document.getElementById('main').focus();
});
unpack('overview').then(found => {
  data = found;
  fill(document.getElementById('top'), {}, [h('div', {class: 'bar'}, h('b', {}, data.project), h('nav', {'aria-label': 'Pages'}, h('a', {href: '#/'}, 'Overview'), h('a', {href: '#/checks'}, 'Checks')), h('span', {class: 'made small'}, `target ${data.target} · ${data.made.slice(0, 16).replace('T', ' ')} UTC · dqsql ${data.version}`))]);
  return show();
});
