#pragma once
/// penstock tls probe: what other hosts offer in TLS, and what their certificates are worth. Manual: man/penstock.1.
///
/// Use:     return TlsProbe(settings, {.port = 25}).run({"example.org", "[mx.example.net]"});
/// Asks:    the MX hosts of a domain, or a host in brackets; of each the first address that answers. Sends EHLO,
///          STARTTLS and QUIT, and no mail.
/// Trusts:  the authorities that smtp trusts (smtp_tls_CAfile, smtp_tls_CApath), or those of the system if it has none;
///          with TLSA records that DNSSEC vouches for, these alone.
/// Returns: EX_OK: all hosts have certificates that are trusted and theirs; 1: some are not; EX_UNAVAILABLE: some host
///          does not answer, or offers no TLS.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

class TlsProbe {
 public:
  struct Options {
    int port = 25;
    bool wrapped = false;  // TLS from the first byte
  };
  TlsProbe(const config::Settings& settings, Options options) : settings_(settings), options_(options) {}
  int run(const std::vector<std::string>& targets);

 private:
  const config::Settings& settings_;
  Options options_;
};

}  // namespace pen::tools
