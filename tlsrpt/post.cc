#include "tlsrpt/post.h"

#include <fmt/format.h>

#include "lib/net/https/client.h"

namespace pen::tlsrpt {

void post_start() { https::start(); }

Result<void> post_report(const std::string& url, const std::string& compressed, const PostOptions& options) {
  const https::Answer answer = https::ask({.url = url,
                                           .ca_file = options.ca_file,
                                           .agent = options.agent,
                                           .limit = PostOptions::kTime,
                                           .max_body = PostOptions::kMaxAnswer,
                                           .content_type = "application/tlsrpt+gzip",
                                           .content = compressed});
  // An answer too long to be read is still an answer.
  if (answer.outcome != https::Outcome::ok && answer.outcome != https::Outcome::body_too_large)
    return fail(PostError::failed, answer.why);
  if (answer.status < 200 || answer.status > 299)
    return fail(PostError::refused, fmt::format("status {}", answer.status));
  return {};
}

}  // namespace pen::tlsrpt
