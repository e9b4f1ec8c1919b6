#!/usr/bin/env python3
"""rpc/json beside Google's json_format: random messages of every type of the contract, and of types with every kind of
field, are printed by one and read by the other, both ways.

    json_mapping.py JSON_PEER PROTO_DIR TESTS_UNIT_DIR
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.descriptor import FieldDescriptor
except ImportError:
    print("skipped: python3-protobuf is not installed")
    sys.exit(77)

PEER, PROTO_DIR, UNIT_DIR = sys.argv[1:4]
SOAK = "LOCKSTOCK_SOAK" in os.environ
ROUNDS = 300 if SOAK else 8
ROUNDS_EVERYTHING = 20000 if SOAK else 300
SEED = int(os.environ.get("LOCKSTOCK_SEED", random.randrange(2**32)))
TEXTS = ["", "a", "phone", "naïve", "\U0001f512", "\"\\/\b\f\n\r\t", "\x01\x1f\x7f", "x" * 300, "\u2028"]


def ints(bits, signed):
    low, high = (-(2**(bits - 1)), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda rng: rng.choice([0, 1, low, high, rng.randint(low, high), max(low, -1), min(high, 2**53 + 1)])


def real(number):
    """There is one NaN in JSON."""
    return math.nan if math.isnan(number) else number


def float32(rng):
    return real(struct.unpack("<f", struct.pack("<I", rng.getrandbits(32)))[0])


def float64(rng):
    return real(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0])


F = FieldDescriptor
SCALARS = {
    F.TYPE_INT32: ints(32, True), F.TYPE_SINT32: ints(32, True), F.TYPE_SFIXED32: ints(32, True),
    F.TYPE_UINT32: ints(32, False), F.TYPE_FIXED32: ints(32, False),
    F.TYPE_INT64: ints(64, True), F.TYPE_SINT64: ints(64, True), F.TYPE_SFIXED64: ints(64, True),
    F.TYPE_UINT64: ints(64, False), F.TYPE_FIXED64: ints(64, False),
    F.TYPE_FLOAT: lambda rng: rng.choice([0.0, -0.0, 0.1, 1.5, -2e-30, math.inf, -math.inf, math.nan, 16777216.0, float32(rng)]),
    F.TYPE_DOUBLE: lambda rng: rng.choice([0.0, -0.0, 0.1, 1e21, 1e300, math.inf, -math.inf, math.nan, 5e-324, float64(rng)]),
    F.TYPE_BOOL: lambda rng: rng.random() < 0.5,
    F.TYPE_STRING: lambda rng: rng.choice(TEXTS),
    F.TYPE_BYTES: lambda rng: rng.randbytes(rng.choice([0, 1, 2, 3, 4, 57])),
}


def scalar(field, rng):
    if field.type == F.TYPE_ENUM:
        numbers = [value.number for value in field.enum_type.values]
        return rng.choice(numbers + ([77] if field.file.name == "json.proto" else []))
    value = SCALARS[field.type](rng)
    # protobuf-c does not send -0.0 unless it is an element.
    return abs(value) if value == 0 and isinstance(value, float) and field.label != F.LABEL_REPEATED else value


def any_value(rng, depth=0):
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind < 4:
        return [None, rng.choice([0, -1.5, 1e300, 2**53]), rng.choice(TEXTS), rng.random() < 0.5][kind]
    if kind == 4:
        return [any_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(TEXTS): any_value(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def nanos(rng):
    return rng.choice([0, 500000000, 1000, 999999999, rng.randrange(10**9)])


def fill_well_known(message, rng):
    """Fills a message that has a special JSON form; returns whether it has one."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = rng.choice([0, -62135596800, 253402300799, rng.randrange(-62135596800, 253402300799)]), nanos(rng)
    elif name == "google.protobuf.Duration":
        sign = rng.choice([1, -1])
        message.seconds, message.nanos = sign * rng.choice([0, 1, 315575999999, rng.randrange(10**9)]), sign * nanos(rng)
    elif name == "google.protobuf.FieldMask":
        message.paths.extend(rng.sample(["a", "unit_price", "lines.unit_price", "a1.b_c_d"], rng.randint(0, 4)))
    elif name == "google.protobuf.Struct":
        json_format.ParseDict({rng.choice(TEXTS): any_value(rng) for _ in range(3)}, message)
    elif name == "google.protobuf.ListValue":
        json_format.ParseDict([any_value(rng) for _ in range(3)], message)
    elif name == "google.protobuf.Value":
        json_format.ParseDict(any_value(rng), message)
    else:
        return False
    return True


