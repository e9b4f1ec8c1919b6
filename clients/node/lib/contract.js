// The methods of lockstock's .proto files, from the descriptors that protoc wrote into lockstock.binpb.
import { create, createFileRegistry, fromBinary, getOption, ScalarType, toBinary } from "@bufbuild/protobuf";
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

const INT64 = new Set([ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64, ScalarType.SFIXED64]);
const UNSIGNED = new Set([ScalarType.UINT64, ScalarType.FIXED64, ScalarType.UINT32, ScalarType.FIXED32]);

/** Whether a value is a whole number of the type; undefined: of an enum. */
function isWhole(type, value) {
  const bits = INT64.has(type) ? 64 : 32;
  if (!Number.isSafeInteger(value) && (bits === 32 || typeof value !== "bigint")) return false;
  return BigInt(value) === (UNSIGNED.has(type) ? BigInt.asUintN(bits, BigInt(value)) : BigInt.asIntN(bits, BigInt(value)));
}

/** What a value must be, if it is not. A text with half a character would be sent as another text. */
function wrong(field, value) {
  if (field.message) return undefined;
  if (field.scalar === ScalarType.STRING)
    return typeof value !== "string" ? "a string" : /\p{Surrogate}/u.test(value) ? "well-formed Unicode" : undefined;
  if (field.scalar === ScalarType.BYTES) return value instanceof Uint8Array ? undefined : "a Uint8Array";
  if (field.scalar === ScalarType.BOOL) return typeof value === "boolean" ? undefined : "a boolean";
  if (field.scalar === ScalarType.DOUBLE) return typeof value === "number" ? undefined : "a number";
  return isWhole(field.scalar, value) ? undefined : "a whole number in its range";
}

function checkField(field, value, path) {
  const kind = wrong(field, value);
  if (kind) throw new TypeError(`${path}: must be ${kind}`);
  if (field.message) check(field.message, value, path);
}

/** Throws TypeError for a name that the message does not have, which would otherwise be dropped silently, and for a value of another
 * type. */
function check(desc, value, path) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError(`${path}: must be an object`);
  for (const [name, one] of Object.entries(value)) {
    if (name.startsWith("$")) continue;
    const given = one !== undefined && one !== null;
    const at = path ? `${path}.${name}` : name;
    const oneof = desc.oneofs.find((group) => group.localName === name);
    if (oneof && !given) continue;
    if (oneof) {
      const field = oneof.fields.find((member) => member.localName === one?.case);
      if (!field) throw new TypeError(`${at}.case: ${desc.name} has no field ${one?.case}`);
      checkField(field, one.value, `${at}.value`);
      continue;
    }
    const field = desc.fields.find((member) => member.localName === name && !member.oneof);
    if (!field) throw new TypeError(`${at}: ${desc.name} has no such field`);
    if (!given) continue;
    if (field.fieldKind !== "list") checkField(field, one, at);
    else if (!Array.isArray(one)) throw new TypeError(`${at}: must be an array`);
    else one.forEach((element, index) => checkField(field, element, `${at}[${index}]`));
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
    if (value === undefined || value === null) continue;
    const one = (element) => field.message ? big(field.message, element)
      : typeof element === "number" && INT64.has(field.scalar) ? BigInt(element) : element;
    made[field.localName] = field.fieldKind === "list" ? value.map(one) : one(value);
  }
  for (const oneof of desc.oneofs) {
    const value = made[oneof.localName];
    const field = value && oneof.fields.find((member) => member.localName === value.case);
    if (field?.message) made[oneof.localName] = { case: value.case, value: big(field.message, value.value) };
  }
  return made;
}
