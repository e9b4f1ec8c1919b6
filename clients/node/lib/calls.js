// One call: its tries, the pauses between them, and whether it was applied (docs/client.md, "Deadlines and tries").
import grpc from "@grpc/grpc-js";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { CallError } from "./errors.js";

const RANK = { NO: 0, MAYBE: 1, YES: 2 };
const TEMPORARY = new Set(["RESOURCE_EXHAUSTED", "INTERNAL", "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED"]);
const TRY_MIN_MS = 20, TRY_MAX_MS = 1500, PAUSE_MIN_MS = 10, PAUSE_MAX_MS = 640, CONNECT_MS = 200, WHY_MS = 200;
const DEADLINE_MAX_MS = 30 * 86400000; // grpc-js throws outside of any promise for a deadline that is too far
// By default the pause between two connection attempts of grpc-js grows to two minutes. A lease must outlive a restart
// of the server.
const CHANNEL_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 200, "grpc.keepalive_time_ms": 10000,
  "grpc.keepalive_timeout_ms": 5000, "grpc.use_local_subchannel_pool": 1, "grpc.enable_retries": 0,
};

export const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
/** When a lease counts as lost, in ns: a tenth (1 s at most) before it can have ended. */
export const lostAt = (sentMs, leftMs) => BigInt(Math.round((sentMs + leftMs - Math.min(leftMs / 10, 1000)) * 1e6));
/** Whether a later try may succeed, because the refusal depends on the state of the server, not on the request. */
export const isTemporary = (error) => error.code === "UNAVAILABLE" || (TEMPORARY.has(error.code) && error.reason !== "too_large");
/** Throws TypeError for options that nobody takes: `const { known, ...rest } = options; none(rest);`. */
export function none(rest) {
  for (const name of Object.keys(rest)) throw new TypeError(`${name}: there is no such option`);
}
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** [{address, tls}] of "grpc://h1:7701,h2:7701", or of a list of such URLs. */
function parse(urls) {
  let scheme = "";
  const texts = [urls].flat();
  if (texts.length === 0 || !texts.every((url) => typeof url === "string"))
    throw new TypeError(`url: must be a string or an array of strings, not ${String(urls)}`);
  return texts.flatMap((url) => url.split(",")).map((part) => {
    const found = /^(?:(grpc|grpcs|grpc\+unix):\/\/)?(.+)$/.exec(part.trim());
    scheme = found?.[1] ?? scheme;
    if (!found || !scheme || found[2].includes("://") || (scheme !== "grpc+unix" && !/:\d+$/.test(found[2])))
      throw new TypeError(`url: ${part} is not grpc://HOST:PORT, grpcs://HOST:PORT or grpc+unix:///PATH`);
    return { address: (scheme === "grpc+unix" ? "unix:" : "") + found[2], tls: scheme === "grpcs" };
  });
}

// google.rpc.Status and two of its details, by field number.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0, shift = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
      shift *= 128;
    }
  };
  while (at < bytes.length) {
    const tag = varint(), value = varint();
    if ((tag & 7) === 2) yield [tag >>> 3, bytes.subarray(at, at += value)];
  }
}
const field = (bytes, number) => [...fields(bytes)].find(([found]) => found === number)?.[1] ?? Buffer.alloc(0);

function details(bytes) {
  const told = { reason: "", field: "" };
  for (const [number, any] of fields(bytes ?? Buffer.alloc(0))) {
    const type = number === 3 ? field(any, 1).toString() : "";
    if (type.endsWith("google.rpc.ErrorInfo")) told.reason = field(field(any, 2), 1).toString();
    if (type.endsWith("google.rpc.BadRequest")) told.field = field(field(field(any, 2), 1), 1).toString();
  }
  return told;
}

