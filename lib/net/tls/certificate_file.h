#pragma once
/// What a file with a certificate or a key in PEM says, for whoever looks at a configuration. TLS itself is set up by
/// context.h.
///
/// Use:     if (auto c = look_at_certificate(path); c && c->ends < now) … has expired
/// Thread:  any. Reads the file in place; a key with a password counts as none.
#include <optional>
#include <string>

#include "lib/base/time.h"

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

}  // namespace pen::tls
