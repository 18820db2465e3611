#pragma once
/// Posts a report to an https: target (RFC 8460 section 5.4).
///
/// Use:     pool.run([…] { return post_report(url, compressed, options); });
/// Rules:   HTTPS only, the server's certificate verified by ca_file; redirects are not followed; any 2xx is success.
/// Bounds:  kTime in all; at most kMaxAnswer bytes of the answer's body are read.
/// Thread:  any; blocks. Call post_start() once before, while there is only one thread.
#include <string>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::tlsrpt {

enum class PostError { failed = 1, refused };
inline std::string_view error_module(PostError) { return "post"; }
inline std::string_view describe(PostError e) {
  return e == PostError::failed ? "cannot post" : "refused by the server";
}

struct PostOptions {
  static constexpr seconds kTime{60};
  static constexpr std::size_t kMaxAnswer = 65536;
  std::string ca_file;
  std::string agent;  // User-Agent:
};

void post_start();
/// Errors: failed (no connection, no TLS, no answer), refused (an answer that is not 2xx), with words for the log.
Result<void> post_report(const std::string& url, const std::string& compressed, const PostOptions& options);

}  // namespace pen::tlsrpt
