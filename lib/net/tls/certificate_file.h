#pragma once
/// What a file with a certificate or a key in PEM says, for tools that check a configuration. TLS itself is set up by
/// context.h.
///
/// Use:     if (auto c = look_at_certificate(path); c && c->ends < now) … has expired
/// Thread:  any. Reads the file in place; a key with a password counts as no key.
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/net/tls/tlsa.h"

namespace pen::tls {

struct CertificateDates {
  WallTime begins, ends;
};
/// The first certificate in the file; nullopt: there is none that can be read.
std::optional<CertificateDates> look_at_certificate(const std::string& path);

/// Whether the file holds a private key that can be read.
bool holds_private_key(const std::string& path);
/// Whether the key of one file is that of the first certificate of another; nullopt: one of them cannot be read.
std::optional<bool> key_fits(const std::string& key_file, const std::string& certificate_file);

/// What is wrong with a text that must hold private keys, each before its certificate, as a value of
/// tls_server_sni_maps; empty: nothing. name: what is said to hold it.
std::string fault_of_chains(const std::string& pem, const std::string& name);

/// Whether the first certificate in the file is for this host name; nullopt: there is none that can be read.
std::optional<bool> certificate_names(const std::string& path, const std::string& host);
/// Whether a TLSA record (tlsa.h) for the host itself, of usage 1 or 3, is of the first certificate in the file, or one
/// for an authority (0 or 2) of any certificate in it. nullopt: none can be read.
std::optional<bool> certificate_fits(const std::string& path, const Tlsa& record);

}  // namespace pen::tls