/** Converts an error of grpc-js to an error of this package. `applied` is MAYBE unless the server said otherwise. */
function errorOf(error) {
  const trailers = error.metadata ?? new grpc.Metadata();
  const code = grpc.status[error.code] ?? "UNKNOWN";
  const said = trailers.get("lockstock-applied")[0];
  const told = details(trailers.get("grpc-status-details-bin")[0]);
  if (!said && code === "UNAVAILABLE") told.reason = "connection_lost";
  if (!said && code === "DEADLINE_EXCEEDED") told.reason = "deadline_exceeded";
  const after = trailers.get("retry-after-ms")[0];
  return new CallError(error.details || code, { ...told, code, applied: said ?? "MAYBE", retryAfterMs: after && Number(after) });
}

function checkTimeout(ms) {
  if (typeof ms !== "number" || !(ms > 0)) throw new TypeError(`timeoutMs: must be a number above 0, not ${String(ms)}`);
}
/** A bigint as a number. Another value is returned unchanged: a request refuses it if it is wrong. */
export const numberOf = (value) => typeof value === "bigint" ? Number(value) : value;
/** A number of milliseconds that is in no request. */
export function durationOf(what, ms) {
  const found = numberOf(ms);
  if (typeof found !== "number" || !(found >= 0)) throw new TypeError(`${what}: must be a number of milliseconds, not ${String(ms)}`);
  return found;
}

const isSet = (message, [name, ...rest]) => rest.length === 0 ? Boolean(message[name])
  : message[name].length > 0 && message[name].every((one) => isSet(one, rest));

/** Makes calls to equal servers: uses one server until it fails. */
function unreachable(servers, why) {
  const names = servers.map(({ address }) => address).join(", ");
  return new CallError(`no server can be reached: ${names}${why && `: ${why}`}`, { code: "UNAVAILABLE", reason: "server_unreachable" });
}

/** A value of the metadata. The message does not have it: it may be secret. */
function word(what, value) {
  if (typeof (value ?? "") !== "string") throw new TypeError(`${what}: must be a string`);
  const found = (value ?? "").trim();
  if (!/^[ -~]*$/.test(found)) throw new TypeError(`${what}: must be one line of ASCII`);
  return found;
}

export class Caller {
  constructor({ urls, token, namespace, timeoutMs = 5000, caFile, certificateFile, keyFile, serverName }) {
    const read = (file) => file ? readFileSync(file) : null;
    const addresses = parse(urls), plain = addresses.find(({ tls }) => !tls);
    checkTimeout(timeoutMs);
    if (Boolean(certificateFile) !== Boolean(keyFile)) throw new TypeError("certificateFile: must be given together with keyFile");
    for (const [name, value] of Object.entries({ caFile, certificateFile, serverName }))
      if (plain && value) throw new TypeError(`${name}: needs grpcs://, which ${plain.address} is not`);
    Object.assign(this, { token, namespace: word("namespace", namespace), timeoutMs, current: 0 });
    if (typeof token !== "function") word("token", token);
    this.servers = addresses.map(({ address, tls }) => ({ address, client: new grpc.Client(address,
      tls ? grpc.credentials.createSsl(read(caFile), read(keyFile), read(certificateFile)) : grpc.credentials.createInsecure(),
      { ...CHANNEL_OPTIONS, ...(serverName ? { "grpc.ssl_target_name_override": serverName } : {}) }) }));
  }

  /** A connected server, or undefined; makes the others connect. */
  connected() {
    for (let at = 0; at < this.servers.length; at++) {
      const index = (this.current + at) % this.servers.length;
      if (this.servers[index].client.getChannel().getConnectivityState(true) === grpc.connectivityState.READY) {
        this.current = index;
        return this.servers[index];
      }
    }
    return undefined;
  }

  /** A connected server; undefined after `ms`. */
  async choose(ms) {
    const until = nowMs() + ms;
    for (;;) {
      const server = this.connected();
      if (server) return server;
      const left = until - nowMs();
      if (left <= 0 || this.closed) return undefined;
      await this.changed(Math.min(left, CONNECT_MS));
    }
  }

  /** Waits until a server's state has changed, at most `ms`. */
  changed(ms) {
    return new Promise((done) => {
      for (const { client } of this.servers) {
        const channel = client.getChannel();
        channel.watchConnectivityState(channel.getConnectivityState(true), Date.now() + ms, () => done());
      }
    });
  }

