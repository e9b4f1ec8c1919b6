# What WebSocket keeps.

# a web page may not connect unless its origin is named: 403; two Origins are refused
c_mutation(WS1 net/sp/websocket_request.c test_websocket:*a_page*
  [[if (r.n[ORIGIN] == 1 && !origin_is_named(site, r.value[ORIGIN]))]] [[if (false)]])
c_mutation(WS1 net/sp/websocket_request.c test_websocket:*a_page* [[if (r.n[ORIGIN] > 1)]] [[if (false)]])
c_mutation(WS1 net/sp/websocket_request.c test_websocket:*a_page* [[if (equals(origin, site->origins[i]))]]
  [[if (strncasecmp(origin.at, site->origins[i], origin.len) == 0)]])
c_mutation(WS1 net/sp/sp_server.c test_websocket_hostile:*a_page*
  [[.n_origins = all->options.n_origins};]] [[.n_origins = 0};]])

# a request is HTTP/1.1, for the path, with one key, version and our subprotocol, no body, in 8 KiB; else its status
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request* [[if (!r.is_http11)]] [[if (false)]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request* [[if (r.n[HOST] != 1)]] [[if (false)]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request*
  [[if (r.n[LENGTH] > 0 || r.n[ENCODING] > 0)]] [[if (r.n[LENGTH] > 0)]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request* [[if (!is_path(r.target, site->path))]]
  [[if (false)]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request*
  [[if (!r.has_token[UPGRADE] || !r.has_token[CONNECTION])]] [[if (!r.has_token[UPGRADE])]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request*
  [[if (r.n[VERSION] != 1 || !equals(]] [[if (!equals(]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request* [[if (!r.has_token[PROTOCOL])]]
  [[if (false)]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*what_a_request*
  [[if (r.n[KEY] != 1 || !is_key(r.value[KEY]))]] [[if (!is_key(r.value[KEY]))]])
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*no_http* [[|| !is_name(name) ]] "")
c_mutation(WS2 net/sp/websocket_request.c test_websocket:*no_http* [[|| has_control(value, false))]] [[)]])
c_mutation(WS2 net/sp/websocket.c test_websocket:*has_a_limit* [[> WEBSOCKET_REQUEST_BYTES_MAX)]] [[> SIZE_MAX - 1)]])
c_mutation(WS2 net/sp/websocket.c test_websocket:*in_any_pieces
  [[size_t before = w->request_len < 3 ? w->request_len : 3;]] [[size_t before = 0;]])

# a handshake that is not finished ends, and takes a place
c_mutation(WS3 net/sp/sp_server.c test_sp_server:*finish_the_handshake* [[if (c->reader.shaken && !c->ready) {]]
  [[if (!c->ready) {]])
c_mutation(WS3 net/stream/stream.c test_sp_server:*takes_a_place* [[s->idle || !s->ready, stream]] [[s->idle, stream]])

# frames against the protocol close: mask, reserved bits, opcodes, order, shortest length
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[(w->head[0] & RESERVED) || ]] "")
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[ || !(w->head[1] & MASKED))]] [[)]])
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[code > PONG || !is_final(w)]] [[!is_final(w)]])
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[code > PONG || !is_final(w)]] [[code > PONG]])
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks*
  [[ || (w->head[1] & LENGTH) > WEBSOCKET_CONTROL_BYTES_MAX]] "")
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[ || (code == CONTINUED) != w->in_message)]] [[)]])
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[return *len >= LENGTH_16;]] [[return true;]])
c_mutation(WS4 net/sp/websocket.c test_websocket:*breaks* [[return *len > UINT16_MAX;]] [[return true;]])

# a message too long closes by its frames' heads; one that does not get on, too
c_mutation(WS5 net/sp/websocket.c test_websocket:*too_long* [[if (len > w->message_bytes_max - w->announced)]]
  [[if (len > w->message_bytes_max)]])
c_mutation(WS5 net/sp/websocket.c test_websocket:*too_long* [[if (len > w->message_bytes_max - w->announced)]]
  [[if (false)]])
c_mutation(WS5 net/sp/websocket.c test_websocket:*get_on [[if (w->n_empty > WEBSOCKET_EMPTY_MAX)]] [[if (false)]])

# a ping is answered, also inside a message; a close with its own code
c_mutation(WS6 net/sp/websocket.c test_websocket:*ping* [[w->pongs = true;]] [[;]])
c_mutation(WS6 net/sp/websocket.c test_websocket:*close_is* [[if (w->control_len > 0 && !is_close_code(code))]]
  [[if (false)]])
c_mutation(WS6 net/sp/websocket.c test_websocket:*close_is* [[return close_with(w, code);]]
  [[return close_with(w, 1000);]])

# a message may come in any frames and pieces; the first answer is to the request; long answers go in frames
c_mutation(WS7 net/sp/websocket.c test_websocket:*any_frames*
  [[piece->key[(i + piece->len) % sizeof w->key];]] [[piece->key[i];]])
c_mutation(WS7 net/sp/sp.c test_sp:*websocket_frames* [[r->more = !piece.last;]] [[;]])
c_mutation(WS7 net/sp/sp.c test_sp:*no_request* [[websocket_fail(r->websocket, WEBSOCKET_WRONG);]] [[;]])
c_mutation(WS7 net/sp/sp.c test_sp_server:*first_answer* [[if (r->websocket && r->shaken && !was_shaken)]] [[if (false)]])
c_mutation(WS7 net/sp/sp_server.c test_sp_server:*long_answer*
  [[c->mapping == SP_OVER_WEBSOCKET && len > WEBSOCKET_FRAME_BYTES_MAX;]] [[false;]])


# origins that are none, or that no address would heed, are refused
c_mutation(WS8 server/check.c test_admission:*would_do_nothing* [[    if (wires_is_origin(origin))]] [[    if (true)]])
c_mutation(WS8 server/check.c test_admission:*would_do_nothing* [[config->allow_origin.n > 0 && !for_pages)]]
  [[false)]])
