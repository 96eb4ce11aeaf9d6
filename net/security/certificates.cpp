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
struct openssl_deleter {
  template <class T>
  void operator()(T* x) const {
    Free(x);
  }
};

template <class T, auto Free>
using openssl_ptr = std::unique_ptr<T, openssl_deleter<Free>>;

using key_ptr = openssl_ptr<EVP_PKEY, EVP_PKEY_free>;
using certificate_ptr = openssl_ptr<X509, X509_free>;
using bio_ptr = openssl_ptr<BIO, BIO_free>;
using names_ptr = openssl_ptr<GENERAL_NAMES, GENERAL_NAMES_free>;

/// Returns `x`, the result of an OpenSSL call.
/// @errors throws std::runtime_error with OpenSSL's reason if `x` is null or 0.
template <class T>
T checked(T x, const char* action) {
  if (x)
    return x;
  char reason[256] = "no reason given";
  if (const auto code = ERR_get_error())
    ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  throw std::runtime_error(std::string{"OpenSSL cannot "} + action + ": "
                           + reason);
}

bool is_host_name(std::string_view text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'
           || c == '.';
  };
  return !text.empty() && text.size() <= 253 && std::ranges::all_of(text, fits)
         && text.front() != '.' && text.find("..") == text.npos;
}

/// Makes a subject alternative name of a certificate: a DNS name or an IP
/// address.
GENERAL_NAME* make_name(const std::string& host) {
  openssl_ptr<GENERAL_NAME, GENERAL_NAME_free> name{
    checked(GENERAL_NAME_new(), "make a name")};
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
                          checked(text, "make a name"));
  checked(size
            ? ASN1_STRING_set(text, bytes, size)
            : ASN1_STRING_set(text, host.data(), static_cast<int>(host.size())),
          "make a name");
  return name.release();
}

void add_hosts(X509* certificate, const std::vector<std::string>& hosts) {
  const names_ptr names{checked(GENERAL_NAMES_new(), "make a list of names")};
  for (const auto& host : hosts)
    checked(sk_GENERAL_NAME_push(names.get(), make_name(host)), "add a name");
  checked(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0,
                            X509V3_ADD_DEFAULT),
          "add the names");
}

void add_extension(X509* certificate, X509* authority, int extension_id,
                   const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, authority, certificate, nullptr, nullptr, 0);
  const openssl_ptr<X509_EXTENSION, X509_EXTENSION_free> extension{
    checked(X509V3_EXT_conf_nid(nullptr, &context, extension_id, value),
            "make an extension")};
  checked(X509_add_ext(certificate, extension.get(), -1), "add an extension");
}

void set_serial(X509* certificate) {
  unsigned char bytes[16];
  checked(RAND_bytes(bytes, sizeof bytes) == 1, "draw a number");
  // the number is positive and always has 16 bytes
  bytes[0] = (bytes[0] & 0x7F) | 0x40;
  const openssl_ptr<BIGNUM, BN_free> number{
    checked(BN_bin2bn(bytes, sizeof bytes, nullptr), "make a number")};
  checked(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)),
          "set the number");
}

/// Makes a certificate that still lacks issuer, extensions and signature.
certificate_ptr draft(const certificate_options& options, EVP_PKEY* key) {
  if (options.name.empty() || options.name.size() > 64)
    throw std::invalid_argument("a certificate's name of "
                                + std::to_string(options.name.size())
                                + " bytes: use 1 to 64");
  if (options.not_after <= options.not_before)
    throw std::invalid_argument("a certificate that expires before it is "
                                "valid: use a not_after later than not_before");
  certificate_ptr certificate{checked(X509_new(), "make a certificate")};
  checked(X509_set_version(certificate.get(), X509_VERSION_3),
          "set the version");
  set_serial(certificate.get());
  using clock = std::chrono::system_clock;
  checked(ASN1_TIME_set(X509_getm_notBefore(certificate.get()),
                        clock::to_time_t(options.not_before)),
          "set a time");
  checked(ASN1_TIME_set(X509_getm_notAfter(certificate.get()),
                        clock::to_time_t(options.not_after)),
          "set a time");
  checked(X509_NAME_add_entry_by_txt(
            X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
            reinterpret_cast<const unsigned char*>(options.name.data()),
            static_cast<int>(options.name.size()), -1, 0),
          "set the name");
  checked(X509_set_pubkey(certificate.get(), key), "set the key");
  return certificate;
}

