// The dialog for the token, which is kept for this tab only.
import { token } from "./api.js";
import { at, tell } from "./dom.js";

let entered;

export function ask(refused) {
  tell(at("token-answer"), refused ? "The server does not accept this token." : "", true);
  if (refused) token.forget();
  at("forget-token").hidden = true;
  at("token-value").value = "";
  if (!at("token").open) at("token").showModal();
}

function enter(event) {
  event.preventDefault();
  const value = at("token-value").value.trim();
  if (!/^[\x21-\x7e]+$/.test(value)) {
    tell(at("token-answer"), "A token has visible ASCII characters only, without spaces.", true);
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
