// The declarations of bodies in index.d.ts, compared with the OpenAPI document of the repository: the same keys, of the
// same kinds, and missing only where the document allows it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const declarations = read("../src/index.d.ts");
const { schemas } = JSON.parse(read("../../../docs/openapi.json")).components;

// The names of those that the document calls differently.
const NAMES = { AuditEntry: "AuditView" };
// What the client adds of an answer's headers.
const ADDED = { Accepted: ["replayed"] };
const BODIES = [
  "Accepted",
  "TaskView",
  "StepView",
  "StepProgress",
  "FailureView",
  "BlockView",
  "AuditTrail",
  "AuditEntry",
  "AttemptView",
  "CancelAnswer",
  "ResultLink",
  "SignalAnswer",
  "TaskSummary",
];

/** The fields of an interface: of `name?: type;` the type, and whether it may be missing. */
function fields(name) {
  const [, body] = declarations.match(new RegExp(`export interface ${name} \\{\\n(.*?)\\n\\}`, "s")) ?? [];
  assert.ok(body, `there is no interface ${name}`);
  const found = {};
  for (const [, field, optional, type] of body.matchAll(/^ {2}(\w+)(\??): (.+);$/gm)) {
    found[field] = { optional: optional === "?", type };
  }
  return found;
}

/** What a schema is, behind its references and apart from null. */
function resolved(schema) {
  if (schema === true || schema === undefined) return {};
  if (schema.$ref) return resolved(schemas[schema.$ref.split("/").at(-1)]);
  const [some] = (schema.anyOf ?? schema.oneOf ?? []).filter((it) => it.type !== "null");
  return some && !schema.type ? resolved(some) : schema;
}

function kindOfSchema(schema) {
  const { type, enum: values, const: value } = resolved(schema);
  const kind = Array.isArray(type) ? type.find((it) => it !== "null") : type;
  if (kind === "integer") return "number";
  return kind ?? (values || value ? "string" : "any");
}

function kindOfType(type) {
  if (type.endsWith("[]")) return "array";
  if (type === "TaskStatus" || type.startsWith('"') || type === "string") return "string";
  if (["number", "boolean", "any"].includes(type)) return type;
  return "object";
}

for (const name of BODIES) {
  test(`${name} is what the document says`, () => {
    const schema = resolved({ $ref: `/${NAMES[name] ?? name}` });
    const own = fields(name);
    for (const added of ADDED[name] ?? []) {
      assert.ok(own[added], added);
      delete own[added];
    }
    assert.deepEqual(Object.keys(own).sort(), Object.keys(schema.properties).sort());
    for (const [field, { optional, type }] of Object.entries(own)) {
      assert.equal(!optional, schema.required.includes(field), `${field} is required or not`);
      const kind = kindOfSchema(schema.properties[field]);
      assert.equal(kindOfType(type), kind, `${field}: ${type}`);
    }
  });
}

test("every declared body is compared", () => {
  const all = [...declarations.matchAll(/^export interface (\w+) \{/gm)].map(([, name]) => name);
  const others = all.filter((name) => !name.endsWith("Options"));
  assert.deepEqual(others.sort(), [...BODIES].sort());
});

test("the states and the outcomes of a cancel are those of the document", () => {
  const values = (text) => [...text.matchAll(/"([a-z_-]+)"/g)].map(([, value]) => value).sort();
  const enums = (schema) => [...(schema.enum ?? schema.oneOf.map((it) => it.const))].sort();
  const [, states] = declarations.match(/export type TaskStatus =(.*?);/s);
  assert.deepEqual(values(states), enums(schemas.TaskStatus));
  assert.deepEqual(values(fields("CancelAnswer").outcome.type), enums(schemas.CancelOutcome));
});

test("a problem and the data of an event have the keys of the document", () => {
  for (const key of ["code", "detail", "pointer", "status"]) assert.ok(key in schemas.Problem.properties, key);
  const entry = Object.keys(fields("AuditEntry"));
  assert.deepEqual([...entry, "status"].sort(), Object.keys(schemas.AuditEvent.properties).sort());
  assert.deepEqual(Object.keys(schemas.ProgressEvent.properties), ["steps"]);
});
