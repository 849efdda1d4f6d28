// The dialog for the token, which is kept for this tab only.
import { token } from "./api.js";
import { html, useLayoutEffect, useRef, useState } from "./view.js";

export function TokenDialog({ refused, onEntered, onCancel }) {
  const dialog = useRef();
  const [said, say] = useState(refused ? "The server does not accept this token." : "");
  useLayoutEffect(() => {
    if (refused) token.forget();
    dialog.current.showModal();
  }, []);
  const enter = (event) => {
    event.preventDefault();
    const value = new FormData(event.target).get("token").trim();
    if (!/^[\x21-\x7e]+$/.test(value)) {
      say("A token has visible ASCII characters only, without spaces.");
      return;
    }
    token.keep(value);
    onEntered();
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" onClose=${onCancel}><form onSubmit=${enter}>
    <h2 id="token-title">This server requires a token</h2>
    <p class="quiet">Enter the token that the server was started with (<code>--token</code> or
      <code> HOLDFAST_TOKEN</code>) or one of its token file. It is kept until this tab is closed.</p>
    <label>Token <input name="token" type="password" autocomplete="off" autocapitalize="off" spellcheck=${false} required /></label>
    <output class="outcome bad" role="alert">${said}</output>
    <div class="row"><button>Use it</button><button class="plain" type="button" onClick=${onCancel}>Not now</button></div>
  </form></dialog>`;
}
