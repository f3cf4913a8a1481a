// Whose request it is: tenant, queue, weight, and an id of its own.
import { make } from "../core/dom.js";
import { field, filled, select } from "../core/form.js";

export class RequestFields {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {string[]} tenants that are known
   * @param {{tenant: string, queue: string, weight: string, id: string}} shown as the address has it
   */
  constructor({ user, cluster }, tenants, shown) {
    const queues = (cluster.queues ?? []).map((/** @type {any} */ one) => one.name);
    this.tenant = user.seesAll ? freeTenant(tenants, shown.tenant) : select(user.tenants, shown.tenant || user.tenants[0]);
    this.queue = select(queues.length ? queues : [["", "the cluster has none"]], shown.queue || queues[0] || "");
    this.weight = make("input", { inputmode: "decimal", size: "4", value: shown.weight, placeholder: "1" });
    this.id = make("input", { size: "16", value: shown.id, placeholder: "made by the server", autocomplete: "off", spellcheck: "false" });
    this.element = make("div", { class: "fields" },
      field("Tenant", this.tenant), field("Queue", this.queue), field("Weight", this.weight), field("Id", this.id));
  }

  /** What the address keeps. */
  get shown() {
    return { tenant: this.tenant.value.trim(), queue: this.queue.value, weight: this.weight.value.trim(), id: this.id.value.trim() };
  }

  /** The body of a request; fields that are empty stay out. @param {string} rdl */
  bodyOf(rdl) {
    const [id, tenant, queue, weight] = [filled(this.id), filled(this.tenant), this.queue.value || undefined, filled(this.weight)];
    return {
      ...(id === undefined ? {} : { id }), ...(tenant === undefined ? {} : { tenant }), ...(queue === undefined ? {} : { queue }),
      ...(weight === undefined ? {} : { weight: Number.isFinite(Number(weight)) ? Number(weight) : weight }), rdl,
    };
  }
}

/** @param {string[]} tenants @param {string} value */
function freeTenant(tenants, value) {
  const input = make("input", { size: "12", value: value || tenants[0] || "", list: "tenants-known", autocomplete: "off", spellcheck: "false" });
  document.body.append(make("datalist", { id: "tenants-known" }, ...tenants.map((name) => make("option", { value: name }))));
  return input;
}
