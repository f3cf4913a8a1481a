// Who looks at the page, and what that user may do: what it may not do is not offered.
import { read } from "./api.js";

const RANKS = { user: 1, operator: 2, admin: 3 };

/** @typedef {"user"|"operator"|"admin"} Role */

export class Caller {
  /** @param {{name: string, role: Role, tenants: string[], all_tenants: boolean, auth: string, now_at: string}} body */
  constructor(body) {
    this.name = body.name;
    this.role = body.role;
    this.tenants = body.tenants;
    this.seesAll = body.all_tenants;
    /** The server's clock when it was asked, Unix milliseconds. */
    this.nowMs = Date.parse(body.now_at);
    this.asksTokens = body.auth === "token";
  }

  /** Whether its role is that role or a higher one. @param {Role} role */
  may(role) {
    return RANKS[this.role] >= RANKS[role];
  }

  /** Whether it may change what belongs to a tenant. @param {string} tenant */
  actsFor(tenant) {
    return this.seesAll || this.tenants.includes(tenant);
  }
}

/** @returns {Promise<Caller>} */
export const readCaller = async () => new Caller(await read("/v1/user"));
