#include "lib/net/tls/facts.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "lib/base/text.h"

namespace pen::tls {
namespace {

constexpr std::size_t kMaxNames = 100;     // names of one certificate
constexpr std::size_t kMaxNameText = 256;  // bytes of a name, in logs and headers

std::string hex_of(const unsigned char* bytes, unsigned size) {
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{}{:02X}", i == 0 ? "" : ":", bytes[i]);
  return out;
}

std::string fingerprint_of(const unsigned char* bytes, std::size_t size, const EVP_MD* digest) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes, size, hash, &length, digest, nullptr) != 1) return {};
  return hex_of(hash, length);
}

/// A part of a name as UTF-8, without characters that could end a line; empty: there is none.
std::string name_part(const X509_NAME* name, int nid) {
  const int at = X509_NAME_get_index_by_NID(name, nid, -1);
  if (at < 0) return {};
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return {};
  std::string out(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return printable(out, kMaxNameText);
}

/// A DNS name of a certificate; empty if it is not all printable ASCII: a NUL inside, say, is a forger's trick.
std::string dns_name(const ASN1_STRING* text) {
  const auto size = static_cast<std::size_t>(ASN1_STRING_length(text));
  const std::string out(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), size);
  for (const char c : out)
    if (static_cast<unsigned char>(c) <= 32 || static_cast<unsigned char>(c) >= 127) return {};
  return out.substr(0, kMaxNameText);
}

std::vector<std::string> names_of(X509* certificate, const std::string& common_name) {
  std::vector<std::string> names;
  auto* all = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  bool any = false;
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all) && names.size() < kMaxNames; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_DNS) continue;
    any = true;
    if (auto text = dns_name(name->d.dNSName); !text.empty()) names.push_back(std::move(text));
  }
  GENERAL_NAMES_free(all);
  if (!any && !common_name.empty()) names.push_back(common_name);
  return names;
}

std::string curve_of(EVP_PKEY* key) {
  char name[80];
  std::size_t size = 0;
  return EVP_PKEY_get_group_name(key, name, sizeof name, &size) == 1 ? std::string(name, size) : std::string();
}

std::string exchange_name(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
    case EVP_PKEY_DH:
      return fmt::format("DHE ({} bits)", EVP_PKEY_get_bits(key));
    case EVP_PKEY_EC:
      return fmt::format("ECDHE ({})", curve_of(key));
    default: {
      const char* name = OBJ_nid2sn(EVP_PKEY_get_base_id(key));
      return name ? name : "unknown";
    }
  }
}

std::string signature_name(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
    case EVP_PKEY_RSA_PSS:
      return fmt::format("RSA-PSS ({} bits)", EVP_PKEY_get_bits(key));
    case EVP_PKEY_EC:
      return fmt::format("ECDSA ({})", curve_of(key));
    default: {
      const char* name = OBJ_nid2sn(EVP_PKEY_get_base_id(key));
      return name ? name : "unknown";
    }
  }
}

/// Adds key exchange and signatures, which the names of TLS 1.3 ciphers do not contain.
void add_tls13(SSL* ssl, SessionInfo& info) {
  if (SSL_version(ssl) < TLS1_3_VERSION) return;
  if (EVP_PKEY* key = nullptr; SSL_get_peer_tmp_key(ssl, &key) == 1 && key) {
    info.key_exchange = exchange_name(key);
    EVP_PKEY_free(key);
  }
  const bool server = SSL_is_server(ssl) == 1;
  int nid = NID_undef;
  std::string own, own_digest, peer, peer_digest;
  if (SSL_get_signature_nid(ssl, &nid) == 1 && nid != NID_undef) {
    if (EVP_PKEY* key = SSL_get_privatekey(ssl)) {
      own = signature_name(key);
      own_digest = OBJ_nid2sn(nid);
    }
  }
  nid = NID_undef;
  if (SSL_get_peer_signature_nid(ssl, &nid) == 1 && nid != NID_undef) {
    if (X509* certificate = SSL_get0_peer_certificate(ssl)) {
      peer = signature_name(X509_get0_pubkey(certificate));
      peer_digest = OBJ_nid2sn(nid);
    }
  }
  info.server_signature = server ? own : peer;
  info.server_digest = server ? own_digest : peer_digest;
  info.client_signature = server ? peer : own;
  info.client_digest = server ? peer_digest : own_digest;
}

