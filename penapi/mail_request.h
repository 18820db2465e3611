#pragma once
/// What a client that hands in mail says in JSON: the message in parts, and its envelope.
///
/// Use:     auto mail = parse_mail_request(body);        // an error is the status and the sentence for the client
/// Form:    one object with the names of MailRequest, and no others; docs/http-submission.md has them. It is read
///          without a tree: what has another form is refused where it stands, and memory goes by the texts of the
///          request.
/// Errors:  400: it is no JSON. 422: it is JSON of another form.
/// Pure; any thread.
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penapi/http.h"

namespace pen::api {

struct Attachment {
  std::string name, type, content, cid;  // content: decoded
};

struct MailRequest {
  std::string from, subject;
  std::vector<std::string> to, cc, bcc, reply_to, recipients;
  std::optional<std::string> envelope_from, text, html;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<Attachment> attachments;
};

inline constexpr std::size_t kMaxAddresses = 10'000;  // of a list
inline constexpr std::size_t kMaxHeaders = 100, kMaxAttachments = 1000;

std::expected<MailRequest, Refusal> parse_mail_request(std::string_view body);

}  // namespace pen::api
