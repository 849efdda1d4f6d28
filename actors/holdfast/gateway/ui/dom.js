// Helpers for the DOM. They insert text only, never HTML, which the page's policy forbids.

export const at = (id) => document.getElementById(id);

export function show(id, text) {
  const element = at(id);
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// Creates an element with attributes and children; a child is an element or a text.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const kept = new WeakMap();

// Keeps one child per thing, in order. Existing children are redrawn, not recreated, so that focus, selection and
// unfolded details stay. `make` returns [element, draw].
export function keep(parent, things, keyOf, make) {
  const keys = new Set(things.map(keyOf));
  const old = new Map([...parent.children].map((child) => [kept.get(child).key, child]));
  // Removed first, so that the remaining children need not be moved: moving one loses its focus.
  for (const [key, child] of old) if (!keys.has(key)) child.remove();
  let next = parent.firstElementChild;
  for (const thing of things) {
    const key = keyOf(thing);
    let child = old.get(key);
    if (!child) {
      const [element, draw] = make(thing);
      child = element;
      kept.set(child, { key, draw });
    }
    kept.get(child).draw(thing);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

// Fills a <dl>; `facts` is a list of [name, text].
export function list(parent, facts) {
  const parts = facts.flatMap(([name, text]) => [{ tag: "dt", name, text: name }, { tag: "dd", name, text }]);
  keep(parent, parts, ({ tag, name }) => `${tag} ${name}`, ({ tag }) => {
    const made = el(tag);
    return [made, ({ text }) => {
      if (made.textContent !== text) made.textContent = text;
    }];
  });
}

// Shows the outcome of an action.
export function tell(output, text, bad = false) {
  output.textContent = text;
  output.classList.toggle("bad", bad);
}
