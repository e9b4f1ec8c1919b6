// Writes calls.d.ts, the types of `calls`, from the descriptors: node types.js FILE. Part of the build, not of the
// package.
import { ScalarType } from "@bufbuild/protobuf";
import { writeFileSync } from "node:fs";
import { registry, services } from "./lib/contract.js";

const INT64 = new Set([ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64, ScalarType.SFIXED64]);
const asked = new Map(), answered = new Map(); // messages of requests and of answers, by the name of their interface

function scalar(type, isRequest) {
  if (INT64.has(type)) return isRequest ? "number | bigint" : "bigint";
  return { [ScalarType.STRING]: "string", [ScalarType.BYTES]: "Uint8Array", [ScalarType.BOOL]: "boolean" }[type] ?? "number";
}

/** Messages have a separate interface for requests, in which fields may be left out and int64 may be a number. */
function message(desc, isRequest) {
  const name = isRequest && !desc.name.endsWith("Request") ? `${desc.name}Init` : desc.name;
  (isRequest ? asked : answered).set(name, desc);
  return name;
}

function element(field, isRequest) {
  if (field.message) return message(field.message, isRequest);
  return field.enum ? field.enum.values.map(({ number }) => number).join(" | ") : scalar(field.scalar, isRequest);
}

function typeOf(field, isRequest) {
  const type = element(field, isRequest);
  return field.fieldKind === "list" ? (type.includes(" ") ? `(${type})[]` : `${type}[]`) : type;
}

function members(desc, isRequest) {
  const lines = [];
  for (const field of desc.fields.filter(({ oneof }) => !oneof)) {
    if (field.enum) lines.push(`  /** ${field.enum.values.map(({ number, localName }) => `${number} ${localName}`).join(", ")} */`);
    const isOptional = isRequest || (field.message && field.fieldKind !== "list");
    lines.push(`  ${field.localName}${isOptional ? "?" : ""}: ${typeOf(field, isRequest)};`);
  }
  for (const oneof of desc.oneofs) {
    const cases = oneof.fields.map((field) => `{ case: "${field.localName}"; value: ${typeOf(field, isRequest)} }`);
    lines.push(`  ${oneof.localName}${isRequest ? "?" : ""}: ${[...cases, "{ case: undefined; value?: undefined }"].join(" | ")};`);
  }
  return lines;
}

const lines = [`// Made of lockstock's .proto files, which say what each field means.
export interface CallOptions { timeoutMs?: number; insist?: boolean; signal?: AbortSignal }

/** Each method of each service. An unknown field of a request is a TypeError. */
export interface Calls {`];
for (const [service, methods] of Object.entries(services)) {
  lines.push(`  ${service}: {`);
  for (const [name, { path, input }] of Object.entries(methods)) {
    const { output } = registry.getService(path.split("/")[1]).method[name];
    lines.push(`    ${name}(request?: ${message(input, true)}, options?: CallOptions): Promise<${message(output, false)}>;`);
  }
  lines.push("  };");
}
lines.push("}");
for (const [messages, isRequest] of [[asked, true], [answered, false]])
  for (const [name, desc] of messages) lines.push(`export interface ${name} {`, ...members(desc, isRequest), "}"); // and adds those inside
writeFileSync(process.argv[2], lines.join("\n") + "\n");
