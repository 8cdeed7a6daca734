// A command in a few words, with the last part of its key: "SET lock".
export function brief(command) {
  const [name, ...rest] = command.split(";")[0].split(" ");
  if (name.startsWith("EVAL")) return rest[0] ?? name;
  if (name === "Txn") return [name, ...rest.filter((word) => ["put", "delete_range", "range"].includes(word))].slice(0, 2).join(" ");
  return rest.length ? `${name} ${rest[0].replaceAll("'", "").split(/[:/]/).at(-1)}` : name;
}
