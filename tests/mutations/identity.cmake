# Who may do what: identity, TLS, and what the server makes of its files.

# default deny
c_mutation(A1 server/calls/identity.c test_identity [[    i->required = policy_file;]] "")
c_mutation(A1 server/calls/identity.c test_admission:*not_known*
  [[    if (!p)
        return lks_error_set(error, LKS_UNAUTHENTICATED]] [[    if (!p)
        return LKS_OK;
    if (!p)
        return lks_error_set(error, LKS_UNAUTHENTICATED]])
# each right allows its methods and no other
c_mutation(A2 server/calls/identity.c test_admission:*each_right*
  [[if ((g->effects & effect_bit(method->effect)) && is_of_service]] [[if (is_of_service]])
c_mutation(A2 server/calls/identity.c test_admission:*each_right* [[ && is_of_service(method->path, g->service))]] [[)]])
c_mutation(A2 server/calls/identity.c test_identity:*effects_are* [[    return before == '.' || before == '/';]] [[    return true;]])
# a principal stays in its namespace
c_mutation(A3 server/calls/identity.c test_admission:*namespace* [[if (elsewhere || (method && !may(p, method)))]] [[if (method && !may(p, method))]])
c_mutation(A3 server/calls/identity.c test_admission:*namespace*
  [[    if (p->ns)
        ret->ns = lks_rpc_slice_of(p->ns);]] "")
c_mutation(A3 server/calls/identity.c test_identity:*namespace* [[c->ns.len != strlen(p->ns) || ]] "")
# a token: until its end, only as Bearer, before the connection's evidence
c_mutation(A4 server/calls/identity.c test_identity:*tokens_end* [[DIGEST_BYTES) == 0 && live)]] [[DIGEST_BYTES) == 0)]])
c_mutation(A4 server/calls/identity.c test_identity:*other_schemes*
  [[authorization.len <= len || strncasecmp(authorization.data, scheme, len) != 0]] [[authorization.len <= len]])
c_mutation(A4 server/calls/identity.c test_admission:*a_certificate_is*
  [[    if (c->authorization.len > 0)
        return of_token(i, bearer(c->authorization), now);]] [[    if (c->authorization.len > 0 && of_token(i, bearer(c->authorization), now))
        return of_token(i, bearer(c->authorization), now);]])
# files that could be read in two ways
c_mutation(A5 server/calls/identity.c test_identity:*wrong*
  [[    if (certificate ? identity_of_certificate(r->identity, certificate) : identity_of_uid(r->identity, uid))]]
  [[    if (false)]])
c_mutation(A5 server/calls/identity.c test_identity:*wrong* [[    if (has_token(r->identity, t.digest))]] [[    if (false)]])
c_mutation(A5 server/calls/identity.c test_identity:*wrong* [[    if (is_of_nothing(t.digest))]] [[    if (false)]])
c_mutation(A5 server/calls/identity.c test_identity:*wrong* [[if (p->n_tokens == TOKENS_MAX)]] [[if (p->n_tokens == TOKENS_MAX + 1)]])
c_mutation(A5 server/calls/identity.c test_identity:*wrong* [[if (c == '\0' || n + 1 == size) {
            bad_line(r, c == '\0' ? "has a NUL in it" : "too long");
            return NULL;
        }]] [[if (n + 1 == size)
            break;]])
c_mutation(A5 server/calls/identity.c test_identity:*wrong*
  [[strlen(section) > INI_NAME_BYTES_MAX || strlen(name) > INI_NAME_BYTES_MAX]] [[false]])
c_mutation(A5 server/calls/identity.c test_identity:*a_nul* [[if (c == '\0' || n + 1 == size) {]] [[if (n + 1 == size) {]])
# a client certificate is valid now, of the authority, for clients
c_mutation(A6 net/tls.c test_tls:*client_certificates* [[    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | (files->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);]]
  [[    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);]])
c_mutation(A6 net/tls.c test_admission:*a_certificate_is* [[    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | (files]]
  [[    SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE | (files]])
# its name cannot be made to look like another
c_mutation(A7 net/tls.c test_tls:*names* [[ || memchr(data, '\0', len))]] [[)]])
c_mutation(A7 net/tls.c test_tls:*names* [[        found = name->type == GEN_DNS;
        if (found)]] [[        found = name->type == GEN_DNS && !memchr(ASN1_STRING_get0_data(name->d.dNSName), '\0', (size_t)ASN1_STRING_length(name->d.dNSName));
        if (found)]])
c_mutation(A7 net/tls.c test_tls:*names* [[sk_GENERAL_NAME_num(names) && !found;]] [[sk_GENERAL_NAME_num(names);]])
# TLS 1.2 at least, no resumption, no renegotiation, ALPN
c_mutation(A8 net/tls.c test_tls:*versions*
  [[    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);]]
  [[    SSL_CTX_set_min_proto_version(context->ssl, TLS1_VERSION);
    SSL_CTX_set_security_level(context->ssl, 0);]])
