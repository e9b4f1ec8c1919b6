/** A lockstockd for tests, with its own store, that can be made to fail:
 *
 *     const fake = await server();
 *     const ls = connect(fake.url);
 *     fake.loseNextReply();
 *     await ls.stock.deduct("order-1", { phone: 1 });   // repeated by the client, sold once
 *     await fake.close();
 *
 * Requires the programs lockstockd and redis-server. */
export interface Server {
  /** The same over restarts. */
  readonly url: string;
  /** Starts the server. Resolves when it is ready; rejects with its output if it ends before. */
  start(): Promise<void>;
  /** Kills the server (SIGKILL), and with it the Redis of its store. The data stays. */
  kill(): Promise<void>;
  /** Restarts the server. */
  restart(): Promise<void>;
  /** Suspends the server (SIGSTOP): connections stay open, and nothing is answered. */
  freeze(): void;
  /** Resumes a frozen server. */
  thaw(): void;
  /** Makes the connection of the next call break after the server has done the call, before the answer arrives. */
  loseNextReply(): void;
  /** Ends the server and its store, and removes their files. */
  close(): Promise<void>;
}

/** A running server. args: further flags of lockstockd. program: its path; by default that in the variable LOCKSTOCKD, or the one in
 * PATH. Rejects with ENOENT if there is none. */
export function server(options?: { args?: string[]; program?: string }): Promise<Server>;
