// The methods of lockstock's .proto files, from the descriptors that protoc wrote into lockstock.binpb.
import { create, createFileRegistry, fromBinary, getOption, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { readFileSync } from "node:fs";

export const registry = createFileRegistry(
  fromBinary(FileDescriptorSetSchema, readFileSync(new URL("./lockstock.binpb", import.meta.url))));
const option = (name) => registry.getExtension(`lockstock.rpc.v1.${name}`);
const [EFFECT, NATURAL_ID, FIRST_TRY] = ["effect", "natural_id", "first_try"].map(option);
const READ = 1;
const FILL_RANDOM = 1;

const localName = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

function methodOf(service, method) {
  const natural = getOption(method, NATURAL_ID);
  return {
    path: `/${service.typeName}/${method.name}`,
    input: method.input,
    encode: (message) => Buffer.from(toBinary(method.input, message)),
    decode: (bytes) => fromBinary(method.output, bytes),
    reads: getOption(method, EFFECT) === READ,
    naturalId: natural.field ? natural.field.split(".").map(localName) : [],
    fills: natural.fill === FILL_RANDOM,
    firstTry: method.input.fields.find((field) => getOption(field, FIRST_TRY))?.localName,
    waits: method.input.fields.some((field) => field.name === "wait_ms"),
  };
}

/** {lock: {acquire: method, ...}, stock: ..., idempotency, rateLimit, id, guard, admin} */
export const services = {};
for (const type of registry) {
  if (type.kind !== "service" || !type.typeName.startsWith("lockstock.v1.")) continue;
  const name = type.typeName.replace("lockstock.v1.", "").replace("Service", "");
  services[name[0].toLowerCase() + name.slice(1)] = Object.fromEntries(
    type.methods.map((method) => [method.localName, methodOf(type, method)]));
}

/** Throws TypeError for a name that the message does not have, which would otherwise be dropped silently. */
function check(desc, value, path) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError(`${path}: must be an object`);
  for (const [name, one] of Object.entries(value)) {
    if (name.startsWith("$")) continue;
    const at = path ? `${path}.${name}` : name;
    const oneof = desc.oneofs.find((group) => group.localName === name);
    if (oneof) {
      const field = oneof.fields.find((member) => member.localName === one?.case);
      if (!field) throw new TypeError(`${at}.case: ${desc.name} has no field ${one?.case}`);
      if (field.message) check(field.message, one.value, `${at}.value`);
      continue;
    }
    const field = desc.fields.find((member) => member.localName === name && !member.oneof);
    if (!field) throw new TypeError(`${at}: ${desc.name} has no such field`);
    if (one === undefined || !field.message) continue;
    if (field.fieldKind === "list") one.forEach((element, index) => check(field.message, element, `${at}[${index}]`));
    else check(field.message, one, at);
  }
}

/** A request, with numbers where the contract has int64. */
export function requestOf(method, init) {
  check(method.input, init, "");
  return create(method.input, big(method.input, init));
}

function big(desc, init) {
  const made = { ...init };
  for (const field of desc.fields) {
    const value = made[field.localName];
    if (value === undefined) continue;
    const one = (element) => field.message ? big(field.message, element)
      : typeof element === "number" && (field.scalar === 3 || field.scalar === 4) ? BigInt(element) : element;
    made[field.localName] = field.fieldKind === "list" ? value.map(one) : one(value);
  }
  for (const oneof of desc.oneofs) {
    const value = made[oneof.localName];
    const field = value && oneof.fields.find((member) => member.localName === value.case);
    if (field?.message) made[oneof.localName] = { case: value.case, value: big(field.message, value.value) };
  }
  return made;
}
