// The records of a report, unpacked for the player. loadtest/report/slow_motion.py packs them.

const { columns, films } = JSON.parse(document.getElementById("films").textContent);

const unpacked = films.map((film) => ({
  ...film,
  ledger: Array.from({ length: film.orders }, (_, order) => ({ order })),
  sections: film.sections.map((row, index) => ({
    ...Object.fromEntries(columns.map((name, column) => [name, row[column]])),
    order: row[columns.length] ?? `none-${index}`,
    points: row[columns.length + 1].map(([name, line, at_ms]) => ({ name, line, at_ms })),
  })),
  answers: film.answers.map(([buyer, instance, sent_ms, answered_ms]) => ({ buyer, instance, sent_ms, answered_ms })),
}));
new Player(document.getElementById("player"), unpacked);
