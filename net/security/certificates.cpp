#include "troupe/net/security/certificates.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <memory>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdexcept>
#include <string_view>

namespace troupe::net {

namespace {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* x) const {
    Free(x);
  }
};

template <class T, auto Free>
using owned = std::unique_ptr<T, freed_by<Free>>;

using key_ptr = owned<EVP_PKEY, EVP_PKEY_free>;
using certificate_ptr = owned<X509, X509_free>;
using bio_ptr = owned<BIO, BIO_free>;
using names_ptr = owned<GENERAL_NAMES, GENERAL_NAMES_free>;

/// @returns the result of an OpenSSL call.
/// @errors throws std::runtime_error with OpenSSL's reason if the result is
///         null or 0.
template <class T>
T must(T x, const char* what) {
  if (x)
    return x;
  char why[256] = "no reason given";
  if (const auto code = ERR_get_error())
    ERR_error_string_n(code, why, sizeof why);
  ERR_clear_error();
  throw std::runtime_error(std::string{"OpenSSL cannot "} + what + ": " + why);
}

bool is_host_name(std::string_view text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'
           || c == '.';
  };
  return !text.empty() && text.size() <= 253 && std::ranges::all_of(text, fits)
         && text.front() != '.' && text.find("..") == text.npos;
}

/// Makes a DNS name or an IP address entry of a certificate.
GENERAL_NAME* make_name(const std::string& host) {
  owned<GENERAL_NAME, GENERAL_NAME_free> name{
    must(GENERAL_NAME_new(), "make a name")};
  unsigned char bytes[16];
  const int size = ::inet_pton(AF_INET, host.c_str(), bytes) == 1    ? 4
                   : ::inet_pton(AF_INET6, host.c_str(), bytes) == 1 ? 16
                                                                     : 0;
  if (size == 0 && !is_host_name(host))
    throw std::invalid_argument(
      "host \"" + host
      + "\" is not valid: use a name or an address, as in "
        "worker-1.example or 127.0.0.1");
  auto* text =
    ASN1_STRING_type_new(size ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
  GENERAL_NAME_set0_value(name.get(), size ? GEN_IPADD : GEN_DNS,
                          must(text, "make a name"));
  must(size ? ASN1_STRING_set(text, bytes, size)
            : ASN1_STRING_set(text, host.data(), static_cast<int>(host.size())),
       "make a name");
  return name.release();
}

void add_hosts(X509* to, const std::vector<std::string>& hosts) {
  const names_ptr names{must(GENERAL_NAMES_new(), "make a list of names")};
  for (const auto& host : hosts)
    must(sk_GENERAL_NAME_push(names.get(), make_name(host)), "add a name");
  must(X509_add1_ext_i2d(to, NID_subject_alt_name, names.get(), 0,
                         X509V3_ADD_DEFAULT),
       "add the names");
}

void add(X509* to, X509* authority, int what, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, authority, to, nullptr, nullptr, 0);
  const owned<X509_EXTENSION, X509_EXTENSION_free> made{must(
    X509V3_EXT_conf_nid(nullptr, &context, what, value), "make an extension")};
  must(X509_add_ext(to, made.get(), -1), "add an extension");
}

void set_serial(X509* to) {
  unsigned char bytes[16];
  must(RAND_bytes(bytes, sizeof bytes) == 1, "draw a number");
  bytes[0] = (bytes[0] & 0x7F) | 0x40; // positive and of constant length
  const owned<BIGNUM, BN_free> number{
    must(BN_bin2bn(bytes, sizeof bytes, nullptr), "make a number")};
  must(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(to)),
       "set the number");
}

