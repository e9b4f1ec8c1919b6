# The client's own SP engine: link_sp.c, conn.c, tls.c, net/resolve.c.

# messages: what is written, what is taken back, what is lost
c_mutation(C30 client/wire/link_sp.c test_channel_sp:*half_written*
  [[if (sp->state != LINK_OVER && message == TAILQ_FIRST(&sp->output) && sp->output_done != 0) {]] [[if (false) {]])
c_mutation(C30 client/wire/link_sp.c test_channel_sp:*half_written* [[        slot->outcome = LINK_UNSENT;]]
  [[        slot->outcome = LINK_SENT;]])
c_mutation(C31 client/wire/link_sp.c test_channel_retry [[            link_slot_over(link->slots[i], LINK_LOST, NULL, 0);]] [[            (void)i;]])
c_mutation(C31 client/wire/link_sp.c test_channel_retry [[            link_slot_over(link->slots[i], LINK_LOST, NULL, 0);]]
  [[            link_slot_over(link->slots[i], LINK_UNSENT, NULL, 0);]])
c_mutation(C32 client/wire/link_sp.c test_channel_sp:*late_answer* [[slot->base.state == LINK_SLOT_AWAITING && slot->id == id]]
  [[slot->base.state == LINK_SLOT_AWAITING]])
c_mutation(C32 client/wire/link_sp.c test_channel_sp:*late_answer*
  [[    slot->id = (slot->id + sp->id_step) | SP_ID_MARK;]] [[    slot->id = slot->id | SP_ID_MARK;]])

# what a server may not do
c_mutation(C33 client/wire/link_sp.c test_channel_retry
  [[sp_reader_init_client(&sp->input, sp->mapping, options->message_bytes_max);]]
  [[sp_reader_init_client(&sp->input, sp->mapping, 1 << 30);]])
c_mutation(C33 net/sp/sp.c test_channel_sp:*another_protocol*
  [[r->of_client ? sp_rep_handshake : req_handshake]] [[r->of_client ? r->head : req_handshake]])

# connections come and go
c_mutation(C34 client/wire/conn.c test_client_links:*leave_nothing [[        close(c->source.fd);]] "")
c_mutation(C34 client/wire/conn.c test_channel_sp:*with_the_reason
  [[    snprintf(c->why, sizeof c->why, "%s: %s", what, why);]] [[    (void)what, (void)why;]])
c_mutation(C34 net/resolve.c test_channel_sp:*with_the_reason [[resolution->failed = failed;]] "")
c_mutation(C34 client/wire/conn.c test_channel_sp:*is_resolved
  [[c->next_address = c->addresses = resolve_end(c->resolution, &why);]]
  [[c->addresses = resolve_end(c->resolution, &why);]])

# TLS: whom the client talks to
c_mutation(C35 net/tls.c test_client_wires:*for_its_name
  [[SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);]] "")
c_mutation(C35 net/tls.c test_client_wires:*for_its_name [[SSL_set1_host(ssl, name) == 1 && ]] "")
c_mutation(C35 net/tls.c test_client_wires:*for_its_name
  [[return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;]] [[return true;]])
c_mutation(C35 client/wire/link_sp.c test_client_wires:*for_its_name
  [[options->server_name ? options->server_name : sp->address.host]] [[sp->address.host]])
c_mutation(C35 net/tls.c test_client_wires:*for_its_name [[set_over(t, X509_verify_cert_error_string(verified));]]
  [[set_over(t, "");]])
c_mutation(C36 net/tls.c test_client_wires:*ask_for_a_certificate
  [[SSL_CTX_use_certificate_chain_file(ssl, certificate) != 1]] [[false]])
c_mutation(C36 net/tls.c test_client_wires:*are_named [[SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1]] [[false]])
c_mutation(C36 net/tls.c test_client_wires:*are_named [[if (ca_file && SSL_CTX_load_verify_file]]
  [[if (ca_file == key_file && SSL_CTX_load_verify_file]])
