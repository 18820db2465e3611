#pragma once
/// One HTTPS request to a server, and its answer. By libcurl, 7.85 or later.
///
/// Use:     start();                                             // once, before there are threads
///          const Answer a = ask({.url = "https://mta-sts.example.org/.well-known/mta-sts.txt", …});
///          if (a.outcome == Outcome::ok && a.status == 200) … a.body …
/// Trusts:  TLS 1.2 or later; a chain to an authority of ca_file and a certificate for the URL's host.
/// Never:   redirects, proxies, cookies, credentials or a cache, whatever the environment variables say.
/// Bounds:  `limit` bounds the time of the whole request; max_body and max_header bound the received bytes.
/// Thread:  any; it blocks. The file of authorities is read for each request.
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

  // With a content type the request is a POST, else a GET.
  std::string content_type = {}, content = {};
  std::vector<std::string> fields = {};  // more of them: "X-Name: value"
  bool clear_text = false;               // the URL may be http too

  /// Numeric addresses of the host, tried in this order, at most kMaxAddresses; empty: the host's name is looked up.
  std::vector<std::string> addresses = {};
  /// Whether the certificate must have the host as a DNS name; its common name then never counts.
  bool by_dns_name = false;

  static constexpr std::size_t kMaxAddresses = 8;
};

/// authorities: ca_file cannot be read, or has none. Nothing was asked.
enum class Outcome { ok, certificate, authorities, body_too_large, header_too_large, failed };

struct Answer {
  Outcome outcome = Outcome::failed;
  long status = 0;   // 0: none; there may be one although the rest failed
  std::string type;  // Content-Type:, as it came
  std::string body;  // when outcome is ok
  std::string why;   // when outcome is not ok: for people
};

void start();
Answer ask(const Request& request);

}  // namespace pen::https