/// Makes a certificate without issuer, extensions and signature.
certificate_ptr draft(const certificate_options& x, EVP_PKEY* key) {
  if (x.name.empty() || x.name.size() > 64)
    throw std::invalid_argument("a certificate's name of "
                                + std::to_string(x.name.size())
                                + " bytes: use 1 to 64");
  if (x.not_after <= x.not_before)
    throw std::invalid_argument("a certificate that expires before it is "
                                "valid: use a not_after later than not_before");
  certificate_ptr it{must(X509_new(), "make a certificate")};
  must(X509_set_version(it.get(), X509_VERSION_3), "set the version");
  set_serial(it.get());
  using clock = std::chrono::system_clock;
  must(ASN1_TIME_set(X509_getm_notBefore(it.get()),
                     clock::to_time_t(x.not_before)),
       "set a time");
  must(
    ASN1_TIME_set(X509_getm_notAfter(it.get()), clock::to_time_t(x.not_after)),
    "set a time");
  must(X509_NAME_add_entry_by_txt(
         X509_get_subject_name(it.get()), "CN", MBSTRING_UTF8,
         reinterpret_cast<const unsigned char*>(x.name.data()),
         static_cast<int>(x.name.size()), -1, 0),
       "set the name");
  must(X509_set_pubkey(it.get(), key), "set the key");
  return it;
}

std::string text_of(BIO* from) {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(from, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

identity written(X509* certificate, EVP_PKEY* key) {
  const bio_ptr a{must(BIO_new(BIO_s_mem()), "write")};
  const bio_ptr b{must(BIO_new(BIO_s_secmem()), "write")};
  must(PEM_write_bio_X509(a.get(), certificate), "write a certificate");
  must(PEM_write_bio_PrivateKey(b.get(), key, nullptr, nullptr, 0, nullptr,
                                nullptr),
       "write a key");
  return {text_of(a.get()), text_of(b.get())};
}

bio_ptr reading(const std::string& text) {
  return bio_ptr{
    must(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), "read")};
}

/// Password callback for encrypted keys, which are not supported.
int no_password(char*, int, int, void*) {
  return -1;
}

struct issuer {
  certificate_ptr certificate;
  key_ptr key;
};

issuer read_authority(const identity& x) {
  issuer by{certificate_ptr{PEM_read_bio_X509(reading(x.certificate).get(),
                                              nullptr, no_password, nullptr)},
            key_ptr{PEM_read_bio_PrivateKey(reading(x.key).get(), nullptr,
                                            no_password, nullptr)}};
  ERR_clear_error();
  if (!by.certificate)
    throw bad_authority("the authority's certificate cannot be read; "
                        "use a PEM file");
  if (!by.key)
    throw bad_authority("the authority's key cannot be read; use an "
                        "unencrypted PEM file");
  if (X509_check_private_key(by.certificate.get(), by.key.get()) != 1
      || X509_check_ca(by.certificate.get()) != 1) {
    ERR_clear_error();
    throw bad_authority("this certificate and key are not those of an "
                        "authority; use the authority's own");
  }
  return by;
}

key_ptr make_key() {
  return key_ptr{must(EVP_EC_gen("P-256"), "make a key")};
}

} // namespace

identity make_authority(const certificate_options& options) {
  const auto key = make_key();
  const auto it = draft(options, key.get());
  must(X509_set_issuer_name(it.get(), X509_get_subject_name(it.get())),
       "set the issuer");
  add(it.get(), it.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add(it.get(), it.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add(it.get(), it.get(), NID_subject_key_identifier, "hash");
  must(X509_sign(it.get(), key.get(), EVP_sha256()), "sign");
  return written(it.get(), key.get());
}

identity make_certificate(const identity& authority,
                          const certificate_options& options) {
  const auto by = read_authority(authority);
  const auto key = make_key();
  const auto it = draft(options, key.get());
  must(
    X509_set_issuer_name(it.get(), X509_get_subject_name(by.certificate.get())),
    "set the issuer");
  auto* from = by.certificate.get();
  add(it.get(), from, NID_basic_constraints, "critical,CA:FALSE");
  add(it.get(), from, NID_key_usage, "critical,digitalSignature");
  add(it.get(), from, NID_ext_key_usage, "serverAuth,clientAuth");
  add(it.get(), from, NID_subject_key_identifier, "hash");
  add(it.get(), from, NID_authority_key_identifier, "keyid:always");
  if (!options.hosts.empty())
    add_hosts(it.get(), options.hosts);
  must(X509_sign(it.get(), by.key.get(), EVP_sha256()), "sign");
  return written(it.get(), key.get());
}

} // namespace troupe::net
