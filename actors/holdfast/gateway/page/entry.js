// The token, where the server has one: asked for once, kept for this tab only.
import { token } from "./api.js";
import { at, tell } from "./dom.js";

let entered;

export function ask(refused) {
  tell(at("token-answer"), refused ? "The server does not take this token." : "", true);
  if (refused) token.forget();
  at("forget-token").hidden = true;
  at("token-value").value = "";
  if (!at("token").open) at("token").showModal();
}

function enter(event) {
  event.preventDefault();
  const value = at("token-value").value.trim();
  if (!/^[\x21-\x7e]+$/.test(value)) {
    tell(at("token-answer"), "A token has letters, digits and signs only, without spaces.", true);
    return;
  }
  token.keep(value);
  at("token").close();
  at("forget-token").hidden = false;
  entered();
}

export function begin({ onEntered, onForgotten }) {
  entered = onEntered;
  at("forget-token").hidden = !token.held;
  at("forget-token").addEventListener("click", () => {
    token.forget();
    onForgotten();
  });
  at("enter-token").addEventListener("click", () => ask(false));
  at("token-cancel").addEventListener("click", () => at("token").close());
  at("token-form").addEventListener("submit", enter);
}