c_mutation(A8 net/tls.c test_tls:*anew* [[ | SSL_OP_NO_TICKET);
    /* No resumption: every connection shows a certificate that is valid now. */
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context->ssl, 0);]] [[);
    SSL_CTX_set_session_id_context(context->ssl, (const unsigned char *)"l", 1);]])
c_mutation(A8 net/tls.c test_tls:*second_handshake* [[SSL_OP_NO_RENEGOTIATION | ]] [[SSL_OP_ALLOW_CLIENT_RENEGOTIATION | ]])
c_mutation(A8 net/tls.c test_tls:*alpn* [[t->wants_alpn && !has_alpn(t)]] [[false]])
# hostile bytes: bounded memory
c_mutation(A9 net/tls.c test_tls:*new_keys* [[t->chatter > CHATTER_BYTES_MAX]] [[false]])
c_mutation(A9 net/stream/stream.c test_stream_tls:*does_not_shake*
  [[        ms = s->greeting_end_ms > uv_now(o->loop) ? s->greeting_end_ms - uv_now(o->loop) : 1;]] [[        ms = o->greeting_ms;]])
c_mutation(A9 net/stream/stream.c test_stream_tls:*does_not_read* [[    if (s->all->options.stall_ms > 0)]] [[    if (false)]])
c_mutation(A9 net/stream/stream.c test_stream_tls:*is_told_why* [[    if (!s->writing)
        stream_flush(s);]] "")
# a reload is whole or nothing, and ends no connection
c_mutation(A10 server/server.c test_admission:*wrong_file* [[wires_load_certificates(s->wires, &error) != LKS_OK ||
        store_reload(s->store, &error) != LKS_OK) {
        identity_free(loaded);
        log_warn("not-reloaded", "reason=\"%s\"", error.message);
        notify_reloaded(s->notify, error.message);
        return;
    }
    judge_by(s, loaded);]] [[(judge_by(s, loaded), wires_load_certificates(s->wires, &error)) != LKS_OK ||
        store_reload(s->store, &error) != LKS_OK) {
        log_warn("not-reloaded", "reason=\"%s\"", error.message);
        notify_reloaded(s->notify, error.message);
        return;
    }]])
c_mutation(A10 server/server.c test_admission:*tokens_rotate* [[    judge_by(s, loaded);
    check_modes(s->config);
    log_info]] [[    identity_free(loaded);
    log_info]])
c_mutation(A10 net/wires.c test_admission:*certificates_rotate* [[    tls_context_free(w->tls);
    tls_context_free(w->h2);
    w->tls = plain;
    w->h2 = h2;]] [[    if (!w->tls)
        w->tls = plain;
    if (!w->h2)
        w->h2 = h2;]])
# beyond this machine only with TLS and a policy; settings that would do nothing
c_mutation(A11 server/check.c test_admission:*beyond*
  [[wires_is_encrypted(address) && identity_required(known)]] [[wires_is_encrypted(address)]])
c_mutation(A11 server/check.c test_admission:*beyond*
  [[wires_is_encrypted(address) && identity_required(known)]] [[identity_required(known)]])
c_mutation(A11 net/wires.c test_admission:*beyond*
  [[    return strcmp(text, "localhost") == 0 || ]] [[    return strncmp(text, "127.", 4) == 0 || strcmp(text, "localhost") == 0 || ]])
c_mutation(A11 server/check.c test_admission:*do_nothing*
  [[    return wrong ? lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", wrong)
                 : wires_check_tls(files, error);]] [[    (void)wrong;
    return wires_check_tls(files, error);]])
# nothing secret is logged
c_mutation(A12 server/server.c test_admission
  [[        .url = s->config->store,]] [[        .url = (log_info("store", "url=%s", s->config->store), s->config->store),]])
# the client's token
c_mutation(A13 client/call/request.c test_channel:*token* [[defaults->token && !names_authorization]] [[defaults->token]])
c_mutation(A13 client/call/channel.c test_channel:*token*
  [[options && options->token && !is_token(options->token)]] [[false && !is_token(options->token)]])
