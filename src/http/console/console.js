// The console's script: what is live is loaded again, "/" goes to the filter. Pages work without it.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  let loading = false;
  let again = false;

  // Whether somebody is at work in this part of the page, which must not be taken away then.
  function isInUse(part) {
    const focused = document.activeElement;
    if (part.contains(focused) && focused.matches("input, select, textarea")) return true;
    const changed = (field) => field.type !== "hidden" && field.value !== field.defaultValue;
    const chosen = (field) => all("option", field).some((one) => one.selected !== one.defaultSelected && one.index > 0);
    return all("input, textarea", part).some(changed) || all("select", part).some(chosen);
  }

  // Puts the new state of a part in its place, with what was unfolded and focused as it was.
  function swap(old, fresh) {
    if (!fresh || isInUse(old)) return;
    const unfolded = new Set(all("details[open]", old).map((one) => one.id));
    for (const one of all("details", fresh)) one.open = unfolded.has(one.id);
    for (const one of all("[data-live]", fresh)) one.hidden = all("[data-live]", old).every((was) => was.hidden);
    if (old.isEqualNode(fresh)) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const place = focused ? all("a, button, summary, [tabindex]", old).indexOf(focused) : -1;
    old.replaceWith(document.adoptNode(fresh));
    if (place >= 0) all("a, button, summary, [tabindex]", fresh)[place]?.focus({ preventScroll: true });
  }

  async function refresh() {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect") return location.reload();
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of all("[data-fragment]")) swap(part, page.getElementById(part.id));
      }
    } catch {
      // The service is away; the next time may do.
    } finally {
      loading = false;
    }
    if (again) {
      again = false;
      setTimeout(refresh, 250);
    }
  }

  // A page of a session hears when there is something new.
  const following = document.querySelector("[data-live]");
  if (following) {
    const source = new EventSource(following.dataset.live);
    const show = (live) => all("[data-live]").forEach((one) => { one.hidden = !live; });
    source.onopen = () => { show(true); refresh(); };
    source.onerror = () => {
      show(false);
      // Refused: the session ended before this could hear of it.
      if (source.readyState === EventSource.CLOSED) refresh();
    };
    source.addEventListener("changed", refresh);
    source.addEventListener("ended", () => { source.close(); show(false); refresh(); });
    addEventListener("pagehide", () => source.close());
  }

  // Lists look again by themselves, while they are looked at.
  const seconds = Math.min(...all("[data-every]").map((one) => Number(one.dataset.every)));
  if (Number.isFinite(seconds)) {
    setInterval(() => { if (!document.hidden) refresh(); }, seconds * 1000);
  }

  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) return;
    const field = document.querySelector("[data-filter]");
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
})();
