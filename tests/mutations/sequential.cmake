# What a thousand threads see: calls that travel together, and refusals from memory.

c_mutation(S56 server/services/stock_refusals.c test_sequential [[        refusals_drop(sold_out, group_of(call->base));]] [[        ;]])
c_mutation(S56 server/services/stock_refusals.c test_sequential
  [[.ask_ns = asked_ns + REFUSAL_ASK_NS, .until_ns = asked_ns + REFUSAL_KNOWN_NS]]
  [[.ask_ns = asked_ns + 100 * REFUSAL_ASK_NS, .until_ns = asked_ns + 100 * REFUSAL_KNOWN_NS]])
c_mutation(S56 server/store/pipeline.c test_sequential [=[reply->element[i], confirms);]=]
  [=[reply->element[n - 1 - i], confirms);]=])
c_mutation(S56 server/functions/stock_change.lua test_sequential [[  if item == nil then
    local text = redis.call('GET', s.base .. 'stock:i:' .. sku)]] [[  if not item or item[CHANGED] then
    local text = redis.call('GET', s.base .. 'stock:i:' .. sku)]])
c_mutation(S56 net/sp/frames.c test_sequential [=[*result = w->reply->results[at->index];]=]
  [=[*result = w->reply->results[w->reply->n_results - 1 - at->index];]=])
