# The client's own SP engine: link_sp.c, conn.c, tls.c, resolve.c.

# messages: what is written, what is taken back, what is lost
c_mutation(C30 client/link_sp.c test_channel_sp:*half_written*
  [[if (sp->state != LINK_OVER && message == TAILQ_FIRST(&sp->output) && sp->output_done != 0) {]] [[if (false) {]])
c_mutation(C30 client/link_sp.c test_channel_sp:*half_written* [[        slot->outcome = LINK_UNSENT;]]
  [[        slot->outcome = LINK_SENT;]])
c_mutation(C31 client/link_sp.c test_channel_retry [[            link_slot_over(link->slots[i], LINK_LOST, NULL, 0);]] [[            (void)i;]])
c_mutation(C31 client/link_sp.c test_channel_retry [[            link_slot_over(link->slots[i], LINK_LOST, NULL, 0);]]
  [[            link_slot_over(link->slots[i], LINK_UNSENT, NULL, 0);]])
c_mutation(C32 client/link_sp.c test_channel_sp:*late_answer* [[slot->base.state == LINK_SLOT_AWAITING && slot->id == id]]
  [[slot->base.state == LINK_SLOT_AWAITING]])
c_mutation(C32 client/link_sp.c test_channel_sp:*late_answer*
  [[    slot->id = (slot->id + sp->id_step) | ID_MARK;]] [[    slot->id = slot->id | ID_MARK;]])

# what a server may not do
c_mutation(C33 client/link_sp.c test_channel_retry
  [[else if (length - ID_BYTES > sp->base.options.message_bytes_max)]] [[else if (false)]])
c_mutation(C33 client/link_sp.c test_channel_sp:*another_protocol*
  [[        if (memcmp(at, peer_handshake, HANDSHAKE_BYTES) != 0)]] [[        if (false)]])

# connections come and go
c_mutation(C34 client/conn.c test_client_links:*leave_nothing [[        close(c->source.fd);]] "")
c_mutation(C34 client/conn.c test_channel_sp:*with_the_reason
  [[    snprintf(c->why, sizeof c->why, "%s: %s", what, why);]] [[    (void)what, (void)why;]])
c_mutation(C34 client/resolve.c test_channel_sp:*with_the_reason [[resolution->failed = failed;]] "")
c_mutation(C34 client/conn.c test_channel_sp:*is_resolved
  [[c->next_address = c->addresses = resolve_end(c->resolution, &why);]]
  [[c->addresses = resolve_end(c->resolution, &why);]])

# TLS: whom the client talks to
c_mutation(C35 client/tls.c test_client_wires:*for_its_name
  [[SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);]] "")
c_mutation(C35 client/tls.c test_client_wires:*for_its_name [[SSL_set1_host(ssl, name) == 1 && ]] "")
c_mutation(C35 client/tls.c test_client_wires:*for_its_name
  [[return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;]] [[return true;]])
c_mutation(C35 client/link_sp.c test_client_wires:*for_its_name
  [[options->server_name != NULL ? options->server_name : host]] [[host]])
c_mutation(C35 client/tls.c test_client_wires:*for_its_name [[t->why = X509_verify_cert_error_string(verified);]]
  [[t->why = "";]])
c_mutation(C36 client/tls.c test_client_wires:*ask_for_a_certificate
  [[SSL_CTX_use_certificate_chain_file(ssl, certificate_file) != 1]] [[false]])
c_mutation(C36 client/tls.c test_client_wires:*are_named [[SSL_CTX_use_PrivateKey_file(ssl, key_file, SSL_FILETYPE_PEM) != 1]] [[false]])
c_mutation(C36 client/tls.c test_client_wires:*are_named [[if (ca_file != NULL && SSL_CTX_load_verify_file]]
  [[if (ca_file == key_file && SSL_CTX_load_verify_file]])
