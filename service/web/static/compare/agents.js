// The agents that can be compared, each in a few words: the server writes them into the page.

const told = /** @type {HTMLTemplateElement} */ (document.getElementById("agents"));
const found = /** @type {HTMLDataElement[]} */ ([...told.content.children]);

/** `solves`: uses its time, proves a bound */
export const AGENTS = found.map((one) => ({ name: one.value, says: one.textContent ?? "", solves: "solves" in one.dataset }));

/** What is compared where nobody has chosen. */
export const USUAL = found.filter((one) => "usual" in one.dataset).map((one) => one.value);
