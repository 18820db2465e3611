#pragma once
/// Makes a message of what a client says in JSON: header, text, HTML and attachments by MIME, and the envelope.
///
/// Use:     auto made = compose(std::move(request), {.message_id = …, .date = …, .boundary = …});
/// Form:    CRLF at the end of each line, lines of at most 998 bytes, ASCII alone, but for addresses whose local part
///          is not ASCII (needs_smtputf8). Text and HTML: 7bit, quoted-printable or base64, whatever is shortest to
///          read. multipart/alternative holds text and HTML, multipart/related the HTML with its attachments that
///          have a cid, multipart/mixed those and the other attachments.
/// Safe:    no text of the request ends a field, begins one, or ends a part: control characters are refused in all that
///          comes into the header, and a boundary begins with "=_", which neither encoding can have. Text that is 7bit
///          and has such a line is quoted-printable.
/// Errors:  422 and a sentence for the client.
/// Source:  RFC 5322, RFC 2045 to 2047, RFC 2183, RFC 2231, RFC 2387, RFC 2392, RFC 6532.
/// Pure; any thread.
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "penapi/http.h"
#include "penapi/mail_request.h"

namespace pen::api {

/// An envelope as the client gives it. Addresses are in external form.
struct HandedEnvelope {
  std::string sender;  // empty: the null sender
  std::vector<std::string> recipients;
  bool needs_smtputf8 = false;
};

struct HandedMail {
  HandedEnvelope envelope;
  std::string content;
  std::string message_id;  // "<…>"; empty: the content's own, or none
};

struct ComposeFacts {
  std::string message_id;  // "<…>", unless the client names one
  std::string date;        // of the field Date
  std::string boundary;    // visible ASCII, at most 40 bytes; "=_" comes before it
};

std::expected<HandedMail, Refusal> compose(MailRequest request, const ComposeFacts& facts);

/// A message that is one already, with the envelope of the query: from, and to with commas between addresses. Bare LF
/// becomes CRLF.
std::expected<HandedMail, Refusal> take_message(std::string content, const std::map<std::string, std::string>& query);

/// An address for the envelope: in external form, a domain with U-labels as A-labels.
std::expected<std::string, std::string> envelope_address(std::string_view text);

}  // namespace pen::api
