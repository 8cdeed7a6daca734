// The recorded graphs, and the Chinese for their texts, where the pages of labs/steps look for them.

import { recorded } from "./recorded.js";

const put = (id, value) => document.body.append(Object.assign(document.createElement("script"), { type: "application/json", id, textContent: JSON.stringify(value) }));

for (const [guard, file] of Object.entries(recorded.graphs)) put(`recording-${guard}`, file);
put("lab-texts", recorded.lab_texts);
