/** A lockstockd for tests, with its own store, that can be made to fail. testing.d.ts describes the API. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectTo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FRAME_HEADER = 9; // of HTTP/2: length (3 bytes), type, flags, stream (4)
const [DATA, HEADERS] = [0, 1];

class Server {
  constructor(args, program) {
    Object.assign(this, { args, program, port: 0, losing: false, directory: mkdtempSync(join(tmpdir(), "lockstock-")) });
    this.proxy = createServer({ noDelay: true }, (client) => this.pass(client));
    this.connections = new Set();
  }

  async open() {
    await new Promise((done) => this.proxy.listen(0, "127.0.0.1", done));
    this.url = `grpc://127.0.0.1:${this.proxy.address().port}`;
    try {
      await this.start();
    } catch (error) {
      this.process = undefined; // it has ended
      await this.close();
      throw error;
    }
    return this;
  }

  start() {
    const env = { ...globalThis.process.env, LOCKSTOCK_STORE: `embedded:${this.directory}/data`, LOCKSTOCK_FSYNC: "everysec" };
    const process = spawn(this.program, ["--listen", `grpc://127.0.0.1:${this.port}`, ...this.args],
      { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    this.process = process;
    this.ended = new Promise((done) => process.once("close", done));
    return new Promise((done, fail) => {
      let said = "";
      const hear = (data) => {
        said += data;
        const found = /url=grpc:\/\/127\.0\.0\.1:(\d+)/.exec(said);
        if (!found || !said.includes("event=ready")) return;
        this.port = Number(found[1]);
        for (const pipe of [process.stdout, process.stderr]) pipe.off("data", hear).resume();
        done();
      };
      for (const pipe of [process.stdout, process.stderr]) pipe.on("data", hear);
      process.once("error", fail);
      this.ended.then(() => fail(new Error(`lockstockd does not start:\n${said}`)));
    });
  }

  async end(signal) {
    this.process.kill(signal);
    await this.ended;
    this.process = undefined;
  }

  kill() {
    return this.end("SIGKILL");
  }

  async restart() {
    if (this.process) await this.end("SIGTERM");
    await this.start();
  }

  freeze() {
    this.process.kill("SIGSTOP");
  }

  thaw() {
    this.process.kill("SIGCONT");
  }

  loseNextReply() {
    this.losing = true;
  }

  async close() {
    if (this.process) {
      this.thaw();
      await this.end("SIGTERM");
    }
    for (const one of this.connections) one.destroy();
    await new Promise((done) => this.proxy.close(done));
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Forwards bytes, and breaks the connection instead of the next answer. */
  pass(client) {
    const server = connectTo({ port: this.port, host: "127.0.0.1", noDelay: true });
    let skip = 0, held = Buffer.alloc(0);
    for (const [one, other] of [[client, server], [server, client]]) {
      this.connections.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.connections.delete(one);
        other.destroy();
      });
    }
    client.on("data", (data) => server.write(data));
    server.on("data", (data) => {
      let answer;
      [skip, held, answer] = answerIn(skip, held, data);
      if (answer && this.losing) {
        this.losing = false;
        server.destroy();
      } else {
        client.write(data);
      }
    });
  }
}

/** Whether a frame of an answer begins in `data`. skip: remaining bytes of a frame; held: a partial header. */
function answerIn(skip, held, data) {
  const all = Buffer.concat([held, data]);
  let answer = false;
  while (all.length - skip >= FRAME_HEADER) {
    answer ||= all[skip + 3] === HEADERS || all[skip + 3] === DATA;
    skip += FRAME_HEADER + all.readUIntBE(skip, 3);
  }
  return [Math.max(skip - all.length, 0), all.subarray(Math.min(skip, all.length)), answer];
}

export const server = ({ args = [], program = process.env.LOCKSTOCKD ?? "lockstockd" } = {}) => new Server(args, program).open();
