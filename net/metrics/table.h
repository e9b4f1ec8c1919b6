/* Every metric: its id, type, name, labels and help. docs/metrics.md has the same rows, which a test compares. No label
 * value is a key, the name of a lock, a sku, a token or any other text of a caller. */
#ifndef LOCKSTOCK_NET_METRICS_TABLE_H
#define LOCKSTOCK_NET_METRICS_TABLE_H

/* clang-format off */
#define METRICS_TABLE(X) \
    X(METRICS_BUILD_INFO, METRICS_GAUGE, "lockstock_build_info", "version, commit", "Always 1; the labels name the build of this server.") \
    X(METRICS_STARTED, METRICS_COUNTER, "grpc_server_started", "grpc_type, grpc_service, grpc_method", "Calls that arrived.") \
    X(METRICS_HANDLED, METRICS_COUNTER, "grpc_server_handled", "grpc_type, grpc_service, grpc_method, grpc_code", "Calls that were answered.") \
    X(METRICS_HANDLING, METRICS_HISTOGRAM, "grpc_server_handling_seconds", "grpc_type, grpc_service, grpc_method", "From the arrival of a call to its answer, with waits that the caller asked for.") \
    X(METRICS_OUTCOMES, METRICS_COUNTER, "lockstock_call_outcomes", "grpc_service, grpc_method, outcome", "Answers by their field `outcome`.") \
    X(METRICS_REPLAYED, METRICS_COUNTER, "lockstock_call_replayed", "grpc_service, grpc_method", "Answers that repeat the answer of an earlier call.") \
    X(METRICS_APPLIED, METRICS_COUNTER, "lockstock_call_errors", "grpc_service, grpc_method, applied", "Errors by whether the call may have taken effect: NO, YES, MAYBE.") \
    X(METRICS_REFUSED, METRICS_COUNTER, "lockstock_calls_refused", "reason", "Errors by their reason.") \
    X(METRICS_GUARDED, METRICS_COUNTER, "lockstock_guarded_calls", "grpc_service, grpc_method, outcome", "Calls of a host's methods with guards: the handler ran, the guards answered in its place (a stored result, an outcome), or they refused.") \
    X(METRICS_STAGES, METRICS_HISTOGRAM, "lockstock_call_stage_seconds", "stage", "Time that a call spent in each of its stages: queued, with the store, and waiting as its caller asked.") \
    X(METRICS_UNITS, METRICS_COUNTER, "lockstock_call_units", "grpc_service, grpc_method", "Units of stock that Deduct, Reserve and Confirm took, and ids that Next gave. Repeats do not count.") \
    X(METRICS_STORE_CALLS, METRICS_COUNTER, "lockstock_store_calls", "grpc_service, grpc_method", "Calls of functions of the store that calls made.") \
    X(METRICS_WITHOUT_STORE, METRICS_COUNTER, "lockstock_calls_without_store", "grpc_service, grpc_method", "Answers without a call of the store: remembered refusals, ids.") \
    X(METRICS_CALLS, METRICS_GAUGE, "lockstock_calls", "state", "Calls that run, are queued, or wait.") \
    X(METRICS_CALLS_MAX, METRICS_GAUGE, "lockstock_calls_limit", "state", "How many calls may run, or wait.") \
    X(METRICS_PRINCIPAL_CALLS, METRICS_COUNTER, "lockstock_principal_calls", "principal, result", "Calls of a principal of the policy file that its rights admitted or refused, since the file was read.") \
    X(METRICS_PRINCIPAL_WAITING, METRICS_GAUGE, "lockstock_principal_waiting", "principal", "Calls of a principal that wait.") \
    X(METRICS_TOKEN_ENDS, METRICS_GAUGE, "lockstock_token_expiry_timestamp_seconds", "principal", "When a principal's last token expires, unless one never expires.") \
    X(METRICS_CONNECTIONS, METRICS_GAUGE, "lockstock_connections", "wire", "Open connections.") \
    X(METRICS_OPENED, METRICS_COUNTER, "lockstock_connections_opened", "wire", "Connections that were accepted.") \
    X(METRICS_CLOSED, METRICS_COUNTER, "lockstock_connections_closed", "reason", "Connections that ended or were refused.") \
    X(METRICS_RECEIVED, METRICS_COUNTER, "lockstock_received_bytes", "wire", "Bytes that connections received.") \
    X(METRICS_SENT, METRICS_COUNTER, "lockstock_sent_bytes", "wire", "Bytes that connections sent.") \
    X(METRICS_CERTIFICATE, METRICS_GAUGE, "lockstock_certificate_expiry_timestamp_seconds", "", "When the server's certificate ends.") \
    X(METRICS_MEMORY, METRICS_GAUGE, "lockstock_memory_held_bytes", "", "Requests that are not answered, and answers that are not read.") \
    X(METRICS_MEMORY_MAX, METRICS_GAUGE, "lockstock_memory_limit_bytes", "", "The limit of lockstock_memory_held_bytes.") \
    X(METRICS_BUSY, METRICS_COUNTER, "lockstock_loop_busy_seconds", "", "Time that the loop spent other than waiting; near 1 per second the server is full.") \
    X(METRICS_READY, METRICS_GAUGE, "lockstock_ready", "", "1 if calls can be served.") \
    X(METRICS_STORE_READY, METRICS_GAUGE, "lockstock_store_ready", "", "1 if the store is ready.") \
    X(METRICS_STORE_ROUND, METRICS_GAUGE, "lockstock_store_round_trip_seconds", "", "The time of the last request to the store.") \
    X(METRICS_STORE_REPLICAS, METRICS_GAUGE, "lockstock_store_replicas", "primary", "Replicas that are connected to a primary.") \
    X(METRICS_STORE_LAG, METRICS_GAUGE, "lockstock_store_replica_lag_bytes", "primary", "Bytes that the replica with the largest lag has not confirmed.") \
    X(METRICS_STORE_MEMORY, METRICS_GAUGE, "lockstock_store_memory_bytes", "primary, kind", "Memory that a primary uses (used), and its limit (max): its maxmemory, or the memory of its machine.") \
    X(METRICS_STORE_FILE, METRICS_GAUGE, "lockstock_store_file_bytes", "primary", "The size of the append-only file of a primary.") \
    X(METRICS_STORE_DISK, METRICS_GAUGE, "lockstock_store_disk_free_bytes", "", "Free space on the disk of an embedded store.") \
    X(METRICS_STORE_STARTS, METRICS_COUNTER, "lockstock_store_starts", "", "How often redis-server of an embedded store was started.") \
    X(METRICS_LOCK_STORE_READY, METRICS_GAUGE, "lockstock_lock_store_ready", "", "1 if the lock store is ready; absent without a lock store.") \
    X(METRICS_LOCK_STORE_WRITES, METRICS_COUNTER, "lockstock_lock_store_writes", "result", "Writes of a group in the lock store: done, repeated because another server had written (conflict), or with an unknown outcome.") \
    X(METRICS_SPANS, METRICS_COUNTER, "lockstock_traced_calls", "result", "Calls whose spans were sent to the collector, or lost.") \
    X(METRICS_RELOADS, METRICS_COUNTER, "lockstock_reloads", "result", "Reloads of the rights and certificates.") \
    X(METRICS_LINES_LOST, METRICS_COUNTER, "lockstock_log_lines_lost", "", "Log lines that were dropped because the pipe was not read.") \
    X(METRICS_CPU, METRICS_COUNTER, "process_cpu_seconds", "", "CPU time of the process.") \
    X(METRICS_RESIDENT, METRICS_GAUGE, "process_resident_memory_bytes", "", "Resident memory of the process.") \
    X(METRICS_FDS, METRICS_GAUGE, "process_open_fds", "", "Open descriptors.") \
    X(METRICS_FDS_MAX, METRICS_GAUGE, "process_max_fds", "", "The limit of open descriptors.") \
    X(METRICS_START, METRICS_GAUGE, "process_start_time_seconds", "", "When the process began, in seconds since 1970.")
/* clang-format on */

#endif
