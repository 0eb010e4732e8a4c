// What pages do beyond links and forms: parts that keep themselves up to date, ages that grow, texts to copy, keys.
// Each page works without it. It sends nothing elsewhere and keeps nothing.
"use strict";

(() => {
  const state = document.getElementById("live-state");

  function say(name, text) {
    state.dataset.state = name;
    if (state.textContent !== text) state.textContent = text;
  }

  // Open sections, and what is being typed, stay as they are when a part comes anew.
  const morphing = {
    ignoreActiveValue: true,
    callbacks: {
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") && name !== "hidden",
    },
  };

  function show(html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const focused = document.activeElement;
    const place = links().findIndex((it) => rowOf(it) === rowOf(focused));
    for (const part of parsed.body.children) {
      const old = document.getElementById(part.id);
      if (!old) continue;
      Idiomorph.morph(old, part, { morphStyle: "outerHTML", ...morphing });
    }
    refresh();
    if (focused === document.body || document.activeElement !== document.body) return;
    // A row that has moved has lost the focus; where it is gone, the row in its place gets it.
    if (focused.isConnected) focused.focus({ preventScroll: true });
    else if (place >= 0) links().slice(0, place + 1).pop()?.focus({ preventScroll: true });
  }

  // A part follows its stream while the page is looked at: a browser has six connections to a server, and
  // pages in the background give theirs back.
  const live = { source: null, url: null, timer: 0, ended: null };

  function wanted() {
    const part = document.querySelector("[data-live]");
    return part && !document.hidden ? part.dataset.live : null;
  }

  function close() {
    clearTimeout(live.timer);
    live.source?.close();
    live.source = live.url = null;
  }

  function follow() {
    const url = wanted();
    if (url === live.url) return;
    close();
    if (!url || url === live.ended) return;
    const source = new EventSource(url);
    live.source = source;
    live.url = url;
    source.addEventListener("open", () => say("live", "live"));
    source.addEventListener("part", (event) => {
      show(event.data);
      // A list that was filtered anew has another stream.
      if (wanted() !== live.url) follow();
    });
    source.addEventListener("end", () => {
      live.ended = url;
      close();
      say("ended", "");
    });
    source.addEventListener("signed-out", () => location.reload());
    source.addEventListener("refused", () => again());
    source.addEventListener("error", () => {
      say("cut", "connecting");
      if (source.readyState === EventSource.CLOSED) again();
    });
  }

  function again() {
    close();
    live.timer = setTimeout(follow, 5000);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else follow();
  });
  document.addEventListener("htmx:afterSettle", () => {
    follow();
    refresh();
  });

  function age(seconds) {
    if (seconds < 60) return Math.floor(seconds) + " s";
    if (seconds < 3600) return Math.floor(seconds / 60) + " min";
    if (seconds < 86400) return Math.floor(seconds / 3600) + " h";
    return Math.floor(seconds / 86400) + " d";
  }

  function refresh() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const passed = (Date.now() - Date.parse(time.dateTime)) / 1000;
      const text = passed < -1 ? "in " + age(-passed) : age(Math.max(0, passed)) + " ago";
      if (time.textContent !== text) time.textContent = text;
    }
    for (const button of document.querySelectorAll("button.copy[hidden]")) button.hidden = false;
    const title = document.querySelector("[data-title]");
    if (title) document.title = title.dataset.title + document.querySelector("title").dataset.end;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const source = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      // Without https the browser has no clipboard for pages: the text is selected instead.
      getSelection().selectAllChildren(source);
      return;
    }
    button.dataset.copied = "";
    setTimeout(() => delete button.dataset.copied, 1500);
  });

  // What is there to copy is of the form as its page came.
  document.addEventListener("input", (event) => {
    if (event.target.id === "note") return;
    event.target.closest(".decision")?.querySelector(".elsewhere")?.remove();
  });

  // Rows of lists. The link of a row is where the focus goes: Enter opens it, and a screen reader reads it.
  function rowOf(node) {
    return node?.closest(".group, tbody tr") ?? null;
  }

  function links() {
    const rows = [...document.querySelectorAll("main .group, main tbody tr")];
    const found = rows.map((row) => row.querySelector(".what a[href]") ?? row.querySelector("a[href]"));
    // Rows of closed sections have no boxes.
    return found.filter((it) => it?.getClientRects().length);
  }

  function move(by) {
    const all = links();
    const row = rowOf(document.activeElement);
    const at = all.findIndex((it) => rowOf(it) === row);
    const next = at < 0 && by < 0 ? all.length - 1 : at + by;
    all[next]?.focus();
  }

  const panel = document.getElementById("shortcuts");

  function search() {
    const box = document.getElementById("q");
    if (!box) {
      location.href = panel.dataset.search;
      return;
    }
    box.focus();
    box.select();
  }

  const keys = new Map([
    ["/", search],
    ["j", () => move(1)],
    ["k", () => move(-1)],
    ["?", () => panel.showModal()],
  ]);

  document.addEventListener("keydown", (event) => {
    // The server leaves the address out where a person has switched keys off.
    if (!panel?.dataset.search || panel.open) return;
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
    const target = event.target;
    if (target.isContentEditable || target.closest("input, textarea, select")) return;
    const act = keys.get(event.key);
    if (!act) return;
    // Else the key is typed into the box that has the focus then.
    event.preventDefault();
    act();
  });

  for (const button of document.querySelectorAll("button[data-opens]")) {
    button.hidden = false;
    button.addEventListener("click", () => document.getElementById(button.dataset.opens).showModal());
  }

  // Not each browser gives the focus to what the address names.
  if (location.hash === "#q" && document.getElementById("q")) search();

  refresh();
  setInterval(refresh, 5000);
  follow();
})();
