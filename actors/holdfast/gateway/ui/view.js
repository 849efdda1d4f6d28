// The libraries of the view: components as functions, markup as tagged templates, which insert text only.
import { h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { render } from "./vendor/preact.mjs";
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";

export const html = htm.bind(h);
