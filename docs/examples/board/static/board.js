// Likes without a reload. Without this script the same form is sent, and the page comes back.
"use strict";

function show(form, state) {
  const button = form.querySelector("button");
  button.setAttribute("aria-pressed", String(state.liked));
  button.value = state.liked ? "unlike" : "like";
  form.querySelector(".count").textContent = state.shown;
  form.querySelector(".spoken").textContent = state.likes === 1 ? "1 like" : `${state.likes} likes`;
}

function tell(text) {
  document.getElementById("said").textContent = text;
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// One key for one press, however often it must be sent until there is an answer.
async function send(form, body, key) {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        body,
        headers: { Accept: "application/json", "Idempotency-Key": key },
      });
      if (answer.status !== 503 || attempt === 4) return answer;
      await pause(Number(answer.headers.get("Retry-After")) || 1);
    } catch (lost) {
      if (attempt === 4) throw lost;
      tell("There is no connection. Trying again.");
      await pause(attempt / 2);
    }
  }
}

async function press(form, button) {
  if (form.dataset.busy) return; // a double click is one press
  form.dataset.busy = "yes";
  const body = new FormData(form);
  body.set("do", button.value);
  button.setAttribute("aria-disabled", "true");
  try {
    const key = globalThis.crypto?.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const [answer] = await Promise.all([send(form, body, key), pause(0.3)]);
    const isJson = answer.headers.get("Content-Type")?.includes("json");
    if (!isJson) throw new Error("That could not be done. Load the page again.");
    const state = await answer.json();
    if (!answer.ok) throw new Error(state.title);
    show(form, state);
    tell(state.liked ? "Liked." : "Like taken back.");
  } catch (error) {
    tell(error instanceof TypeError ? "There is no connection. Try again." : error.message);
  } finally {
    delete form.dataset.busy;
    button.removeAttribute("aria-disabled");
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.like")) return;
  event.preventDefault();
  press(event.target, event.submitter ?? event.target.querySelector("button"));
});

// A page that the browser kept for "back" may show what was, not what is.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
