#include "support/certificates.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

enum { A_DAY = 86400 };

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static void need(long worked, const char *what)
{
    if (!worked) {
        fprintf(stderr, "certificates: cannot make %s\n", what);
        abort();
    }
}

static int length(const certificate_name *name)
{
    return (int)(name->len > 0 ? name->len : strlen(name->text));
}

static X509 *blank(EVP_PKEY *key, const certificate_name *common, long from_s, long until_s)
{
    X509 *x = X509_new();
    long serial = 0;

    need(key && x && RAND_bytes((unsigned char *)&serial, sizeof serial) == 1, "a certificate");
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set_int64(X509_get_serialNumber(x), serial >> 1 & INT64_MAX);
    X509_gmtime_adj(X509_getm_notBefore(x), from_s);
    X509_gmtime_adj(X509_getm_notAfter(x), until_s);
    X509_set_pubkey(x, key);
    if (common->text)
        need(X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, V_ASN1_UTF8STRING,
                                        (const unsigned char *)common->text, length(common), -1, 0),
             "a common name");
    return x;
}

static void extend(X509 *x, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    need(extension && X509_add_ext(x, extension, -1), value);
    X509_EXTENSION_free(extension);
}

authority *authority_new(const char *name)
{
    authority *a = malloc(sizeof *a);
    const certificate_name common = {.text = name};

    need(!!a, "an authority");
    a->key = EVP_EC_gen("P-256");
    a->certificate = blank(a->key, &common, -A_DAY, A_DAY);
    X509_set_issuer_name(a->certificate, X509_get_subject_name(a->certificate));
    extend(a->certificate, NID_basic_constraints, "critical,CA:TRUE");
    need(X509_sign(a->certificate, a->key, EVP_sha256()), "a signature");
    return a;
}

void authority_free(authority *a)
{
    if (a) {
        EVP_PKEY_free(a->key);
        X509_free(a->certificate);
    }
    free(a);
}

static void write_certificate(X509 *x, const char *path)
{
    FILE *file = fopen(path, "we");

    need(file && PEM_write_X509(file, x), path);
    fclose(file);
}

void authority_write(const authority *a, const char *path)
{
    write_certificate(a->certificate, path);
}

static void add_dns_names(X509 *x, const certificate_name *dns)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();

    for (size_t i = 0; i < CERTIFICATE_DNS_MAX && dns[i].text; i++) {
        GENERAL_NAME *name = GENERAL_NAME_new();
        ASN1_IA5STRING *text = ASN1_IA5STRING_new();
        ASN1_STRING_set(text, dns[i].text, length(&dns[i]));
        GENERAL_NAME_set0_value(name, GEN_DNS, text);
        sk_GENERAL_NAME_push(names, name);
    }
    need(X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1, "DNS names");
    GENERAL_NAMES_free(names);
}

void authority_sign(const authority *a, const certificate_wish *wish, const char *certificate_path,
                    const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = blank(key, &wish->common, wish->valid_from_s, wish->valid_until_s ? wish->valid_until_s : A_DAY);

    X509_set_issuer_name(x, X509_get_subject_name(a->certificate));
    if (wish->dns[0].text)
        add_dns_names(x, wish->dns);
    if (wish->alternatives)
        extend(x, NID_subject_alt_name, wish->alternatives);
    if (wish->usage)
        extend(x, NID_ext_key_usage, wish->usage);
    need(X509_sign(x, a->key, EVP_sha256()), "a signature");
    write_certificate(x, certificate_path);

    FILE *file = fopen(key_path, "we");
    need(file && PEM_write_PrivateKey(file, key, wish->password ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
                                      (void *)(uintptr_t)wish->password),
         key_path);
    fclose(file);
    X509_free(x);
    EVP_PKEY_free(key);
}
