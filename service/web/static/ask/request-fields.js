// Whose request it is: tenant, queue, weight, priority, and an id of its own.
import { make } from "../core/dom.js";
import { field, filled, select } from "../core/form.js";

export class RequestFields {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {string[]} tenants that are known
   * @param {{tenant: string, queue: string, weight: string, priority: string, id: string}} shown as the address has it
   */
  constructor({ user, cluster }, tenants, shown) {
    const queues = (cluster.queues ?? []).map((/** @type {any} */ one) => one.name);
    this.tenant = user.seesAll ? freeTenant(tenants, shown.tenant) : select(user.tenants, shown.tenant || user.tenants[0]);
    this.queue = select(queues.length ? queues : [["", "the cluster has none"]], shown.queue || queues[0] || "");
    this.weight = make("input", { inputmode: "decimal", size: "4", value: shown.weight, placeholder: "1" });
    this.priority = make("input", { inputmode: "numeric", size: "4", value: shown.priority, placeholder: "0" });
    this.id = make("input", { size: "14", value: shown.id, placeholder: "made by the server", autocomplete: "off", spellcheck: "false" });
    this.element = make("div", { class: "fields" },
      field("Tenant", this.tenant), field("Queue", this.queue), field("Weight", this.weight), field("Priority", this.priority), field("Id", this.id));
  }

  /** What the address keeps. */
  get shown() {
    const [tenant, weight, priority, id] = [this.tenant, this.weight, this.priority, this.id].map((one) => one.value.trim());
    return { tenant, queue: this.queue.value, weight, priority, id };
  }

  /** The body of a request; fields that are empty stay out. @param {string} rdl */
  bodyOf(rdl) {
    const given = {
      id: filled(this.id), tenant: filled(this.tenant), queue: this.queue.value || undefined,
      weight: numberIn(filled(this.weight)), priority: numberIn(filled(this.priority)), rdl,
    };
    return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  }
}

/** A number where it is one; else the server says what is wrong with it. @param {string|undefined} text */
const numberIn = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

/** @param {string[]} tenants @param {string} value */
function freeTenant(tenants, value) {
  const input = make("input", { size: "12", value: value || tenants[0] || "", list: "tenants-known", autocomplete: "off", spellcheck: "false" });
  document.body.append(make("datalist", { id: "tenants-known" }, ...tenants.map((name) => make("option", { value: name }))));
  return input;
}
