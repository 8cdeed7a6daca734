// The language of a page, and its texts with their values: for the board, its player, and the pages of the labs.

// Of those that the page has: the one in the address (?lang=zh), or else the browser's; English if it has none.
export function chosenLanguage(known) {
  const asked = new URLSearchParams(globalThis.location?.search).get("lang");
  const wanted = [asked, ...(globalThis.navigator?.languages ?? [])].filter(Boolean).map((tag) => tag.slice(0, 2));
  return wanted.find((tag) => known.includes(tag)) ?? "en";
}

// A text with its values in place of their names in braces, as `show` writes them. Of "one|many" a number n chooses; of
// three forms the first is for none.
export function filled(written, values, show = (value) => value ?? "") {
  const forms = Number.isFinite(values.n) ? written.split("|") : [written];
  const form = forms.length > 2 ? forms[Math.min(values.n, 2)] : values.n === 1 ? forms[0] : forms.at(-1);
  return form.replace(/\{(\w+)\}/g, (_, name) => show(values[name]));
}
