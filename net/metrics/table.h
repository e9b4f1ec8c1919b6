/* Every metric: its id, type, name, labels and help. docs/metrics.md has the same rows, which a test compares. No label
 * ever has a key, the name of a lock, a sku, a token or another text of a caller as its value. */
#ifndef LOCKSTOCK_NET_METRICS_TABLE_H
#define LOCKSTOCK_NET_METRICS_TABLE_H

/* clang-format off */
#define METRICS_TABLE(X) \
    X(METRICS_BUILD_INFO, METRICS_GAUGE, "lockstock_build_info", "version, commit", "Always 1; the labels name the build.") \
    X(METRICS_STARTED, METRICS_COUNTER, "grpc_server_started", "grpc_type, grpc_service, grpc_method", "Calls that arrived.") \
    X(METRICS_HANDLED, METRICS_COUNTER, "grpc_server_handled", "grpc_type, grpc_service, grpc_method, grpc_code", "Calls that were answered.") \
    X(METRICS_HANDLING, METRICS_HISTOGRAM, "grpc_server_handling_seconds", "grpc_type, grpc_service, grpc_method", "From the arrival of a call to its answer, with waits.") \
    X(METRICS_OUTCOMES, METRICS_COUNTER, "lockstock_call_outcomes", "grpc_service, grpc_method, outcome", "Answers by their field `outcome`.") \
    X(METRICS_REPLAYED, METRICS_COUNTER, "lockstock_call_replayed", "grpc_service, grpc_method", "Answers that repeat an earlier one.") \
    X(METRICS_APPLIED, METRICS_COUNTER, "lockstock_call_errors", "grpc_service, grpc_method, applied", "Errors by `applied`: NO, YES, MAYBE.") \
    X(METRICS_REFUSED, METRICS_COUNTER, "lockstock_calls_refused", "reason", "Errors by their reason.") \
    X(METRICS_GUARDED, METRICS_COUNTER, "lockstock_guarded_calls", "grpc_service, grpc_method, outcome", "A host's guarded calls: the handler ran, the guards answered instead (a stored result, an outcome), or they refused.") \
    X(METRICS_STAGES, METRICS_HISTOGRAM, "lockstock_call_stage_seconds", "stage", "What a call spent queued, with the store, and waiting as its caller asked.") \
    X(METRICS_UNITS, METRICS_COUNTER, "lockstock_call_units", "grpc_service, grpc_method", "Units that Deduct, Reserve and Confirm took, and ids that Next gave, without repeats.") \
    X(METRICS_STORE_CALLS, METRICS_COUNTER, "lockstock_store_calls", "grpc_service, grpc_method", "Calls of the store's functions.") \
    X(METRICS_WITHOUT_STORE, METRICS_COUNTER, "lockstock_calls_without_store", "grpc_service, grpc_method", "Answers without the store: remembered refusals, ids.") \
    X(METRICS_CALLS, METRICS_GAUGE, "lockstock_calls", "state", "Calls that run, are queued, or wait.") \
    X(METRICS_CALLS_MAX, METRICS_GAUGE, "lockstock_calls_limit", "state", "How many calls may run, or wait.") \
    X(METRICS_PRINCIPAL_CALLS, METRICS_COUNTER, "lockstock_principal_calls", "principal, result", "Calls that a principal's rights admitted or refused, since the policy was read.") \
    X(METRICS_PRINCIPAL_WAITING, METRICS_GAUGE, "lockstock_principal_waiting", "principal", "Waiting calls of a principal.") \
    X(METRICS_TOKEN_ENDS, METRICS_GAUGE, "lockstock_token_expiry_timestamp_seconds", "principal", "When a principal's last token ends, unless one has no end.") \
    X(METRICS_CONNECTIONS, METRICS_GAUGE, "lockstock_connections", "wire", "Open connections.") \
    X(METRICS_OPENED, METRICS_COUNTER, "lockstock_connections_opened", "wire", "Accepted connections.") \
    X(METRICS_CLOSED, METRICS_COUNTER, "lockstock_connections_closed", "reason", "Ended or refused connections.") \
    X(METRICS_RECEIVED, METRICS_COUNTER, "lockstock_received_bytes", "wire", "Received bytes.") \
    X(METRICS_SENT, METRICS_COUNTER, "lockstock_sent_bytes", "wire", "Sent bytes.") \
    X(METRICS_CERTIFICATE, METRICS_GAUGE, "lockstock_certificate_expiry_timestamp_seconds", "", "When the server's certificate ends.") \
    X(METRICS_MEMORY, METRICS_GAUGE, "lockstock_memory_held_bytes", "", "Unanswered requests and unread answers.") \
    X(METRICS_MEMORY_MAX, METRICS_GAUGE, "lockstock_memory_limit_bytes", "", "Limit of unanswered requests and unread answers.") \
    X(METRICS_BUSY, METRICS_COUNTER, "lockstock_loop_busy_seconds", "", "What the loop spent working; near 1 a second the server is full.") \
    X(METRICS_READY, METRICS_GAUGE, "lockstock_ready", "", "1 if calls can be served.") \
    X(METRICS_STORE_READY, METRICS_GAUGE, "lockstock_store_ready", "", "1 if the store is ready.") \
    X(METRICS_STORE_ROUND, METRICS_GAUGE, "lockstock_store_round_trip_seconds", "", "Round trip of the last health check.") \
    X(METRICS_STORE_LOSSES, METRICS_COUNTER, "lockstock_store_losses", "", "How often the store, or a primary of it, was found emptied.") \
    X(METRICS_STORE_REPLICAS, METRICS_GAUGE, "lockstock_store_replicas", "primary", "Connected replicas.") \
    X(METRICS_STORE_LAG, METRICS_GAUGE, "lockstock_store_replica_lag_bytes", "primary", "What the replica that is most behind has not confirmed.") \
    X(METRICS_STORE_MEMORY, METRICS_GAUGE, "lockstock_store_memory_bytes", "primary, kind", "Memory used, and max: maxmemory, or that of its machine.") \
    X(METRICS_STORE_FILE, METRICS_GAUGE, "lockstock_store_file_bytes", "primary", "A primary's append-only file.") \
    X(METRICS_STORE_DISK, METRICS_GAUGE, "lockstock_store_disk_free_bytes", "", "Free space on an embedded store's disk.") \
    X(METRICS_STORE_STARTS, METRICS_COUNTER, "lockstock_store_starts", "", "Starts of an embedded store's redis-server.") \
    X(METRICS_LOCK_STORE_READY, METRICS_GAUGE, "lockstock_lock_store_ready", "", "1 if the lock store is ready; absent without one.") \
    X(METRICS_LOCK_STORE_WRITES, METRICS_COUNTER, "lockstock_lock_store_writes", "result", "Writes to the lock store: done, repeated because another server had written (conflict), or unknown.") \
    X(METRICS_SPANS, METRICS_COUNTER, "lockstock_traced_calls", "result", "Calls whose spans were sent, or lost.") \
    X(METRICS_RELOADS, METRICS_COUNTER, "lockstock_reloads", "result", "Reloads of rights and certificates.") \
    X(METRICS_LINES_LOST, METRICS_COUNTER, "lockstock_log_lines_lost", "", "Log lines dropped because nobody read them.") \
    X(METRICS_CPU, METRICS_COUNTER, "process_cpu_seconds", "", "CPU time of the process.") \
    X(METRICS_RESIDENT, METRICS_GAUGE, "process_resident_memory_bytes", "", "Resident memory of the process.") \
    X(METRICS_FDS, METRICS_GAUGE, "process_open_fds", "", "Open descriptors.") \
    X(METRICS_FDS_MAX, METRICS_GAUGE, "process_max_fds", "", "Limit of open descriptors.") \
    X(METRICS_START, METRICS_GAUGE, "process_start_time_seconds", "", "Start, in seconds since 1970.")
/* clang-format on */

#endif