def fill(message, rng, depth=0):
    if fill_well_known(message, rng):
        return
    for field in message.DESCRIPTOR.fields:
        if rng.random() < (0.3 if depth == 0 else 0.6) and field.label != F.LABEL_REQUIRED:
            continue
        if field.message_type and (depth > 3):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            for _ in range(rng.randint(0, 3)):
                at = getattr(message, field.name)
                if value.message_type:
                    fill(at[scalar(key, rng)], rng, depth + 1)
                else:
                    at[scalar(key, rng)] = scalar(value, rng)
        elif field.label == F.LABEL_REPEATED:
            for _ in range(rng.randint(0, 3)):
                if field.message_type:
                    fill(getattr(message, field.name).add(), rng, depth + 1)
                else:
                    getattr(message, field.name).append(scalar(field, rng))
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), rng, depth + 1)
        else:
            setattr(message, field.name, scalar(field, rng))


class Peer:
    def __init__(self):
        self.process = subprocess.Popen([PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n")

    def print(self, message, flags="-"):
        answer = self.ask(f"print {message.DESCRIPTOR.full_name} {flags} {message.SerializeToString().hex()}")
        assert answer.startswith("ok "), answer
        return answer[3:]

    def parse(self, message_class, text):
        answer = self.ask(f"parse {message_class.DESCRIPTOR.full_name} {text.encode().hex()}")
        assert answer.startswith("ok "), f"{answer}\n{text}"
        return message_class.FromString(bytes.fromhex(answer[3:]))

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


def bytes_of(message):
    return message.SerializeToString(deterministic=True)


class Mapping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile(suffix=".bin") as out:
            subprocess.run(["protoc", f"--proto_path={PROTO_DIR}", f"--proto_path={UNIT_DIR}", "--include_imports",
                            f"--descriptor_set_out={out.name}", "json.proto", "scan.proto", "well_known.proto",
                            *[f"lockstock/v1/{name}.proto" for name in
                              ("admin", "guard", "id", "idempotency", "lock", "ratelimit", "stock")]], check=True)
            files = descriptor_pb2.FileDescriptorSet.FromString(out.read())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        factory = message_factory.MessageFactory(pool)
        cls.peer = Peer()
        cls.classes = {}
        for name in cls.peer.ask("types").split():
            found = pool.FindMessageTypeByName(name)
            if not found.GetOptions().map_entry:
                cls.classes[name] = factory.GetPrototype(found)
        # The request and response types, which the peer found itself, are all types of the files.
        cls.missing = [f"{file.package}.{m.name}" for file in files.file for m in file.message_type
                       if file.package == "lockstock.v1" and f"{file.package}.{m.name}" not in cls.classes]

    @classmethod
    def tearDownClass(cls):
        status = cls.peer.end()
        assert status == 0, status

    def test_every_type_of_the_contract_is_known(self):
        self.assertEqual(self.missing, [])
        self.assertGreater(len(self.classes), 90)

    def both_ways(self, cls, rng):
        message = cls()
        fill(message, rng)
        for flags, defaults, names in (("-", False, False), ("d", True, False), ("o", False, True)):
            theirs = json_format.MessageToJson(message, including_default_value_fields=defaults,
                                               preserving_proto_field_name=names,
                                               indent=rng.choice([None, 2]), ensure_ascii=rng.random() < 0.5)
            ours = self.peer.print(message, flags)
            self.assertEqual(json.loads(ours), json.loads(theirs))
            read = message
            if defaults and message.DESCRIPTOR.file.name == "scan.proto":  # proto2: a default that is present is set
                read = json_format.Parse(theirs, cls())
            self.assertEqual(bytes_of(json_format.Parse(ours, cls())), bytes_of(read))
            self.assertEqual(bytes_of(self.peer.parse(cls, theirs)), bytes_of(read), theirs)

    def test_round_trips(self):
        for name, cls in self.classes.items():
            everything = name in ("lockstock.test.json.Everything", "lockstock.test.Kinds", "lockstock.test.json.WellKnown")
            for i in range(ROUNDS_EVERYTHING if everything else ROUNDS):
                with self.subTest(type=name, seed=SEED, round=i):
                    self.both_ways(cls, random.Random(f"{SEED} {name} {i}"))

    def test_both_refuse_the_same_values(self):
        cls = self.classes["lockstock.test.json.Everything"]
        for text in ('{"anInt32":2147483648}', '{"anInt32":1.5}', '{"aUint32":-1}', '{"aUint64":"18446744073709551616"}',
                     '{"anInt64":"x"}', '{"aBool":1}', '{"aBool":"true"}', '{"someText":1}', '{"nothing":1}',
                     '{"aShape":"SQUARE"}', '{"inners":{}}', '{"numbers":[null]}', '{"word":"a","raw":""}',
                     '{"countsByName":{"a":null}}', '{"names":{"x":"a"}}', '{"byBool":{"1":2}}', '{"aFloat":1e39}',
                     '{"aFloat":"nan"}', '{"anInt32":true}', '{"anInt32":"1 "}', '{"someBytes":"a"}',
                     '{"anInt32":1,"anInt32":2}'):
            with self.subTest(text=text):
                with self.assertRaises(json_format.ParseError):
                    json_format.Parse(text, cls())
                self.assertRegex(self.peer.ask(f"parse {cls.DESCRIPTOR.full_name} {text.encode().hex()}"), "^error ")

    def test_well_known_texts(self):
        cls = self.classes["lockstock.test.json.WellKnown"]
        for text in ("2026-11-27T09:00:00+01:00", "2024-02-29T23:59:59.000000001Z", "0001-01-01T00:00:00Z",
                     "9999-12-31T23:59:59.999999999Z"):
            self.assertEqual(self.peer.parse(cls, f'{{"time":"{text}"}}'), json_format.Parse(f'{{"time":"{text}"}}', cls()))
        for text in ("315576000000.999999999s", "-315576000000.999999999s", "-0.5s"):
            self.assertEqual(self.peer.parse(cls, f'{{"spans":["{text}"]}}'), json_format.Parse(f'{{"spans":["{text}"]}}', cls()))
        times = ["2026-11-27t09:00:00Z", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-27T24:00:00Z", "2026-11-27",
                 "2026-11-27T09:00:00", "2026-11-27T09:00:00.Z", "2026-11-27T09:00:00.1234567890Z", "0001-01-01T00:00:00+01:00",
                 "2026-11-27T09:00:00Z ", "", "2026-11-27T09:00:00+1:00"]
        spans = ["1", "1.5", "s", "--1s", "1.s", "315576000001s", "1.0000000000s", " 1s", "1e3s", ""]
        for text in [*(f'{{"time":"{t}"}}' for t in times), *(f'{{"spans":["{s}"]}}' for s in spans), '{"time":1}', '{"mask":"a_b"}',
                     '{"mask":["a"]}', '{"object":[]}', '{"object":null,"list":{}}', '{"number":{"value":1}}', '{"flag":"true"}',
                     '{"spans":[null]}', '{"times":{"a":null}}']:
            with self.subTest(text=text):
                self.assertRegex(self.peer.ask(f"parse {cls.DESCRIPTOR.full_name} {text.encode().hex()}"), "^error ")
        for text in ('{"value":"\\u007f5"}', '{"values":{"a":"\x7f"}}'):  # the parser marks numbers with that character
            self.assertEqual(self.peer.parse(cls, text), json_format.Parse(text, cls()))
        longest = "a" * 65536
        self.assertEqual(self.peer.parse(cls, f'{{"mask":"{longest}"}}').mask.paths, [longest])
        for path in ("a" * 65537, "A" * 40000):
            answer = self.peer.ask(f"parse {cls.DESCRIPTOR.full_name} " + f'{{"mask":"{path}"}}'.encode().hex())
            self.assertRegex(answer, "^error ")
        self.assertEqual(self.peer.print(cls.FromString(b"\x62\x03\x0a\x01k")), '{"times":{"k":"1970-01-01T00:00:00Z"}}')
        # Values without a text form are not printed.
        for message in (cls(time={"seconds": 253402300800}), cls(time={"nanos": -1}), cls(spans=[{"seconds": 1, "nanos": -1}]),
                        cls(mask={"paths": ["Upper"]}), cls(mask={"paths": ["a\tb"]}), cls(mask={"paths": ["a,b"]}), cls(value={}), cls(value={"number_value": math.nan})):
            answer = self.peer.ask(f"print {cls.DESCRIPTOR.full_name} - {message.SerializeToString().hex()}")
            self.assertRegex(answer, "^error ", message)

    def test_both_accept_the_same_values(self):
        cls = self.classes["lockstock.test.json.Everything"]
        for text in ('{"anInt32":1e3}', '{"anInt32":"1"}', '{"anInt32":-0}', '{"aUint64":"18446744073709551615"}',
                     '{"anInt64":9223372036854775807}', '{"anInt64":-9223372036854775808}', '{"aShape":1}', '{"aShape":77}',
                     '{"aDouble":"1.5"}', '{"aDouble":"-Infinity"}', '{"aDouble":3}', '{"aFloat":3.4028234e38}',
                     '{"someBytes":"-_-_"}', '{"someBytes":"+/+/"}', '{"someBytes":"YQ=="}', '{"someBytes":"YQ"}',
                     '{"an_int32":1}', '{"word":null,"number":"1"}', '{"inner":null}', '{"inners":null}', '{"names":{"-1":"a"}}',
                     '{"OddName1":"a","lineBreak":"b"}', '{"shapes":["SHAPE_ROUND",0]}', ' {\n} '):
            with self.subTest(text=text):
                self.assertEqual(bytes_of(self.peer.parse(cls, text)), bytes_of(json_format.Parse(text, cls())))


if __name__ == "__main__":
    print(f"LOCKSTOCK_SEED={SEED}", file=sys.stderr)
    unittest.main(argv=sys.argv[:1])
