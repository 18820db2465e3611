#pragma once
/// Conversations with the process that holds private keys: it signs and decrypts, and never gives a key away.
///
/// Names:   one for each use of a key. Which one a client opens says what it may ask for on that connection.
/// Asking:  many requests may be under way; answers come in any order.
/// Lost:    with the connection. Asking again is harmless.
/// Source:  docs/keys.md.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/text.h"

namespace pen::ipc::keys {

inline constexpr std::string_view kServerName = "tls_server_keys";
inline constexpr std::string_view kClientName = "tls_client_keys";
inline constexpr std::string_view kDkimName = "dkim_keys";

// The signer checks them too: it refuses what is longer.
inline constexpr std::size_t kMostText = 512;         // what Ed25519 signs in TLS
inline constexpr std::size_t kMostCiphertext = 1024;  // RSA of 8192 bits

/// What is done, whole: no caller puts a padding and a digest together itself.
enum class Scheme : std::uint8_t {
  rsa_pkcs1_sha256,
  rsa_pkcs1_sha384,
  rsa_pkcs1_sha512,
  rsa_pss_sha256,  // the salt is as long as the digest, MGF1 with the same digest
  rsa_pss_sha384,
  rsa_pss_sha512,
  ecdsa_sha256,
  ecdsa_sha384,
  ecdsa_sha512,
  ed25519,
};
inline constexpr auto kLastScheme = Scheme::ed25519;

enum class Refusal : std::uint8_t {
  none,
  unknown_key,  // or one that is not for this use: which of them is nobody's business
  scheme,       // not of this key's type, or not for this use
  size,
  failed,
};

// smtpd, smtp, … → keys
/// Which keys there are for this use, in the order of their names: those behind this one ("": from the first, and files
/// that have changed are read again).
struct List {
  std::uint64_t request = 0;
  std::string_view after;
  PEN_FIELDS(request, after)
};
struct Sign {
  std::uint64_t request = 0;
  std::string_view key;  // id: SHA-256 of the public key (SubjectPublicKeyInfo), 32 raw bytes
  Scheme scheme = Scheme::rsa_pkcs1_sha256;
  std::string_view data;  // the digest; for ed25519 all that is signed
  PEN_FIELDS(request, key, scheme, data)
};
/// The premaster secret of a TLS 1.2 handshake with RSA key exchange.
struct Decrypt {
  std::uint64_t request = 0;
  std::string_view key;
  std::uint16_t version = 0;  // that the client's hello named
  std::string_view data;
  PEN_FIELDS(request, key, version, data)
};

/// The certificates for the name that a TLS client asked for: Listed, with no key where the usual certificates are
/// meant.
struct Find {
  std::uint64_t request = 0;
  std::string_view maps;  // the asker's tls_server_sni_maps; others than the settings name are empty
  std::string_view name;
  PEN_FIELDS(request, maps, name)
};

// keys → smtpd, smtp, …
struct Held {
  std::string name;          // pair_name(), chain_name(), dkim_name()
  std::string id;            // empty: there is no key, and `error` says why
  std::string public_key;    // SubjectPublicKeyInfo, DER
  std::string certificates;  // PEM, the key's own first; empty with DKIM
  std::string error;         // what is wrong with the files as they are now
  PEN_FIELDS(name, id, public_key, certificates, error)
};
struct Listed {
  std::uint64_t request = 0;
  std::vector<Held> keys;
  bool more = false;
  PEN_FIELDS(request, keys, more)
};
/// Of Sign and Decrypt. data is empty with a refusal. A decrypted secret is 48 bytes whatever was sent: random ones
/// where the padding is wrong, so that nobody learns that it is (RFC 5246 section 7.4.7.1).
struct Done {
  std::uint64_t request = 0;
  Refusal refusal = Refusal::none;
  std::string data;
  PEN_FIELDS(request, refusal, data)
};

using ToKeys = std::variant<List, Sign, Decrypt, Find>;
using FromKeys = std::variant<Listed, Done>;

/// What a certificate is called that stands in these files. key_file: empty where it is the same.
inline std::string pair_name(const std::string& cert_file, const std::string& key_file) {
  return key_file.empty() || key_file == cert_file ? cert_file : cert_file + "\n" + key_file;
}
/// The one of that number, from 1 on, in the files of chains that a setting lists, or of a server's name. Number 0
/// stands for what is wrong with them.
inline std::string chain_name(const std::string& files, std::size_t number) {
  return files + "\n#" + std::to_string(number);
}
inline std::string chain_name(const std::vector<std::string>& files, std::size_t number) {
  return chain_name(join(files), number);
}
/// A line of a key table. Of a table that cannot be listed (a look-up, or with % in it) there is one with an empty name
/// and neither key nor error: the signer reads it.
inline std::string dkim_name(const std::string& table, const std::string& name, const std::string& domain,
                             const std::string& selector) {
  return table + "\n" + name + "\n" + domain + "\n" + selector;
}

}  // namespace pen::ipc::keys
