# The client's own SP engine: link_sp.c, conn.c, tls.c, net/resolve.c.

# messages: what is written, what is taken back, what is lost

# what a server may not do
c_mutation(C33 net/sp/sp.c test_channel_sp:*another_protocol*
  [[r->of_client ? sp_rep_handshake : req_handshake]] [[r->of_client ? r->head : req_handshake]])

# connections come and go
c_mutation(C34 net/resolve.c test_channel_sp:*with_the_reason [[resolution->failed = failed;]] "")

# TLS: whom the client talks to
c_mutation(C35 net/tls.c test_client_wires:*for_its_name
  [[SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);]] "")
c_mutation(C35 net/tls.c test_client_wires:*for_its_name [[SSL_set1_host(ssl, name) == 1 && ]] "")
c_mutation(C35 net/tls.c test_client_wires:*for_its_name
  [[return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;]] [[return true;]])
c_mutation(C35 net/tls.c test_client_wires:*for_its_name [[set_over(t, X509_verify_cert_error_string(verified));]]
  [[set_over(t, "");]])
c_mutation(C36 net/tls.c test_client_wires:*ask_for_a_certificate
  [[SSL_CTX_use_certificate_chain_file(ssl, certificate) != 1]] [[false]])
c_mutation(C36 net/tls.c test_client_wires:*are_named [[SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1]] [[false]])
c_mutation(C36 net/tls.c test_client_wires:*are_named [[if (ca_file && SSL_CTX_load_verify_file]]
  [[if (ca_file == key_file && SSL_CTX_load_verify_file]])
