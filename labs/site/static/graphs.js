// The recorded graphs, and the Chinese for their texts, where the pages of labs/steps look for them.

import { recorded } from "./recorded.js";

const put = (id, textContent) => document.body.append(Object.assign(document.createElement("script"), { type: "application/json", id, textContent }));

for (const [guard, text] of Object.entries(recorded.graphs)) put(`recording-${guard}`, text); // read when it is asked for
put("lab-texts", JSON.stringify(recorded.lab_texts));