std::string text_of(BIO* from) {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(from, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

certified_key to_pem(X509* certificate, EVP_PKEY* key) {
  const bio_ptr a{checked(BIO_new(BIO_s_mem()), "write")};
  const bio_ptr b{checked(BIO_new(BIO_s_secmem()), "write")};
  checked(PEM_write_bio_X509(a.get(), certificate), "write a certificate");
  checked(PEM_write_bio_PrivateKey(b.get(), key, nullptr, nullptr, 0, nullptr,
                                   nullptr),
          "write a key");
  return {text_of(a.get()), text_of(b.get())};
}

bio_ptr memory_bio(const std::string& text) {
  return bio_ptr{checked(
    BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), "read")};
}

/// Password callback of OpenSSL. It always fails, because encrypted keys are
/// not supported.
int no_password(char*, int, int, void*) {
  return -1;
}

struct issuer {
  certificate_ptr certificate;
  key_ptr key;
};

issuer read_authority(const certified_key& authority) {
  issuer signer{
    certificate_ptr{PEM_read_bio_X509(memory_bio(authority.certificate).get(),
                                      nullptr, no_password, nullptr)},
    key_ptr{PEM_read_bio_PrivateKey(memory_bio(authority.key).get(), nullptr,
                                    no_password, nullptr)}};
  ERR_clear_error();
  if (!signer.certificate)
    throw invalid_authority("the authority's certificate cannot be read; "
                            "use a PEM file");
  if (!signer.key)
    throw invalid_authority("the authority's key cannot be read; use an "
                            "unencrypted PEM file");
  if (X509_check_private_key(signer.certificate.get(), signer.key.get()) != 1
      || X509_check_ca(signer.certificate.get()) != 1) {
    ERR_clear_error();
    throw invalid_authority("this certificate and key are not those of an "
                            "authority; use the authority's own");
  }
  return signer;
}

key_ptr make_key() {
  return key_ptr{checked(EVP_EC_gen("P-256"), "make a key")};
}

} // namespace

certified_key make_authority(const certificate_options& options) {
  const auto key = make_key();
  const auto certificate = draft(options, key.get());
  checked(X509_set_issuer_name(certificate.get(),
                               X509_get_subject_name(certificate.get())),
          "set the issuer");
  add_extension(certificate.get(), certificate.get(), NID_basic_constraints,
                "critical,CA:TRUE,pathlen:0");
  add_extension(certificate.get(), certificate.get(), NID_key_usage,
                "critical,keyCertSign,cRLSign");
  add_extension(certificate.get(), certificate.get(),
                NID_subject_key_identifier, "hash");
  checked(X509_sign(certificate.get(), key.get(), EVP_sha256()), "sign");
  return to_pem(certificate.get(), key.get());
}

certified_key make_certificate(const certified_key& authority,
                               const certificate_options& options) {
  const auto signer = read_authority(authority);
  const auto key = make_key();
  const auto certificate = draft(options, key.get());
  checked(X509_set_issuer_name(certificate.get(),
                               X509_get_subject_name(signer.certificate.get())),
          "set the issuer");
  auto* issuer_certificate = signer.certificate.get();
  add_extension(certificate.get(), issuer_certificate, NID_basic_constraints,
                "critical,CA:FALSE");
  add_extension(certificate.get(), issuer_certificate, NID_key_usage,
                "critical,digitalSignature");
  add_extension(certificate.get(), issuer_certificate, NID_ext_key_usage,
                "serverAuth,clientAuth");
  add_extension(certificate.get(), issuer_certificate,
                NID_subject_key_identifier, "hash");
  add_extension(certificate.get(), issuer_certificate,
                NID_authority_key_identifier, "keyid:always");
  if (!options.hosts.empty())
    add_hosts(certificate.get(), options.hosts);
  checked(X509_sign(certificate.get(), signer.key.get(), EVP_sha256()), "sign");
  return to_pem(certificate.get(), key.get());
}

} // namespace troupe::net
