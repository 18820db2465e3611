#pragma once
/// One request to a server by HTTPS, and its answer. By libcurl, 7.85 or later.
///
/// Use:     start();                                             // once, before there are threads
///          const Answer a = ask({.url = "https://mta-sts.example.org/.well-known/mta-sts.txt", …});
///          if (a.outcome == Outcome::ok && a.status == 200) … a.body …
/// Trusts:  TLS 1.2 or later; a chain to an authority of ca_file and a certificate for the URL's host.
/// Never:   redirects, proxies, cookies, credentials or a cache, whatever the environment says.
/// Bounds:  limit in time for all of it; max_body and max_header bytes of the answer, as they are received.
/// Thread:  any; it blocks. The file of authorities is read at each request.
#include <cstddef>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace pen::https {

struct Request {
  std::string url = {};
  std::string ca_file = {};  // PEM; empty: the authorities that libcurl was built with
  std::string agent = {};    // User-Agent:
  milliseconds limit{60'000};
  std::size_t max_body = 64 * 1024, max_header = 32 * 1024;

  // With a content type it is a POST, else a GET.
  std::string content_type = {}, content = {};

  /// Numeric, of the host, tried in their order, the first kMaxAddresses; empty: the host's name is looked up.
  std::vector<std::string> addresses = {};
  /// The certificate has to name the host by a DNS name: its common name never counts.
  bool by_dns_name = false;

  static constexpr std::size_t kMaxAddresses = 8;
};

enum class Outcome { ok, certificate, body_too_large, header_too_large, failed };

struct Answer {
  Outcome outcome = Outcome::failed;
  long status = 0;   // 0: none came; there may be one although the rest failed
  std::string type;  // Content-Type:, as it came
  std::string body;  // ok
  std::string why;   // not ok: for people
};

void start();
Answer ask(const Request& request);

}  // namespace pen::https
