// What pages do beyond links and forms: parts that keep themselves up to date, ages that grow, texts to copy.
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
    for (const part of parsed.body.children) {
      const old = document.getElementById(part.id);
      if (!old) continue;
      Idiomorph.morph(old, part, { morphStyle: "outerHTML", ...morphing });
    }
    refresh();
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
    for (const button of document.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
    const title = document.querySelector("[data-title]");
    if (title) document.title = title.dataset.title + " · Counterstep";
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Without https the browser has no clipboard for pages: the text is selected instead.
      getSelection().selectAllChildren(button.previousElementSibling);
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

  refresh();
  setInterval(refresh, 5000);
  follow();
})();
