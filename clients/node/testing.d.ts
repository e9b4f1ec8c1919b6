/** A lockstockd for tests, with a store of its own, that can be made to fail:
 *
 *     const fake = await server();
 *     const ls = connect(fake.url);
 *     fake.loseNextReply();
 *     await ls.stock.deduct("order-1", { phone: 1 });   // repeated by the client, sold once
 *     await fake.close();
 *
 * It needs the programs lockstockd and redis-server. */
export interface Server {
  /** The same over restarts. */
  readonly url: string;
  /** Starts the server. Resolves when it is ready; rejects with what it said if it ends before. */
  start(): Promise<void>;
  /** Ends the server at once (SIGKILL), and with it the Redis of its store. The data stays. */
  kill(): Promise<void>;
  /** Starts the server again; ends it before if it runs. */
  restart(): Promise<void>;
  /** Stops the server without an end (SIGSTOP): connections stay, and nothing is answered. */
  freeze(): void;
  /** Lets a frozen server go on. */
  thaw(): void;
  /** The next call is done by the server, and its connection breaks before the answer arrives. */
  loseNextReply(): void;
  /** Ends the server and its store, and removes their files. */
  close(): Promise<void>;
}

/** A server that runs. args: further flags of lockstockd. program: its path; else that in the variable LOCKSTOCKD, or the one on
 * PATH. Rejects with ENOENT where there is none. */
export function server(options?: { args?: string[]; program?: string }): Promise<Server>;
