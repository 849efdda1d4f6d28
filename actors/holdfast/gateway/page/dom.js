// Text goes into the page as text only: nothing here writes HTML, and the page's policy forbids it.

export const at = (id) => document.getElementById(id);

export function show(id, text) {
  const element = at(id);
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// An element with attributes and children; a child is an element or a text.
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

// One child for each thing, in order. A child that is there already is drawn again, not made again, so that
// focus, selection and what was unfolded stay. `make` answers [element, draw].
export function keep(parent, things, keyOf, make) {
  const keys = new Set(things.map(keyOf));
  const old = new Map([...parent.children].map((child) => [kept.get(child).key, child]));
  // First, so that those that stay need not be moved: moving one takes the focus away.
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

// Names and what they are, in a <dl>; `facts` is a list of [name, text].
export function list(parent, facts) {
  const parts = facts.flatMap(([name, text]) => [{ tag: "dt", name, text: name }, { tag: "dd", name, text }]);
  keep(parent, parts, ({ tag, name }) => `${tag} ${name}`, ({ tag }) => {
    const made = el(tag);
    return [made, ({ text }) => {
      if (made.textContent !== text) made.textContent = text;
    }];
  });
}

// A sentence about how it went, beside what was done.
export function tell(output, text, bad = false) {
  output.textContent = text;
  output.classList.toggle("bad", bad);
}