  /** Why the last server is not connected; "" when unknown. Makes a call that changes nothing, and uses its error. */
  async why() {
    const call = { path: "/grpc.health.v1.Health/Check", encode: (bytes) => bytes, decode: (bytes) => bytes };
    const error = await this.send(this.servers[this.current], call, Buffer.alloc(0), WHY_MS).catch((failure) => failure);
    return /Last error: (?:Error: )?(.*?)\.? Resolution note:/.exec(error.message)?.[1] ?? "";
  }

  fails(server) {
    this.current = (this.servers.indexOf(server) + 1) % this.servers.length;
  }

  metadata(token) {
    const metadata = new grpc.Metadata();
    if (this.namespace) metadata.set("lockstock-namespace", this.namespace);
    const secret = word("token", token);
    if (secret) metadata.set("authorization", `Bearer ${secret}`);
    return metadata;
  }

  async send(server, method, request, ms, signal) {
    const metadata = this.metadata(typeof this.token === "function" ? await this.token() : this.token);
    return new Promise((done, failed) => {
      const cancel = () => call.cancel();
      const call = server.client.makeUnaryRequest(method.path, method.encode, method.decode, request, metadata,
        { deadline: Date.now() + Math.min(ms, DEADLINE_MAX_MS) }, (error, answer) => {
          signal?.removeEventListener("abort", cancel);
          if (error) failed(errorOf(error));
          else done(answer);
        });
      signal?.addEventListener("abort", cancel);
    });
  }

  /** {answer, doubt}; doubt: an earlier, unanswered try may have been applied. Rejects with CallError, or the
   * signal's reason. */
  async callTold(method, request, { timeoutMs, insist = false, signal, ...rest } = {}) {
    none(rest);
    if (timeoutMs !== undefined) checkTimeout(timeoutMs);
    if (method.fills && !isSet(request, method.naturalId)) request[method.naturalId[0]] = randomBytes(16).toString("hex");
    const repeats = method.reads || (method.naturalId.length > 0 && isSet(request, method.naturalId));
    const wait = method.waits ? Number(request.waitMs) : 0;
    const deadline = nowMs() + (timeoutMs ?? this.timeoutMs + wait);
    let applied = "NO", pauseMs = PAUSE_MIN_MS;
    let error;
    for (;;) {
      this.throwAborted(signal, applied);
      if (this.closed) throw new CallError("the client is closed", { code: "CANCELLED", applied });
      const left = deadline - nowMs();
      const server = this.connected() ?? await this.choose(left);
      if (!server) throw Object.assign(error ?? unreachable(this.servers, await this.why()), { applied });
      const most = !repeats ? left : wait ? wait + 1000 : Math.max(TRY_MIN_MS, Math.min(left / 2, TRY_MAX_MS));
      try {
        return { answer: await this.send(server, method, request, Math.min(left, most), signal), doubt: applied !== "NO" };
      } catch (failure) {
        error = failure;
      }
      this.throwAborted(signal, "MAYBE");
      const lost = error.code === "UNAVAILABLE" || error.reason === "deadline_exceeded";
      if (lost) this.fails(server);
      const again = (lost && (error.applied === "NO" || repeats)) || (insist && error.applied === "NO" && isTemporary(error));
      if (RANK[error.applied] < RANK[applied]) error.applied = applied;
      applied = error.applied;
      if (applied !== "NO" && method.firstTry) request[method.firstTry] = false;
      const pause = pauseMs * (0.5 + Math.random() / 2) + (error.retryAfterMs ?? 0);
      pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
      if (!again || pause >= deadline - nowMs()) throw error;
      await sleep(pause);
    }
  }

  throwAborted(signal, applied) {
    if (signal?.aborted) throw Object.assign(new Error("the call was cancelled", { cause: signal.reason }),
      { name: "AbortError", code: "CANCELLED", applied });
  }

  async call(method, request, options) {
    return (await this.callTold(method, request, options)).answer;
  }

  close() {
    this.closed = true;
    for (const { client } of this.servers) client.close();
  }
}
