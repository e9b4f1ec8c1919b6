// Reads a google.protobuf.FileDescriptorSet, as far as forms need it: services, messages and enums.
// The numbers of fields are those of google/protobuf/descriptor.proto.

// The fields of a message as [number, value]; a value is a number, or bytes.
function* fieldsOf(bytes) {
  let at = 0
  const varint = () => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++]
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const type = tag & 7
    if (type === 0) yield [tag >>> 3, varint()]
    else if (type === 2) {
      const length = varint()
      yield [tag >>> 3, bytes.subarray(at, at += length)]
    } else at += type === 1 ? 8 : 4
  }
}

const text = (bytes) => new TextDecoder().decode(bytes)

// { name: [number, read] } or { name: [number, read, 'many'] }.
function message(bytes, shape) {
  const found = {}
  for (const [name, [, , many]] of Object.entries(shape)) found[name] = many ? [] : undefined
  for (const [number, value] of fieldsOf(bytes)) {
    for (const [name, [wanted, read, many]] of Object.entries(shape)) {
      if (number !== wanted) continue
      if (many) found[name].push(read(value))
      else found[name] = read(value)
    }
  }
  return found
}

const same = (value) => value
const EFFECT = 50701 // lockstock.rpc.v1.effect
const READ = 1
const field = (b) => message(b, { name: [1, text], label: [4, same], type: [5, same], typeName: [6, text], jsonName: [10, text] })
const enumeration = (b) => message(b, { name: [1, text], values: [2, (v) => message(v, { name: [1, text] }).name, 'many'] })
const type = (b) => message(b, { name: [1, text], fields: [2, field, 'many'] })
const method = (b) => message(b, { name: [1, text], input: [2, text], options: [4, (v) => message(v, { effect: [EFFECT, same] })], streamsIn: [5, same], streamsOut: [6, same] })
const service = (b) => message(b, { name: [1, text], methods: [2, method, 'many'] })
const file = (b) => message(b, { package: [2, text], messages: [4, type, 'many'], enums: [5, enumeration, 'many'], services: [6, service, 'many'] })

// Returns { methods: [{ name: "LockService/List", input, reads }], types, enums }; types and enums by full name.
export function readContract(bytes) {
  const { files } = message(bytes, { files: [1, file, 'many'] })
  const types = new Map()
  const enums = new Map()
  const methods = []
  for (const each of files) {
    const prefix = each.package ? `.${each.package}` : ''
    for (const m of each.messages) types.set(`${prefix}.${m.name}`, m)
    for (const e of each.enums) enums.set(`${prefix}.${e.name}`, e.values)
    if (each.package !== 'lockstock.v1') continue
    for (const s of each.services) {
      for (const m of s.methods) methods.push({ name: `${s.name}/${m.name}`, input: m.input, reads: m.options?.effect === READ })
    }
  }
  return { methods, types, enums }
}