SessionInfo facts(SSL* ssl, const ContextOptions& context) {
  SessionInfo info;
  info.protocol = SSL_get_version(ssl);
  if (const SSL_CIPHER* cipher = SSL_get_current_cipher(ssl)) {
    info.cipher = SSL_CIPHER_get_name(cipher);
    info.used_bits = SSL_CIPHER_get_bits(cipher, &info.cipher_bits);
  }
  info.resumed = SSL_session_reused(ssl) == 1;
  if (const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name))
    info.server_name = printable(name, kMaxNameText);
  add_tls13(ssl, info);
  X509* certificate = SSL_get0_peer_certificate(ssl);
  if (!certificate) {
    info.why_not = "no certificate";
    return info;
  }
  info.peer_certificate = true;
  const EVP_MD* digest = EVP_get_digestbyname(context.digest.c_str());
  unsigned char* der = nullptr;
  if (const int size = i2d_X509(certificate, &der); size > 0) {
    info.fingerprint = fingerprint_of(der, static_cast<std::size_t>(size), digest);
    OPENSSL_free(der);
  }
  der = nullptr;
  if (context.legacy_key_digest) {
    const ASN1_BIT_STRING* bits = X509_get0_pubkey_bitstr(certificate);
    if (bits != nullptr)
      info.key_fingerprint = fingerprint_of(bits->data, static_cast<std::size_t>(bits->length), digest);
  } else if (const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der); size > 0) {
    info.key_fingerprint = fingerprint_of(der, static_cast<std::size_t>(size), digest);
    OPENSSL_free(der);
  }
  info.subject = name_part(X509_get_subject_name(certificate), NID_commonName);
  info.issuer = name_part(X509_get_issuer_name(certificate), NID_commonName);
  if (info.issuer.empty()) info.issuer = name_part(X509_get_issuer_name(certificate), NID_organizationName);
  info.names = names_of(certificate, info.subject);
  if (const long verdict = SSL_get_verify_result(ssl); verdict == X509_V_OK)
    info.trusted = true;
  else
    info.why_not = X509_verify_cert_error_string(verdict);
  return info;
}

}  // namespace

SessionInfo server_facts(SSL* ssl, const ContextOptions& context) {
  SessionInfo info = facts(ssl, context);
  ERR_clear_error();
  return info;
}

SessionInfo client_facts(SSL* ssl, const ContextOptions& context, const ConnectOptions& asked) {
  SessionInfo info = facts(ssl, context);
  X509* certificate = SSL_get0_peer_certificate(ssl);
  if (info.trusted && certificate) {
    // DANE has checked the names itself, where RFC 7672 requires that.
    info.matched = !asked.tlsa.empty();
    unsigned flags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
    if (asked.strict_names)
      flags |= X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
    else if (context.wildcard_matches_several_labels)
      flags |= X509_CHECK_FLAG_MULTI_LABEL_WILDCARDS;
    for (std::size_t i = 0; !info.matched && i < asked.names.size(); ++i) {
      const std::string& name = asked.names[i];
      info.matched = !name.empty() && X509_check_host(certificate, name.data(), name.size(), flags, nullptr) == 1;
    }
    if (!info.matched && !asked.names.empty())
      info.why_not = "the certificate is for " +
                     (info.names.empty() ? "no host" : join(info.names, ", ").substr(0, 512)) + ", not for " +
                     join(asked.names, " or ");
  }
  ERR_clear_error();
  return info;
}

std::string_view trust_word(const SessionInfo& info) {
  if (!info.peer_certificate) return "Anonymous";
  if (info.matched) return "Verified";
  return info.trusted ? "Trusted" : "Untrusted";
}

std::string log_line(const SessionInfo& info, std::string_view direction, std::string_view peer) {
  // Shown when the client asked for one of our names.
  const std::string asked = direction == "from" ? info.server_name : std::string();
  std::string line = fmt::format("{} TLS connection established {} {}{}{}: {} with cipher {} ({}/{} bits)",
                                 trust_word(info), direction, peer, asked.empty() ? "" : " to ", asked, info.protocol,
                                 info.cipher, info.used_bits, info.cipher_bits);
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) line += fmt::format(" {} {}", what, value);
  };
  add("key-exchange", info.key_exchange);
  add("server-signature", info.server_signature);
  add("server-digest", info.server_digest);
  add("client-signature", info.client_signature);
  add("client-digest", info.client_digest);
  return line;
}

}  // namespace pen::tls
